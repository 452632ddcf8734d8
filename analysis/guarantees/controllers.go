package guarantees

import (
	"github.com/podfall/podfall/internal/history"
)

// checkNameReuse checks C3: a name is taken until its object is gone.
func checkNameReuse(h *clusterHistory, t *tally) {
	there := map[string]*commit{}
	for _, c := range h.commits {
		if c.Resource != podResource {
			continue
		}
		switch c.Op {
		case added:
			t.expect(there[c.Key] == nil, "a pod was created while another had its name", eventOf(there[c.Key]), c.Event)
			there[c.Key] = c
		case deleted:
			delete(there, c.Key)
		}
	}
	h.checkOrderedCreation(t)
}

// podCollector is the pod garbage collector's name in its decisions.
const podCollector = "pod-garbage-collector-controller"

// checkNoForcedDeletes checks C7: controllers only begin deletion. Only the pod garbage collector
// force-deletes.
func checkNoForcedDeletes(h *clusterHistory, t *tally) {
	h.eachDecidedDelete(func(d history.Decide, decided *history.Event, o *operation) {
		forced := o.Grace != nil && *o.Grace == 0
		t.expect(!forced || d.Controller == podCollector, "a controller force-deleted a pod", decided, o.calls[0])
	})
}

// eachDecidedDelete visits the pod deletes that controllers decided on, with their operations.
// Deletes of a name on which two controllers decided are skipped.
func (h *clusterHistory) eachDecidedDelete(visit func(history.Decide, *history.Event, *operation)) {
	decided := map[string]map[string]*history.Event{}
	for e, fact := range factsOf[history.Decide](h) {
		if fact.Action == "delete" && fact.Resource == podResource {
			if decided[fact.Key] == nil {
				decided[fact.Key] = map[string]*history.Event{}
			}
			decided[fact.Key][fact.Controller] = e
		}
	}
	for _, o := range h.operations {
		if o.Identity != controllers || o.Verb != "delete" || o.Resource != podResource || len(decided[o.Key]) != 1 {
			continue
		}
		for _, e := range decided[o.Key] {
			fact, _ := e.Fact.(history.Decide)
			visit(fact, e, o)
		}
	}
}

// checkBoundOnce checks C8: a pod is bound to a node once, and not while it is being deleted.
func checkBoundOnce(h *clusterHistory, t *tally) {
	for _, c := range h.commits {
		if was := c.replaced; was != nil && c.Resource == podResource && c.Op == modified && was.Node != c.Node {
			t.expect(was.Node == "" && was.Deadline == nil, "a pod was given a node that had one, or that is being deleted", was.Event, c.Event)
		}
	}
}
