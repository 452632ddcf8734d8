package guarantees

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// abreastAgain is how much later controllers may hear of what was while they heard nothing: they
// wait before they ask for everything (WCH-31).
const abreastAgain = time.Minute

// takenUp reports whether controllers that began when the older of two incarnations had left the
// API have had the time to find it on its node before a stretch was over, and ran until then: as
// long as a stretch lasts that users must be told of.
func (p *past) takenUp(o overlap, s stretch) bool {
	last := o.older.commits[len(o.older.commits)-1]
	if last.Op != deleted {
		return false
	}
	ended := int64(0)
	for _, i := range p.incarnations[controllers] {
		if last.Ended < i.from && i.from < s.to.Began && i.to > s.to.Ended {
			since := max(s.from.Ended, p.able(o.older.node(), ended, i.from, s.to.Began))
			return since < s.to.Began && p.passed(since, s.to.Began) >= 10*p.slack()
		}
		ended = max(ended, i.ended)
	}
	return false
}

// able is from when controllers, that began at a moment after the end of those before them, were
// surely able to find what a node has: they had been told of all there is, the node among it, and
// nothing kept them from asking, until a moment.
func (p *past) able(node string, ended, began, until int64) int64 {
	since := max(p.listed(ended, began), p.registered(node, began, until))
	for _, o := range p.troubles {
		if o.hinders(node) && o.touches(began, until) {
			since = max(since, min(o.until(), math.MaxInt64-int64(abreastAgain))+int64(abreastAgain))
		}
	}
	return since
}

// listed is when controllers had been told of all there is of each resource, that began at a moment
// after the end of those before them.
func (p *past) listed(ended, began int64) int64 {
	resources := map[string]int64{podResource: math.MaxInt64, nodeResource: math.MaxInt64}
	for e, of := range factsOf[history.Lookup](p) {
		if of.Who != controllers || of.Verb == "get" || of.Key != "" || !ok(of.Code) || number(of.Asked.Revision) != 0 || e.Began < ended {
			continue
		}
		if at, known := resources[of.Resource]; !known || at == math.MaxInt64 || at < began {
			resources[of.Resource] = e.Ended
		}
	}
	var last int64
	for _, at := range resources { // the order does not matter
		last = max(last, at)
	}
	return last
}

// registered is from when a node was in the API until a moment: those that are not nobody asks.
func (p *past) registered(node string, from, until int64) int64 {
	since := from
	for _, c := range p.commits {
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

// hinders reports whether controllers may not be able to ask a node, or the API, meanwhile, or not
// hear what is.
func (o *ordeal) hinders(node string) bool {
	if o.Kind == history.TroubleFault {
		point := o.fault.Spec.Point
		return strings.HasSuffix(string(point), "*") || slices.Contains([]fault.Point{
			fault.APIRequest, fault.WatchDeliver, fault.StoreCommit, fault.StoreSync, fault.StoreSynced, fault.ProcessLimit,
		}, point)
	}
	about := func(name string) bool { return o.What == name || slices.Contains(o.Off, name) }
	return o.Kind == history.TroubleClock || about(controllers) || about("apiserver") || about("bus") || about("runtime/"+node)
}
