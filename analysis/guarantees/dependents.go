package guarantees

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
)

// garbageCollector is the controller that lets owners go.
const garbageCollector = "garbage-collector-controller"

// unmonitored is how long the garbage collector may not have heard of a dependent: a connection that
// is made anew, with its back-offs, may take as long.
const unmonitored = time.Minute

// blockers are the dependents that block the deletion of owners: by the owner's uid and their
// own the commit since which they do. An owner that had some stays in it.
type blockers map[string]map[string]*commit

// ownersLast checks D11: the garbage collector takes foregroundDeletion from an owner when
// nothing is left that blocks its deletion and that it must have heard of. Others, such as a
// user or a second delete with another policy, may take it at any time.
func ownersLast(p *past, t *trial) {
	decided := map[string]*history.Event{}
	p.decidedOperations(func(d history.Decide, e *history.Event, _ *operation) {
		if d.Controller == garbageCollector && d.Action == "patch" {
			decided[e.Cause] = e
		}
	})
	blocking := blockers{}
	for _, c := range p.commits {
		if dependents, had := blocking[c.UID]; had && decided[c.Cause] != nil && letGo(c) {
			p.goesLast(t, c, decided[c.Cause], dependents)
		}
		blocking.take(c)
	}
}

// letGo reports whether a commit takes foregroundDeletion from an object, and perhaps removes
// it with that.
func letGo(c *commit) bool {
	waits := func(c *commit) bool { return slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) }
	return c.before != nil && c.before.UID == c.UID && waits(c.before) && (c.Op == deleted || !waits(c))
}

// take takes in what an object blocks from a commit on.
func (b blockers) take(c *commit) {
	blocks := c.Blocks
	if c.Op == deleted {
		blocks = nil
	}
	was := c.Blocks // of what is removed, as it was
	if c.before != nil {
		was = c.before.Blocks
	}
	for _, owner := range was {
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

// goesLast checks that the garbage collector had heard of none of the dependents that still
// block an owner's deletion when it lets the owner go.
func (p *past) goesLast(t *trial, owner *commit, decided *history.Event, dependents map[string]*commit) {
	var left *commit
	for _, since := range dependents {
		if (left == nil || since.Revision < left.Revision) && p.collects(owner, since) && !p.unknowing(since, decided, unmonitored) {
			left = since
		}
	}
	t.expect(left == nil, "the garbage collector let an owner go while a dependent was there that blocks its deletion",
		eventOf(left), owner.before.Event, decided, owner.Event)
}

// collects reports whether the garbage collector has to know that an object depends on an
// owner: kinds that are defined by users it follows some time after they are defined, and an owner
// in another namespace is none.
func (p *past) collects(owner, dependent *commit) bool {
	_, builtIn := kinds.ByResource(dependent.Resource)
	return builtIn && (owner.of.namespace == "" || owner.of.namespace == dependent.of.namespace) && dependent.recorded && dependent.Began >= p.from
}
