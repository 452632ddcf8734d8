package guarantees

import (
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// controllerLag is how far a controller's view may lag behind: its last sync may still be in
// progress, and an answer may not have arrived.
const controllerLag = 60 * time.Second

// ownedPods tracks the pods of one controller object.
type ownedPods struct {
	resource string
	active   map[string]*commit // by key: those that neither end nor have ended
	created  []*commit          // creations
	// versions are the commits of the controller object.
	versions []*commit
}

// eachOwnedCreation visits every creation of a pod that an object of the resource controls, after
// the pod is counted.
func (h *clusterHistory) eachOwnedCreation(resource string, visit func(owned *ownedPods, c *commit)) {
	all := map[string]*ownedPods{}
	for _, c := range h.commits {
		switch {
		case c.Resource == resource && c.Replicas != nil:
			if all[c.UID] == nil {
				all[c.UID] = &ownedPods{resource: resource, active: map[string]*commit{}}
			}
			all[c.UID].versions = append(all[c.UID].versions, c)
		case c.Resource == podResource && all[c.Owner] != nil:
			owned := all[c.Owner]
			if c.Op == deleted || c.Deadline != nil || hasEnded(c) {
				delete(owned.active, c.Key)
			} else {
				owned.active[c.Key] = c
			}
			if c.Op == added {
				owned.created = append(owned.created, c)
				visit(owned, c)
			}
		case c.Resource == podResource && c.replaced != nil && all[c.replaced.Owner] != nil:
			delete(all[c.replaced.Owner].active, c.Key) // released
		}
	}
}

// maxWanted returns the highest number of replicas that was wanted when a creation may have been
// decided on.
func (of *ownedPods) maxWanted(c *commit) (most int) {
	for i, w := range of.versions {
		last := i == len(of.versions)-1
		if _, ago := elapsed(w.Event, c.Event); last || ago < controllerLag || of.versions[i+1].Wall.After(c.Wall.Add(-controllerLag)) {
			most = max(most, int(*w.Replicas))
		}
	}
	return most
}

// countUnknown returns how many other creations may not have been known when one was decided on.
func (of *ownedPods) countUnknown(h *clusterHistory, c *commit) (count int) {
	for _, other := range of.created {
		if other != c && h.mayNotKnowOwn(other, c) {
			count++
		}
	}
	return count
}

// requestedAt returns the monotonic time at which the commit's operation arrived.
func (c *commit) requestedAt() int64 {
	if c.operation != nil {
		return c.operation.calls[0].Began
	}
	return c.Began
}

// checkReplicaCount checks C4: a ReplicaSet's active pods are never more than it wants, except for
// the creations of one sync.
func checkReplicaCount(h *clusterHistory, t *tally) {
	starts := h.bootStarts(controllers)
	h.eachOwnedCreation("replicasets.apps", func(of *ownedPods, c *commit) {
		o := c.operation
		if !c.recorded || c.Began < h.completeFrom || o == nil || o.Identity != controllers || mayHaveRestarted(starts, c) {
			return
		}
		t.expect(len(of.active) <= of.maxWanted(c)+of.countUnknown(h, c), "a ReplicaSet has more pods than it should",
			of.versions[len(of.versions)-1].Event, o.calls[0], c.Event)
	})
}

// controllers is the identity and the process name of all controllers.
const controllers = "controllers"

// bootStarts returns the first event of each boot of a process.
func (h *clusterHistory) bootStarts(process string) []*history.Event {
	var first []*history.Event
	for _, i := range h.boots[process] {
		first = append(first, i.events[0])
	}
	return first
}

// mayHaveRestarted reports whether a process may have restarted shortly before a commit, and
// forgotten what it had requested.
func mayHaveRestarted(starts []*history.Event, c *commit) bool {
	running := false
	for _, start := range starts {
		if start.Began > c.Ended {
			continue
		}
		running = true
		if _, ago := elapsed(start, c.Event); ago <= controllerLag {
			return true
		}
	}
	return !running
}

// checkOrderedCreation checks C3 for StatefulSets with ordered pods: a pod is created only when its
// predecessors exist and have been ready.
func (h *clusterHistory) checkOrderedCreation(t *tally) {
	ready := map[string]bool{}
	existing := map[string]*commit{}
	sets := map[string]*commit{}
	for _, c := range h.commits {
		if c.Resource == "statefulsets.apps" {
			sets[c.UID] = c
		}
		if c.Resource != podResource {
			continue
		}
		if set := sets[c.Owner]; c.Op == added && set != nil && set.InOrder && c.recorded && c.Began >= h.completeFrom {
			h.checkPredecessor(t, c, existing, ready)
		}
		existing[c.Key] = c
		ready[c.UID] = ready[c.UID] || c.Ready
	}
}

// checkPredecessor checks that the pod with the next lower number exists, or did a moment ago.
func (h *clusterHistory) checkPredecessor(t *tally, c *commit, existing map[string]*commit, ready map[string]bool) {
	dash := strings.LastIndexByte(c.Key, '-')
	number, err := strconv.Atoi(c.Key[dash+1:])
	if dash < 0 || err != nil || number == 0 {
		return
	}
	earlier := existing[c.Key[:dash+1]+strconv.Itoa(number-1)]
	if earlier == nil || earlier.Owner != c.Owner {
		return // a set may begin with another ordinal
	}
	_, ago := elapsed(earlier.Event, c.Event)
	t.expect(earlier.Op != deleted || ago < controllerLag, "a pod was made in a StatefulSet without the one before it", earlier.Event, c.Event)
	t.expect(ready[earlier.UID] || earlier.Op == deleted, "a pod was made in a StatefulSet before the one before it was ready", earlier.Event, c.Event)
}

// jobController is the job controller's name in its decisions.
const jobController = "job-controller"

// changesOwner reports whether a commit adopts or releases an object.
func (c *commit) changesOwner() bool { return c.replaced != nil && c.replaced.Owner != c.Owner }

// checkReadYourWrites checks C5: a controller does not decide on a version of an object older than
// its own last answered write of it. A Job's deletes are exempt: they are decided together while
// pods are freed one by one, and they name a UID, as upstream's. Adoptions and releases are exempt
// too: they happen before the controller's expectations are checked.
func checkReadYourWrites(h *clusterHistory, t *tally) {
	type subject struct{ boot, controller, resource, key string }
	type write struct {
		revision int64
		by       *history.Event
	}
	written := map[subject][]write{}
	h.eachDecision(func(decided history.Decide, e *history.Event, o *operation) {
		of := subject{string(e.Boot), decided.Controller, decided.Resource, decided.Key}
		read := parseRevision(decided.ReadRevision)
		for _, w := range written[of] {
			together := decided.Controller == jobController && decided.Action == "delete"
			if read > 0 && before(w.by, e) && len(o.commits) > 0 && !together && !o.lastCommit().changesOwner() {
				t.expect(read >= w.revision, "a controller changed an object by a version older than its own last write", w.by, e, o.lastCommit().Event)
			}
		}
		if len(o.commits) > 0 && len(o.returns) > 0 {
			if last := o.lastCommit(); last.Resource == decided.Resource && last.Key == decided.Key && last.Op != deleted {
				written[of] = []write{{last.Revision, o.returns[0]}}
			}
		}
	})
}
