package guarantees

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// settleTime is how long after the last disturbance the desired state must be reached, and how long
// it must stay.
const settleTime = time.Minute

// workload is an object that says how many pods it wants.
type workload struct {
	last *commit
	pods []*podHistory
}

// controllerOf returns the controller that creates the pods of a resource.
func controllerOf(resource string) string {
	switch resource {
	case "replicasets.apps":
		return "replicaset-controller"
	case "statefulsets.apps":
		return "statefulset-controller"
	}
	return ""
}

// checkDesiredState checks L5: in the end a workload has as many pods as it wants, and keeps them.
// A disturbance, for example a pod deleted by another client, gives it another minute.
func checkDesiredState(h *clusterHistory, t *tally) {
	for _, c := range h.calmPeriods() {
		for _, o := range h.workloads(c.to) {
			h.checkWorkload(t, o, c)
		}
	}
}

// workloads returns the workloads that exist at a time, with all pods that they had.
func (h *clusterHistory) workloads(at int64) []*workload {
	byUID := map[string]*workload{}
	ending := map[string]bool{} // namespaces under deletion: nothing is created in them
	var all []*workload
	for _, change := range h.commits {
		if change.Ended <= at && change.Resource == "namespaces" {
			ending[change.Key] = change.Deadline != nil
		}
		if change.Ended > at || controllerOf(change.Resource) == "" {
			continue
		}
		if byUID[change.UID] == nil {
			byUID[change.UID] = &workload{}
			all = append(all, byUID[change.UID])
		}
		byUID[change.UID].last = change
	}
	for _, change := range h.commits { // a pod's first commit may be lost, but later ones have its owner too
		o := byUID[change.Owner]
		if o == nil || change.Resource != podResource {
			continue
		}
		if pod := h.pods[change.UID]; pod.firstOwnedBy(o) == change { // the pod may be released, and adopted by another workload
			o.pods = append(o.pods, pod)
		}
	}
	return slices.DeleteFunc(all, func(o *workload) bool {
		within, _, _ := strings.Cut(o.last.Key, "/")
		return o.last.Op == deleted || o.last.Deadline != nil || o.last.Replicas == nil || !o.last.recorded || ending[within]
	})
}

// has reports whether a pod exists at a time and belongs to the workload.
func (o *workload) has(pod *podHistory, moment int64) bool {
	now := pod.versionAt(moment)
	return now != nil && now.Owner == o.last.UID
}

// checkWorkload checks one workload in one calm period.
func (h *clusterHistory) checkWorkload(t *tally, o *workload, c calmPeriod) {
	since, by := max(c.from+int64(reconnectTime), o.last.Ended), o.last.Event
	for _, pod := range o.pods {
		for _, change := range pod.commits {
			cause := change.operation
			own := cause != nil && cause.Identity == controllers && change.Op != deleted
			if change.Ended <= c.to && !own && change.Ended > since && changesPodCount(change) {
				since, by = change.Ended, change.Event
			}
		}
	}
	if since >= c.to || !h.isLate(since, c.to, 0, settleTime) || !h.controllerIsActive(controllerOf(o.last.Resource), c.to) || h.controllersWereRefused(since, c.to) {
		return
	}
	if o.last.InOrder && slices.ContainsFunc(o.pods, func(pod *podHistory) bool { return o.has(pod, c.to) && !pod.versionAt(c.to).Ready }) {
		return // the set waits for an earlier pod
	}
	count := 0
	for _, pod := range o.pods {
		if version := pod.versionAt(c.to); o.has(pod, c.to) && version.Deadline == nil && !hasEnded(version) {
			count++
		}
	}
	fine := count == int(*o.last.Replicas) || count < int(*o.last.Replicas) && h.nameIsTaken(o, c.to)
	t.expect(fine, "a workload has another number of pods than it is to have, a minute after the last disturbance", o.last.Event, by)
}

// nameIsTaken reports whether a pod of others has a name that the StatefulSet needs. A pod that the
// set released counts while its labels differ from those with which the set owned it.
func (h *clusterHistory) nameIsTaken(o *workload, at int64) bool {
	if o.last.Resource != "statefulsets.apps" {
		return false
	}
	for _, pod := range h.pods {
		current, owned := pod.versionAt(at), pod.firstOwnedBy(o)
		if o.wantsName(pod.name) && current != nil && !o.has(pod, at) && (owned == nil || !maps.Equal(owned.Labels, current.Labels)) {
			return true
		}
	}
	return false
}

// wantsName reports whether a pod of the StatefulSet is to have a name.
func (o *workload) wantsName(pod string) bool {
	ordinal, numbered := strings.CutPrefix(pod, o.last.Key+"-")
	n, err := strconv.Atoi(ordinal)
	return numbered && err == nil && strconv.Itoa(n) == ordinal && 0 <= n && n < int(*o.last.Replicas)
}

// firstOwnedBy returns the first commit with which a pod belonged to a workload; nil for none.
func (pod *podHistory) firstOwnedBy(o *workload) *commit {
	for _, c := range pod.commits {
		if c.Owner == o.last.UID {
			return c
		}
	}
	return nil
}

// changesPodCount reports whether a commit changes how many pods a workload has.
func changesPodCount(c *commit) bool {
	was := c.replaced
	return c.Op != modified || was == nil || (was.Deadline == nil) != (c.Deadline == nil) || hasEnded(was) != hasEnded(c) || was.Owner != c.Owner
}

// versionAt returns the pod's last version before a time; nil if the pod did not exist.
func (pod *podHistory) versionAt(moment int64) (last *commit) {
	for _, c := range pod.commits {
		if c.Ended <= moment {
			last = c
		}
	}
	if last != nil && last.Op == deleted {
		return nil
	}
	return last
}

// controllerIsActive reports whether a controller decided anything before a time. It may be
// switched off.
func (h *clusterHistory) controllerIsActive(controller string, until int64) bool {
	for e, fact := range factsOf[history.Decide](h) {
		if fact.Controller == controller && e.Ended <= until {
			return true
		}
	}
	return false
}

// controllersWereRefused reports whether the API refused the controllers something.
func (h *clusterHistory) controllersWereRefused(from, to int64) bool {
	return slices.ContainsFunc(h.operations, func(o *operation) bool {
		return o.Identity == controllers && o.wasAnswered(from, to, isRejection)
	})
}
