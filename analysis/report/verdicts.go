package report

import (
	"fmt"
	"slices"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// verdicts are what became of the promises.
type verdicts struct {
	// Unproven says why nothing was checked; empty when it was.
	Unproven                   string
	Held, Broken, NotCheckable []promise
}

// promise is one of them.
type promise struct {
	ID, Promise  string
	Cases, Times int
	Why, What    string
	Against      []evidence
	Left         int
}

// evidence is an event of a counter-example.
type evidence struct {
	// Anchor is where it is on the page; empty for nowhere.
	Anchor, Number        string
	When, Who, Name, Text string
}

// mostEvidence is how many events of a counter-example are shown.
const mostEvidence = 12

func verdictsOf(in Input, lanes []*lane, a axis) verdicts {
	var v verdicts
	if in.Unproven != nil {
		v.Unproven = in.Unproven.Error()
	}
	for _, r := range in.Results {
		p := promise{ID: r.ID, Promise: r.Statement, Cases: r.Cases, Times: r.Violations, Why: r.Why}
		switch r.Verdict {
		case guarantees.Violated:
			p.What = r.First.What
			p.Left = max(0, len(r.First.Events)-mostEvidence)
			for i, e := range r.First.Events[:min(mostEvidence, len(r.First.Events))] {
				p.Against = append(p.Against, show(r.ID, i+1, e, in.Log.Events, lanes, a))
			}
			v.Broken = append(v.Broken, p)
		case guarantees.Held:
			p.Why = r.Limits
			v.Held = append(v.Held, p)
		case guarantees.NotCheckable:
			v.NotCheckable = append(v.NotCheckable, p)
		}
	}
	return v
}

// show sets a flag where an event is, if it is of a pod that has a lane.
func show(id string, number int, e history.Event, events []history.Event, lanes []*lane, a axis) evidence { //nolint:revive // all that a flag is of
	shown := evidence{Number: fmt.Sprint(number), Who: e.Process, Name: string(e.Fact.Name()), When: e.Wall.UTC().Format("15:04:05.000"), Text: fields(e)}
	if e.Process == "" {
		shown.Who = "database"
	}
	at, uid := e.Ended, uidOf(e.Fact)
	if i := slices.IndexFunc(events, func(other history.Event) bool { return ofSame(e, other) }); i >= 0 {
		at = events[i].Ended
		uid = uidOf(events[i].Fact)
	}
	if l := laneOf(lanes, uid); l != nil && at > 0 {
		shown.Anchor = fmt.Sprintf("%s-%d", id, number)
		l.Pins = append(l.Pins, pin{ID: shown.Anchor, Number: shown.Number, X: a.x(at), Text: fmt.Sprintf("%s, event %d: %s %s", id, number, shown.Name, shown.Text)})
	}
	return shown
}

// ofSame reports whether the other event says with a time and an object what this one says
// without: a commit of the database, or a request whose commits are known.
func ofSame(e, other history.Event) bool {
	commit, ok := other.Fact.(history.Commit)
	if !ok || other.Ended == 0 {
		return false
	}
	switch f := e.Fact.(type) {
	case history.Commit:
		return e.Ended == 0 && f.Revision == commit.Revision && f.UID == commit.UID
	case history.OpCall, history.OpReturn:
		return e.Cause != "" && e.Cause == other.Cause && commit.Resource == "pods"
	}
	return false
}
