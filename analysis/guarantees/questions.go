package guarantees

import (
	"cmp"
	"slices"
	"sort"

	"github.com/podfall/podfall/internal/history"
)

// question is what the controllers have asked about all objects of a resource.
type question struct {
	*history.Event
	// after is the revision after which they know of none; 0 when they ask for all there are.
	after int64
	// refused is a question that was not answered.
	refused bool
}

// questions are all about a resource, in the order in which they were asked.
type questions []question

func (p *past) questions(resource string) questions {
	var all questions
	for e, of := range factsOf[history.Lookup](p) {
		if of.Who == controllers && of.Resource == resource && of.Verb != "get" && of.Key == "" { // of all namespaces
			all = append(all, question{Event: e, after: number(of.Asked.Revision), refused: !ok(of.Code)})
		}
	}
	slices.SortStableFunc(all, func(a, b question) int { return cmp.Compare(a.Began, b.Began) })
	return all
}

// heard is how the controllers heard of a commit: as soon as it was made, unless their next
// question is for what came after an older revision, as when what they had been sent was lost; or
// they were refused that before. Then it is the first question that was answered, if any was.
func (all questions) heard(c *commit) (how question, answered bool) {
	next := sort.Search(len(all), func(i int) bool { return all[i].Began >= c.Ended })
	atOnce := question{Event: c.Event, after: c.Revision - 1}
	missed := false
	for _, q := range slices.Backward(all[:next]) {
		if missed = q.refused && q.after > 0; missed || !q.refused {
			break
		}
	}
	for _, q := range all[next:] {
		missed = missed || q.after > 0 && q.after < c.Revision
		switch {
		case missed && !q.refused:
			return q, true
		case !missed && (!q.refused || q.after > 0):
			return atOnce, true
		}
	}
	return atOnce, !missed
}

// unplaced reports whether the controllers never heard on which node a pod was: they listed all
// pods when it was gone, and had not been told before that it was bound.
func (p *past) unplaced(one *pod) bool {
	at := slices.IndexFunc(one.commits, func(c *commit) bool { return c.Node != "" })
	last := one.commits[len(one.commits)-1]
	if at < 0 || last.Op != deleted {
		return false
	}
	how, answered := p.asked().heard(one.commits[at])
	return !answered || how.after == 0 && before(last.Event, how.Event)
}

// unaware reports whether the controllers may not have known of an earlier commit of theirs when
// they asked for one: it was not answered yet, or only a moment before; or the answer may have been
// lost on its way, and nothing else had told them.
func (p *past) unaware(earlier, c *commit) bool {
	if unanswered(earlier, c) {
		return true
	}
	answer := earlier.by.returns[0]
	lost := slices.ContainsFunc(p.troubles, func(o *ordeal) bool {
		return o.Kind != history.TroubleFault && o.deafens() && o.touches(answer.Began, answer.Ended+underWay)
	})
	how, answered := p.asked().heard(earlier)
	return lost && (!answered || how.Began >= c.asked())
}
