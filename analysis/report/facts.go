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

// uidOf is the uid of the pod that an event is about; empty for one about none.
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
		return field(fact, "UID")
	}
	return ""
}

// containerOf is the container that an event is about.
func containerOf(fact history.Fact) (history.ContainerRef, bool) {
	value := reflect.ValueOf(fact)
	if value.Kind() != reflect.Struct {
		return history.ContainerRef{}, false
	}
	embedded := value.FieldByName("Of")
	if !embedded.IsValid() {
		return history.ContainerRef{}, false
	}
	of, ok := reflect.TypeAssert[history.ContainerRef](embedded)
	return of, ok
}

// field is a text in a fact; empty when it has none of that name.
func field(fact history.Fact, name string) string {
	value := reflect.ValueOf(fact)
	if value.Kind() != reflect.Struct {
		return ""
	}
	if text := value.FieldByName(name); text.IsValid() && text.Kind() == reflect.String {
		return text.String()
	}
	return ""
}

// nodeOf is the node of a process such as kubelet/node-1; empty for one of none.
func nodeOf(process string) string {
	_, node, _ := strings.Cut(process, "/")
	return node
}

// told is a mark of an event in one lane: what it looks like, on which row, and the words.
type told struct {
	kind string
	row  rowKind
	text string
}

// rowKind is a row of a lane.
type rowKind string

// The rows, from the top.
const (
	rowAPI        rowKind = "api"
	rowKubelet    rowKind = "kubelet"
	rowContainers rowKind = "containers"
	rowVolumes    rowKind = "volumes"
)

// tell is how an event is shown in the lane of the pod that it is about; nothing for one that
// only begins or ends a bar, or is too common.
func tell(fact history.Fact) (told, bool) {
	switch f := fact.(type) {
	case history.KubeletSee:
		return see(f)
	case history.KubeletTerm:
		return told{"term", rowKubelet, fmt.Sprintf("kubelet begins to stop the pod, within %ds", f.Grace)}, true
	case history.KubeletStuck:
		return told{"stuck", rowKubelet, fmt.Sprintf("kubelet fails to %s: %s", f.Doing, f.Err)}, true
	case history.KubeletStatus:
		return told{"status", rowKubelet, "the API has taken the status " + f.Phase}, true
	case history.KubeletFinal:
		if f.Err != "" {
			return told{"stuck", rowKubelet, "the final delete was refused: " + f.Err}, true
		}
		return told{"final", rowKubelet, "kubelet confirms: the final delete"}, true
	case history.Mount:
		return told{"tick", rowVolumes, "volume " + f.Volume + " mounted"}, true
	case history.Unmount:
		return told{"umount", rowVolumes, "volume " + f.Volume + " unmounted"}, true
	case history.SandboxStop:
		return told{"tick", rowVolumes, "sandbox stopped"}, true
	case history.SandboxRemove:
		return told{"tick", rowVolumes, "sandbox removed"}, true
	}
	return tellContainer(fact)
}

func tellContainer(fact history.Fact) (told, bool) {
	of, ok := containerOf(fact)
	if !ok {
		return told{}, false
	}
	name := of.ContainerName
	switch f := fact.(type) {
	case history.Start:
		return told{"tick", rowContainers, name + " starts"}, true
	case history.PostStartBegin:
		return told{"tick", rowContainers, name + ": the postStart hook begins"}, true
	case history.PreStopBegin:
		return told{"tick", rowContainers, name + ": the preStop hook begins"}, true
	case history.Signal:
		if f.Signal == "SIGKILL" {
			return told{"kill", rowContainers, name + " gets SIGKILL"}, true
		}
		return told{"sig", rowContainers, name + " gets " + f.Signal}, true
	case history.Exit:
		return told{"exit", rowContainers, fmt.Sprintf("%s exits with %d", name, f.Code)}, true
	}
	return told{}, false
}

func see(f history.KubeletSee) (told, bool) {
	switch {
	case f.Op == "REMOVE":
		return told{"see", rowKubelet, "kubelet sees that the object is gone"}, true
	case f.Grace != nil && f.Op != "RECONCILE":
		return told{"see", rowKubelet, fmt.Sprintf("kubelet sees the mark: grace %ds", *f.Grace)}, true
	case f.Op == "ADD":
		return told{"see", rowKubelet, "kubelet sees the pod"}, true
	}
	return told{}, false
}

// tellCommit is how a change of the pod's object is shown, beside what it was before.
func tellCommit(was *history.Commit, now history.Commit) (told, bool) {
	switch {
	case now.Op == "DELETED":
		return told{"gone", rowAPI, fmt.Sprintf("the object is removed (rv %d)", now.Revision)}, true
	case was == nil && now.Op == "ADDED":
		return told{"tick", rowAPI, fmt.Sprintf("created (rv %d)", now.Revision)}, true
	case now.Deadline != nil && (was == nil || was.Deadline == nil):
		return told{"mark", rowAPI, fmt.Sprintf("marked: grace %ds, deadline %s (rv %d)", seconds(now.Grace), now.Deadline.UTC().Format("15:04:05"), now.Revision)}, true
	case was != nil && seconds(now.Grace) < seconds(was.Grace):
		return told{"mark", rowAPI, fmt.Sprintf("grace shortened from %ds to %ds (rv %d)", seconds(was.Grace), seconds(now.Grace), now.Revision)}, true
	case was != nil && now.Phase != was.Phase:
		return told{"tick", rowAPI, fmt.Sprintf("phase %s (rv %d)", now.Phase, now.Revision)}, true
	case was != nil && len(now.Finalizers) < len(was.Finalizers):
		return told{"tick", rowAPI, fmt.Sprintf("finalizers left: %v (rv %d)", now.Finalizers, now.Revision)}, true
	case was != nil && now.Node != was.Node:
		return told{"tick", rowAPI, fmt.Sprintf("bound to %s (rv %d)", now.Node, now.Revision)}, true
	}
	return told{}, false
}

func seconds(grace *int64) int64 {
	if grace == nil {
		return 0
	}
	return *grace
}

// tellCall is how a request to delete the pod is shown.
func tellCall(call history.OpCall) told {
	grace := "its own grace"
	switch {
	case call.Grace != nil && *call.Grace == 0 && !strings.HasPrefix(call.Identity, "node:"):
		grace = "force, grace 0"
	case call.Grace != nil:
		grace = fmt.Sprintf("grace %ds", *call.Grace)
	}
	return told{"call", rowAPI, fmt.Sprintf("%s asks for the deletion, %s", call.Identity, grace)}
}

// fields are what an event says, as it is written down.
func fields(e history.Event) string {
	data, err := json.Marshal(e.Fact)
	if err != nil {
		return err.Error()
	}
	var said map[string]any
	if json.Unmarshal(data, &said) != nil {
		return string(data)
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(said)) {
		words = append(words, fmt.Sprintf("%s=%v", name, said[name]))
	}
	return strings.Join(words, " ")
}
