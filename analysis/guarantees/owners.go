package guarantees

import (
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// controllerLag is how far a controller's view may lag behind: its last sync may still be in
// progress, and an answer may not have arrived.
const unsettled = 60 * time.Second

// ownedPods tracks the pods of one controller object.
type family struct {
	resource string
	active   map[string]*commit // by key: those that neither end nor have ended
	made     []*commit          // creations
	// versions are the commits of the controller object.
	wanted []*commit
}

// eachOwnedCreation visits every creation of a pod that an object of the resource controls, after
// the pod is counted.
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

// maxWanted returns the highest number of replicas that was wanted when a creation may have been
// decided on.
func (of *family) most(c *commit) (most int) {
	for i, w := range of.wanted {
		last := i == len(of.wanted)-1
		if _, ago := between(w.Event, c.Event); last || ago < unsettled || of.wanted[i+1].Wall.After(c.Wall.Add(-unsettled)) {
			most = max(most, int(*w.Replicas))
		}
	}
	return most
}

// countUnknown returns how many other creations may not have been known when one was decided on.
func (of *family) unknown(p *past, c *commit) (count int) {
	for _, other := range of.made {
		if other != c && p.unaware(other, c) {
			count++
		}
	}
	return count
}

// requestedAt returns the monotonic time at which the commit's operation arrived.
func (c *commit) asked() int64 {
	if c.by != nil {
		return c.by.calls[0].Began
	}
	return c.Began
}

// checkReplicaCount checks C4: a ReplicaSet's active pods are never more than it wants, except for
// the creations of one sync.
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

// controllers is the identity and the process name of all controllers.
const controllers = "controllers"

// bootStarts returns the first event of each boot of a process.
func (p *past) starts(process string) []*history.Event {
	var first []*history.Event
	for _, i := range p.incarnations[process] {
		first = append(first, i.events[0])
	}
	return first
}

// mayHaveRestarted reports whether a process may have restarted shortly before a commit, and
// forgotten what it had requested.
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

// checkOrderedCreation checks C3 for StatefulSets with ordered pods: a pod is created only when its
// predecessors exist and have been ready.
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

// checkPredecessor checks that the pod with the next lower number exists, or did a moment ago.
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

// jobController is the job controller's name in its decisions.
const jobController = "job-controller"

// changesOwner reports whether a commit adopts or releases an object.
func (c *commit) claims() bool { return c.before != nil && c.before.Owner != c.Owner }

// checkReadYourWrites checks C5: a controller does not decide on a version of an object older than
// its own last answered write of it. A Job's deletes are exempt: they are decided together while
// pods are freed one by one, and they name a UID, as upstream's. Adoptions and releases are exempt
// too: they happen before the controller's expectations are checked.
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
