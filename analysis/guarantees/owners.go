package guarantees

import (
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// unsettled is how long what a controller has read may be behind what is: its last sync may
// still be under way, and an answer may not have come.
const unsettled = 60 * time.Second

// family is the pods of one controller as they come and go.
type family struct {
	resource string
	active   map[string]*commit // by key: those that neither end nor have ended
	made     []*commit          // creations
	// wanted are the commits of the controller's object.
	wanted []*commit
}

// followOwners visits every creation of a pod that has a controller of the resource, after
// it is counted.
func (p *past) followOwners(resource string, visit func(of *family, c *commit)) {
	all := map[string]*family{}
	for _, c := range p.commits {
		switch {
		case c.Resource == resource && c.Replicas != nil:
			if all[c.UID] == nil {
				all[c.UID] = &family{resource: resource, active: map[string]*commit{}}
			}
			all[c.UID].wanted = append(all[c.UID].wanted, c)
		case c.Resource == podResource && all[c.Owner] != nil:
			of := all[c.Owner]
			if c.Op == deleted || c.Deadline != nil || ended(c) {
				delete(of.active, c.Key)
			} else {
				of.active[c.Key] = c
			}
			if c.Op == added {
				of.made = append(of.made, c)
				visit(of, c)
			}
		case c.Resource == podResource && c.before != nil && all[c.before.Owner] != nil:
			delete(all[c.before.Owner].active, c.Key) // released
		}
	}
}

// most is the highest number of pods that was wanted when a creation may have been decided on.
func (of *family) most(c *commit) (most int) {
	for i, w := range of.wanted {
		last := i == len(of.wanted)-1
		if _, ago := between(w.Event, c.Event); last || ago < unsettled || of.wanted[i+1].Wall.After(c.Wall.Add(-unsettled)) {
			most = max(most, int(*w.Replicas))
		}
	}
	return most
}

// unknown is how many other creations may not have been known when one was decided on.
func (of *family) unknown(p *past, c *commit) (count int) {
	for _, other := range of.made {
		if other != c && p.unaware(other, c) {
			count++
		}
	}
	return count
}

// asked is when the operation of a commit came.
func (c *commit) asked() int64 {
	if c.by != nil {
		return c.by.calls[0].Began
	}
	return c.Began
}

// notTooMany checks C4: a ReplicaSet's pods that do not end are never more than it wants,
// but for the creations of one sync.
func notTooMany(p *past, t *trial) {
	starts := p.starts(controllers)
	p.followOwners("replicasets.apps", func(of *family, c *commit) {
		o := c.by
		if !c.recorded || c.Began < p.from || o == nil || o.Who != controllers || begunAnew(starts, c) {
			return
		}
		t.expect(len(of.active) <= of.most(c)+of.unknown(p, c), "a ReplicaSet has more pods than it should",
			of.wanted[len(of.wanted)-1].Event, o.calls[0], c.Event)
	})
}

// controllers is the identity and the process of all controllers.
const controllers = "controllers"

// starts are the first events of each boot of a process.
func (p *past) starts(process string) []*history.Event {
	var first []*history.Event
	for _, i := range p.incarnations[process] {
		first = append(first, i.events[0])
	}
	return first
}

// begunAnew reports whether a process may have been begun anew shortly before a commit, and
// forgotten what it had asked for.
func begunAnew(starts []*history.Event, c *commit) bool {
	running := false
	for _, start := range starts {
		if start.Began > c.Ended {
			continue
		}
		running = true
		if _, ago := between(start, c.Event); ago <= unsettled {
			return true
		}
	}
	return !running
}

// oneAfterTheOther checks C3 for StatefulSets that make one pod after the other: one is made
// when those with lower numbers are there, and each has been ready.
func (p *past) oneAfterTheOther(t *trial) {
	ready := map[string]bool{}
	there := map[string]*commit{}
	wanted := map[string]*commit{}
	for _, c := range p.commits {
		if c.Resource == "statefulsets.apps" {
			wanted[c.UID] = c
		}
		if c.Resource != podResource {
			continue
		}
		if set := wanted[c.Owner]; c.Op == added && set != nil && set.InOrder && c.recorded && c.Began >= p.from {
			p.followsOthers(t, c, there, ready)
		}
		there[c.Key] = c
		ready[c.UID] = ready[c.UID] || c.Ready
	}
}

// followsOthers checks that the pods with lower numbers are there, or were a moment ago.
func (p *past) followsOthers(t *trial, c *commit, there map[string]*commit, ready map[string]bool) {
	dash := strings.LastIndexByte(c.Key, '-')
	number, err := strconv.Atoi(c.Key[dash+1:])
	if dash < 0 || err != nil || number == 0 {
		return
	}
	earlier := there[c.Key[:dash+1]+strconv.Itoa(number-1)]
	if earlier == nil || earlier.Owner != c.Owner {
		return // a set may begin with another number
	}
	_, ago := between(earlier.Event, c.Event)
	t.expect(earlier.Op != deleted || ago < unsettled, "a pod was made in a StatefulSet without the one before it", earlier.Event, c.Event)
	t.expect(ready[earlier.UID] || earlier.Op == deleted, "a pod was made in a StatefulSet before the one before it was ready", earlier.Event, c.Event)
}

// jobController is the name of the controller of Jobs, as its decisions have it.
const jobController = "job-controller"

// claims reports whether a commit makes something a controller's own, or lets go of it.
func (c *commit) claims() bool { return c.before != nil && c.before.Owner != c.Owner }

// upToDate checks C5: what a controller decides of an object, and carries out, it does not
// decide on a version older than what it has written itself and been told of. A Job decides on
// its deletes together, and its pods are freed one by one meanwhile; they name a uid, as upstream's.
// So does what makes a pod its own or lets go of it, before it is asked what was expected of those.
func upToDate(p *past, t *trial) {
	type subject struct{ boot, controller, resource, key string }
	type write struct {
		revision int64
		by       *history.Event
	}
	written := map[subject][]write{}
	p.decidedOperations(func(decided history.Decide, e *history.Event, o *operation) {
		of := subject{string(e.Boot), decided.Controller, decided.Resource, decided.Key}
		read := number(decided.ReadRevision)
		for _, w := range written[of] {
			together := decided.Controller == jobController && decided.Action == "delete"
			if read > 0 && before(w.by, e) && len(o.commits) > 0 && !together && !o.last().claims() {
				t.expect(read >= w.revision, "a controller changed an object by a version older than its own last write", w.by, e, o.last().Event)
			}
		}
		if len(o.commits) > 0 && len(o.returns) > 0 {
			if last := o.last(); last.Resource == decided.Resource && last.Key == decided.Key && last.Op != deleted {
				written[of] = []write{{last.Revision, o.returns[0]}}
			}
		}
	})
}
