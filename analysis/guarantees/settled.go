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
func checkDesiredState(p *clusterHistory, t *tally) {
	for _, c := range p.calmPeriods() {
		for _, o := range p.workloads(c.to) {
			p.checkWorkload(t, o, c)
		}
	}
}

// workloads returns the workloads that exist at a time, with all pods that they had.
func (p *clusterHistory) workloads(at int64) []*workload {
	byUID := map[string]*workload{}
	ending := map[string]bool{} // namespaces in which nothing is made any more
	var all []*workload
	for _, change := range p.commits {
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
	for _, change := range p.commits { // a pod's first may have been lost: its others tell of it, too
		o := byUID[change.Owner]
		if o == nil || change.Resource != podResource {
			continue
		}
		if one := p.pods[change.UID]; one.firstOwnedBy(o) == change { // it may be released, and adopted by another
			o.pods = append(o.pods, one)
		}
	}
	return slices.DeleteFunc(all, func(o *workload) bool {
		within, _, _ := strings.Cut(o.last.Key, "/")
		return o.last.Op == deleted || o.last.Deadline != nil || o.last.Replicas == nil || !o.last.recorded || ending[within]
	})
}

// has reports whether a pod exists at a time and belongs to the workload.
func (o *workload) has(one *podHistory, moment int64) bool {
	now := one.versionAt(moment)
	return now != nil && now.Owner == o.last.UID
}

// checkWorkload checks one workload in one calm period.
func (p *clusterHistory) checkWorkload(t *tally, o *workload, c calmPeriod) {
	since, by := max(c.from+int64(reconnectTime), o.last.Ended), o.last.Event
	for _, one := range o.pods {
		for _, change := range one.commits {
			cause := change.operation
			own := cause != nil && cause.Identity == controllers && change.Op != deleted
			if change.Ended <= c.to && !own && change.Ended > since && changesPodCount(change) {
				since, by = change.Ended, change.Event
			}
		}
	}
	if since >= c.to || !p.isLate(since, c.to, 0, settleTime) || !p.controllerIsActive(controllerOf(o.last.Resource), c.to) || p.controllersWereRefused(since, c.to) {
		return
	}
	if o.last.InOrder && slices.ContainsFunc(o.pods, func(one *podHistory) bool { return o.has(one, c.to) && !one.versionAt(c.to).Ready }) {
		return // it waits for the one before
	}
	count := 0
	for _, one := range o.pods {
		if now := one.versionAt(c.to); o.has(one, c.to) && now.Deadline == nil && !hasEnded(now) {
			count++
		}
	}
	fine := count == int(*o.last.Replicas) || count < int(*o.last.Replicas) && p.nameIsTaken(o, c.to)
	t.expect(fine, "a workload has another number of pods than it is to have, a minute after the last disturbance", o.last.Event, by)
}

// nameIsTaken reports whether a pod of others has a name that the StatefulSet needs. A pod that the
// set released counts while its labels differ from those with which the set owned it.
func (p *clusterHistory) nameIsTaken(o *workload, at int64) bool {
	if o.last.Resource != "statefulsets.apps" {
		return false
	}
	for _, one := range p.pods {
		now, its := one.versionAt(at), one.firstOwnedBy(o)
		if o.wantsName(one.name) && now != nil && !o.has(one, at) && (its == nil || !maps.Equal(its.Labels, now.Labels)) {
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
func (one *podHistory) firstOwnedBy(o *workload) *commit {
	for _, c := range one.commits {
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
func (one *podHistory) versionAt(moment int64) (last *commit) {
	for _, c := range one.commits {
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
func (p *clusterHistory) controllerIsActive(controller string, until int64) bool {
	for e, fact := range factsOf[history.Decide](p) {
		if fact.Controller == controller && e.Ended <= until {
			return true
		}
	}
	return false
}

// controllersWereRefused reports whether the API refused the controllers something.
func (p *clusterHistory) controllersWereRefused(from, to int64) bool {
	return slices.ContainsFunc(p.operations, func(o *operation) bool {
		return o.Identity == controllers && o.wasAnswered(from, to, isRejection)
	})
}
