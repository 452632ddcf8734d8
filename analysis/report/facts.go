package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// uidOf returns the UID of the pod that an event is about; empty if there is none.
func uidOf(fact history.Fact) string {
	switch f := fact.(type) {
	case history.Commit:
		if f.Resource == "pods" {
			return f.UID
		}
	case history.OpCall:
		if f.Resource == "pods" {
			return f.PreUID
		}
	default:
		if of, ok := containerOf(fact); ok {
			return of.UID
		}
		return textField(fact, "UID")
	}
	return ""
}

// containerOf returns the container that an event is about.
func containerOf(fact history.Fact) (history.ContainerRef, bool) {
	value := reflect.ValueOf(fact)
	if value.Kind() != reflect.Struct {
		return history.ContainerRef{}, false
	}
	embedded := value.FieldByName(reflect.TypeFor[history.ContainerRef]().Name())
	if !embedded.IsValid() {
		return history.ContainerRef{}, false
	}
	of, ok := reflect.TypeAssert[history.ContainerRef](embedded)
	return of, ok
}

// textField returns a string field of a fact; empty if the fact has none of that name.
func textField(fact history.Fact, name string) string {
	value := reflect.ValueOf(fact)
	if value.Kind() != reflect.Struct {
		return ""
	}
	if text := value.FieldByName(name); text.IsValid() && text.Kind() == reflect.String {
		return text.String()
	}
	return ""
}

// nodeOf returns the node of a process, for example of kubelet/node-1; empty if there is none.
func nodeOf(process string) string {
	_, node, _ := strings.Cut(process, "/")
	return node
}

// eventMark is how an event is shown in a lane: its look, its row and its text.
type eventMark struct {
	kind string
	row  rowKind
	text string
}

// rowKind names a row of a lane.
type rowKind string

// The rows, from the top.
const (
	rowAPI        rowKind = "api"
	rowKubelet    rowKind = "kubelet"
	rowContainers rowKind = "containers"
	rowVolumes    rowKind = "volumes"
)

// markOf returns the mark of an event in its pod's lane. Events that only begin or end a bar, or
// are too frequent, have none.
func markOf(fact history.Fact) (eventMark, bool) {
	switch f := fact.(type) {
	case history.KubeletSee:
		return seeMark(f)
	case history.KubeletTerm:
		return eventMark{"term", rowKubelet, fmt.Sprintf("kubelet begins to stop the pod, within %ds", f.Grace)}, true
	case history.KubeletStuck:
		return eventMark{"stuck", rowKubelet, fmt.Sprintf("kubelet fails to %s: %s", f.Doing, f.Err)}, true
	case history.KubeletStatus:
		return eventMark{"status", rowKubelet, "the API has taken the status " + f.Phase}, true
	case history.KubeletFinal:
		if f.Err != "" {
			return eventMark{"stuck", rowKubelet, "the final delete was refused: " + f.Err}, true
		}
		return eventMark{"final", rowKubelet, "kubelet confirms: the final delete"}, true
	case history.Mount:
		return eventMark{"tick", rowVolumes, "volume " + f.Volume + " mounted"}, true
	case history.Unmount:
		return eventMark{"umount", rowVolumes, "volume " + f.Volume + " unmounted"}, true
	case history.SandboxStop:
		return eventMark{"tick", rowVolumes, "sandbox stopped"}, true
	case history.SandboxRemove:
		return eventMark{"tick", rowVolumes, "sandbox removed"}, true
	}
	return containerMark(fact)
}

func containerMark(fact history.Fact) (eventMark, bool) {
	of, ok := containerOf(fact)
	if !ok {
		return eventMark{}, false
	}
	name := of.ContainerName
	switch f := fact.(type) {
	case history.Start:
		return eventMark{"tick", rowContainers, name + " starts"}, true
	case history.PostStartBegin:
		return eventMark{"tick", rowContainers, name + ": the postStart hook begins"}, true
	case history.PreStopBegin:
		return eventMark{"tick", rowContainers, name + ": the preStop hook begins"}, true
	case history.Signal:
		if f.Signal == "SIGKILL" {
			return eventMark{"kill", rowContainers, name + " gets SIGKILL"}, true
		}
		return eventMark{"sig", rowContainers, name + " gets " + f.Signal}, true
	case history.Exit:
		return eventMark{"exit", rowContainers, fmt.Sprintf("%s exits with %d", name, f.Code)}, true
	}
	return eventMark{}, false
}

func seeMark(f history.KubeletSee) (eventMark, bool) {
	switch {
	case f.Op == "REMOVE":
		return eventMark{"see", rowKubelet, "kubelet sees that the object is gone"}, true
	case f.Grace != nil && f.Op != "RECONCILE":
		return eventMark{"see", rowKubelet, fmt.Sprintf("kubelet sees the mark: grace %ds", *f.Grace)}, true
	case f.Op == "ADD":
		return eventMark{"see", rowKubelet, "kubelet sees the pod"}, true
	}
	return eventMark{}, false
}

// commitMark returns the mark of a change of the pod's object; was is the version before.
func commitMark(was *history.Commit, now history.Commit) (eventMark, bool) {
	switch {
	case now.Op == "DELETED":
		return eventMark{"gone", rowAPI, fmt.Sprintf("the object is removed (rv %d)", now.Revision)}, true
	case was == nil && now.Op == "ADDED":
		return eventMark{"tick", rowAPI, fmt.Sprintf("created (rv %d)", now.Revision)}, true
	case now.Deadline != nil && (was == nil || was.Deadline == nil):
		return eventMark{"mark", rowAPI, fmt.Sprintf("marked: grace %ds, deadline %s (rv %d)", seconds(now.Grace), now.Deadline.UTC().Format("15:04:05"), now.Revision)}, true
	case was != nil && seconds(now.Grace) < seconds(was.Grace):
		return eventMark{"mark", rowAPI, fmt.Sprintf("grace shortened from %ds to %ds (rv %d)", seconds(was.Grace), seconds(now.Grace), now.Revision)}, true
	case was != nil && now.Phase != was.Phase:
		return eventMark{"tick", rowAPI, fmt.Sprintf("phase %s (rv %d)", now.Phase, now.Revision)}, true
	case was != nil && len(now.Finalizers) < len(was.Finalizers):
		return eventMark{"tick", rowAPI, fmt.Sprintf("finalizers left: %v (rv %d)", now.Finalizers, now.Revision)}, true
	case was != nil && now.Node != was.Node:
		return eventMark{"tick", rowAPI, fmt.Sprintf("bound to %s (rv %d)", now.Node, now.Revision)}, true
	}
	return eventMark{}, false
}

func seconds(grace *int64) int64 {
	if grace == nil {
		return 0
	}
	return *grace
}

// callMark returns the mark of a request to delete the pod.
func callMark(call history.OpCall) eventMark {
	grace := "its own grace"
	switch {
	case call.Grace != nil && *call.Grace == 0 && !strings.HasPrefix(call.Identity, "node:"):
		grace = "force, grace 0"
	case call.Grace != nil:
		grace = fmt.Sprintf("grace %ds", *call.Grace)
	}
	return eventMark{"call", rowAPI, fmt.Sprintf("%s asks for the deletion, %s", call.Identity, grace)}
}

// formatFields returns the fields of an event's fact as text.
func formatFields(e history.Event) string {
	data, err := json.Marshal(e.Fact)
	if err != nil {
		return err.Error()
	}
	var values map[string]any
	if json.Unmarshal(data, &values) != nil {
		return string(data)
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		words = append(words, fmt.Sprintf("%s=%v", name, values[name]))
	}
	return strings.Join(words, " ")
}
