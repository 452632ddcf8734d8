package guarantees

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
)

// garbageCollector is the garbage collector's name in its decisions.
const garbageCollector = "garbage-collector-controller"

// dependentInfoAge is how long the garbage collector may not have heard of a dependent. A new
// connection with its back-offs may take as long.
const dependentInfoAge = time.Minute

// ownerBlockers maps owners to the dependents that block their deletion, and each to the commit
// since which it does. Owners that once had one stay in the map.
type ownerBlockers map[string]map[string]*commit

// checkForegroundOwner checks D11. The garbage collector takes foregroundDeletion from an owner
// only if no dependent that it must know of blocks the deletion. Others, for example a user or a
// second delete with another policy, may take the finalizer at any time.
func checkForegroundOwner(h *clusterHistory, t *tally) {
	decided := map[string]*history.Event{}
	h.eachDecision(func(d history.Decide, e *history.Event, _ *operation) {
		if d.Controller == garbageCollector && d.Action == "patch" {
			decided[e.Cause] = e
		}
	})
	blocking := ownerBlockers{}
	for _, c := range h.commits {
		if dependents, had := blocking[c.UID]; had && decided[c.Cause] != nil && dropsForegroundFinalizer(c) {
			h.checkOwnerLast(t, c, decided[c.Cause], dependents)
		}
		blocking.add(c)
	}
}

// dropsForegroundFinalizer reports whether a commit takes foregroundDeletion from an object, and
// perhaps removes the object with it.
func dropsForegroundFinalizer(c *commit) bool {
	waits := func(c *commit) bool { return slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) }
	return c.replaced != nil && c.replaced.UID == c.UID && waits(c.replaced) && (c.Op == deleted || !waits(c))
}

// add applies a commit to the owners that its object blocks.
func (b ownerBlockers) add(c *commit) {
	blocks := c.Blocks
	if c.Op == deleted {
		blocks = nil
	}
	blockedBefore := c.Blocks // a removal has the blocked owners of the last version
	if c.replaced != nil {
		blockedBefore = c.replaced.Blocks
	}
	for _, owner := range blockedBefore {
		if !slices.Contains(blocks, owner) {
			delete(b[owner], c.UID)
		}
	}
	for _, owner := range blocks {
		if b[owner] == nil {
			b[owner] = map[string]*commit{}
		}
		if b[owner][c.UID] == nil {
			b[owner][c.UID] = c
		}
	}
}

// checkOwnerLast checks that the garbage collector did not release an owner while it knew of a
// dependent that blocks the deletion.
func (h *clusterHistory) checkOwnerLast(t *tally, owner *commit, decided *history.Event, dependents map[string]*commit) {
	var left *commit
	for _, since := range dependents {
		if (left == nil || since.Revision < left.Revision) && h.mustKnowDependent(owner, since) && !h.mayHaveMissed(since, decided, dependentInfoAge) {
			left = since
		}
	}
	t.expect(left == nil, "the garbage collector let an owner go while a dependent was there that blocks its deletion",
		eventOf(left), owner.replaced.Event, decided, owner.Event)
}

// mustKnowDependent reports whether the garbage collector has to know that an object depends on an
// owner. It follows user-defined kinds only some time after their definition. An owner in another
// namespace does not count.
func (h *clusterHistory) mustKnowDependent(owner, dependent *commit) bool {
	_, builtIn := kinds.ByResource(dependent.Resource)
	return builtIn && (owner.object.namespace == "" || owner.object.namespace == dependent.object.namespace) && dependent.recorded && dependent.Began >= h.completeFrom
}
