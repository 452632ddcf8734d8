package guarantees

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// relistDelay is how much later controllers may learn what happened while they were cut off: they
// wait before they list again (WCH-31).
const relistDelay = time.Minute

// couldTakeUp reports whether restarted controllers had time to find the older pod on its node.
// They began after the pod had left the API, and ran until the end of the stretch for at least as
// long as windows last that users must be told of.
func (h *clusterHistory) couldTakeUp(o overlap, s stretch) bool {
	last := o.older.commits[len(o.older.commits)-1]
	if last.Op != deleted {
		return false
	}
	ended := int64(0)
	for _, boot := range h.boots[controllers] {
		if last.Ended < boot.firstBegan && boot.firstBegan < s.to.Began && boot.lastBegan > s.to.Ended {
			since := max(s.from.Ended, h.ableToFindSince(o.older.nodeName(), ended, boot.firstBegan, s.to.Began))
			return since < s.to.Began && h.minPassed(since, s.to.Began) >= 10*h.clockError()
		}
		ended = max(ended, boot.lastEnded)
	}
	return false
}

// ableToFindSince returns when controllers that began at `began` could surely find what a node has.
// By then they had listed everything, the node among it, and nothing kept them from polling it
// before `until`.
func (h *clusterHistory) ableToFindSince(node string, ended, began, until int64) int64 {
	since := max(h.listedSince(ended, began), h.registeredSince(node, began, until))
	for _, tr := range h.troubles {
		if tr.mayBlockPolling(node) && tr.mayOverlap(began, until) {
			since = max(since, min(tr.until(), math.MaxInt64-int64(relistDelay))+int64(relistDelay))
		}
	}
	return since
}

// listedSince returns when controllers that began at `began` had listed every resource that they
// use. `ended` is the end of the boot before.
func (h *clusterHistory) listedSince(ended, began int64) int64 {
	resources := map[string]int64{podResource: math.MaxInt64, nodeResource: math.MaxInt64}
	for e, read := range factsOf[history.OpRead](h) {
		if read.Identity != controllers || read.Verb == "get" || read.Key != "" || !isSuccess(read.Code) || parseRevision(read.ReadOptions.Revision) != 0 || e.Began < ended {
			continue
		}
		if at, known := resources[read.Resource]; !known || at == math.MaxInt64 || at < began {
			resources[read.Resource] = e.Ended
		}
	}
	var last int64
	for _, at := range resources { // the order does not matter
		last = max(last, at)
	}
	return last
}

// registeredSince returns when the node was last created before `until`. Unregistered nodes are not
// polled.
func (h *clusterHistory) registeredSince(node string, from, until int64) int64 {
	since := from
	for _, c := range h.commits {
		switch {
		case c.Resource != nodeResource || c.Key != node || c.Began > until:
		case c.Op == deleted:
			since = math.MaxInt64
		case since == math.MaxInt64:
			since = max(from, c.Ended)
		}
	}
	return since
}

// mayBlockPolling reports whether the trouble may keep controllers from polling a node or the API,
// or from hearing of changes.
func (tr *trouble) mayBlockPolling(node string) bool {
	if tr.Kind == history.TroubleFault {
		point := tr.fault.Spec.Point
		return strings.HasSuffix(string(point), "*") || slices.Contains([]fault.Point{
			fault.APIRequest, fault.WatchDeliver, fault.StoreCommit, fault.StoreSync, fault.StoreSynced, fault.ProcessLimit,
		}, point)
	}
	about := func(name string) bool { return tr.What == name || slices.Contains(tr.CutOff, name) }
	return tr.Kind == history.TroubleClock || about(controllers) || about("apiserver") || about("bus") || about("runtime/"+node)
}
