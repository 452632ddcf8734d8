package guarantees

import (
	"cmp"
	"slices"
	"sort"

	"github.com/podfall/podfall/internal/history"
)

// listing is a list or watch of all objects of a resource by the controllers.
type listing struct {
	*history.Event
	// after is the revision after which the controllers ask for changes; 0 if they list everything.
	after int64
	// refused says that the request was not answered.
	refused bool
}

// listings holds the listings of a resource, in the order in which they were asked.
type listings []listing

func (h *clusterHistory) listingsOf(resource string) listings {
	var all listings
	for e, read := range factsOf[history.OpRead](h) {
		if read.Identity == controllers && read.Resource == resource && read.Verb != "get" && read.Key == "" { // of all namespaces
			all = append(all, listing{Event: e, after: parseRevision(read.ReadOptions.Revision), refused: !isSuccess(read.Code)})
		}
	}
	slices.SortStableFunc(all, func(a, b listing) int { return cmp.Compare(a.Began, b.Began) })
	return all
}

// delivery returns how the controllers received a commit. Usually that is at once. If their next
// listing asks for changes after an older revision, what they were sent was lost, and the first
// answered listing counts. The same holds if they were refused such a listing before. answered is
// false if none was answered.
func (all listings) delivery(c *commit) (via listing, answered bool) {
	next := sort.Search(len(all), func(i int) bool { return all[i].Began >= c.Ended })
	atOnce := listing{Event: c.Event, after: c.Revision - 1}
	missed := false
	for _, l := range slices.Backward(all[:next]) {
		if missed = l.refused && l.after > 0; missed || !l.refused {
			break
		}
	}
	for _, l := range all[next:] {
		missed = missed || l.after > 0 && l.after < c.Revision
		switch {
		case missed && !l.refused:
			return l, true
		case !missed && (!l.refused || l.after > 0):
			return atOnce, true
		}
	}
	return atOnce, !missed
}

// neverSeenBound reports whether the controllers never learned on which node a pod was: they listed
// all pods after it was gone, and had not been told before that it was bound.
func (h *clusterHistory) neverSeenBound(pod *podHistory) bool {
	at := slices.IndexFunc(pod.commits, func(c *commit) bool { return c.Node != "" })
	last := pod.commits[len(pod.commits)-1]
	if at < 0 || last.Op != deleted {
		return false
	}
	via, answered := h.podListings().delivery(pod.commits[at])
	return !answered || via.after == 0 && before(last.Event, via.Event)
}

// mayNotKnowOwn reports whether the controllers may not have known of their own earlier commit when
// they requested another. Either the earlier one was not answered yet, or only a moment before, or
// the answer may have been lost and no watch had delivered the commit.
func (h *clusterHistory) mayNotKnowOwn(earlier, c *commit) bool {
	if wasUnanswered(earlier, c) {
		return true
	}
	answer := earlier.operation.returns[0]
	lost := slices.ContainsFunc(h.troubles, func(tr *trouble) bool {
		return tr.Kind != history.TroubleFault && tr.deafensControllers() && tr.mayOverlap(answer.Began, answer.Ended+inFlightTime)
	})
	via, answered := h.podListings().delivery(earlier)
	return lost && (!answered || via.Began >= c.requestedAt())
}
