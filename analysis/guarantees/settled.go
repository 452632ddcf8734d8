package guarantees

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// settled is how long after the last disturbance the desired state is reached, and how long
// it stays at least.
const settled = time.Minute

// owner is a workload that says how many pods it is to have.
type owner struct {
	last *commit
	pods []*pod
}

// controllerOf is who makes the pods of a resource.
func controllerOf(resource string) string {
	switch resource {
	case "replicasets.apps":
		return "replicaset-controller"
	case "statefulsets.apps":
		return "statefulset-controller"
	}
	return ""
}

// reached checks L5: in the end a workload has as many pods as it is to have, and keeps
// them. A disturbance, such as a pod that somebody else deletes, gives it another minute.
func reached(p *past, t *trial) {
	for _, c := range p.calms() {
		for _, o := range p.owners(c.to) {
			p.desired(t, o, c)
		}
	}
}

// owners are the workloads that there are at a moment, with all pods that they had.
func (p *past) owners(at int64) []*owner {
	byUID := map[string]*owner{}
	ending := map[string]bool{} // namespaces in which nothing is made any more
	var all []*owner
	for _, change := range p.commits {
		if change.Ended <= at && change.Resource == "namespaces" {
			ending[change.Key] = change.Deadline != nil
		}
		if change.Ended > at || controllerOf(change.Resource) == "" {
			continue
		}
		if byUID[change.UID] == nil {
			byUID[change.UID] = &owner{}
			all = append(all, byUID[change.UID])
		}
		byUID[change.UID].last = change
	}
	for _, change := range p.commits { // a pod's first may have been lost: its others tell of it, too
		o := byUID[change.Owner]
		if o == nil || change.Resource != podResource {
			continue
		}
		if one := p.pods[change.UID]; one.firstOf(o) == change { // it may be released, and adopted by another
			o.pods = append(o.pods, one)
		}
	}
	return slices.DeleteFunc(all, func(o *owner) bool {
		within, _, _ := strings.Cut(o.last.Key, "/")
		return o.last.Op == deleted || o.last.Deadline != nil || o.last.Replicas == nil || !o.last.recorded || ending[within]
	})
}

// has reports whether a pod is there at a moment, and the workload's.
func (o *owner) has(one *pod, moment int64) bool {
	now := one.at(moment)
	return now != nil && now.Owner == o.last.UID
}

// desired looks at one workload in one calm.
func (p *past) desired(t *trial, o *owner, c calm) {
	since, by := max(c.from+int64(settling), o.last.Ended), o.last.Event
	for _, one := range o.pods {
		for _, change := range one.commits {
			cause := change.by
			own := cause != nil && cause.Who == controllers && change.Op != deleted
			if change.Ended <= c.to && !own && change.Ended > since && disturbs(change) {
				since, by = change.Ended, change.Event
			}
		}
	}
	if since >= c.to || !p.late(since, c.to, 0, settled) || !p.works(controllerOf(o.last.Resource), c.to) || p.denied(since, c.to) {
		return
	}
	if o.last.InOrder && slices.ContainsFunc(o.pods, func(one *pod) bool { return o.has(one, c.to) && !one.at(c.to).Ready }) {
		return // it waits for the one before
	}
	count := 0
	for _, one := range o.pods {
		if now := one.at(c.to); o.has(one, c.to) && now.Deadline == nil && !ended(now) {
			count++
		}
	}
	fine := count == int(*o.last.Replicas) || count < int(*o.last.Replicas) && p.inItsWay(o, c.to)
	t.expect(fine, "a workload has another number of pods than it is to have, a minute after the last disturbance", o.last.Event, by)
}

// inItsWay reports whether a pod of others has a name that one of the StatefulSet's is to have. One
// that it has let go of does while its labels are not those with which it became the set's.
func (p *past) inItsWay(o *owner, at int64) bool {
	if o.last.Resource != "statefulsets.apps" {
		return false
	}
	for _, one := range p.pods {
		now, its := one.at(at), one.firstOf(o)
		if o.names(one.name) && now != nil && !o.has(one, at) && (its == nil || !maps.Equal(its.Labels, now.Labels)) {
			return true
		}
	}
	return false
}

// names reports whether a pod of a StatefulSet is to have a name.
func (o *owner) names(pod string) bool {
	ordinal, numbered := strings.CutPrefix(pod, o.last.Key+"-")
	n, err := strconv.Atoi(ordinal)
	return numbered && err == nil && strconv.Itoa(n) == ordinal && 0 <= n && n < int(*o.last.Replicas)
}

// firstOf is the first commit with which a pod was a workload's; nil for none.
func (one *pod) firstOf(o *owner) *commit {
	for _, c := range one.commits {
		if c.Owner == o.last.UID {
			return c
		}
	}
	return nil
}

// disturbs reports whether a commit changes how many pods a workload has.
func disturbs(c *commit) bool {
	was := c.before
	return c.Op != modified || was == nil || (was.Deadline == nil) != (c.Deadline == nil) || ended(was) != ended(c) || was.Owner != c.Owner
}

// at is the pod as it was committed last before a moment; nil when it was not there.
func (one *pod) at(moment int64) (last *commit) {
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

// works reports whether a controller has decided anything before a moment: it may be
// switched off.
func (p *past) works(controller string, until int64) bool {
	for e, fact := range factsOf[history.Decide](p) {
		if fact.Controller == controller && e.Ended <= until {
			return true
		}
	}
	return false
}

// denied reports whether the API has refused the controllers something.
func (p *past) denied(from, to int64) bool {
	return slices.ContainsFunc(p.operations, func(o *operation) bool {
		return o.Who == controllers && o.answered(from, to, turndown)
	})
}
