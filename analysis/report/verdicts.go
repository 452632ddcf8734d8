package report

import (
	"fmt"
	"slices"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// verdicts holds the invariants by verdict.
type verdicts struct {
	// Unproven says why nothing was checked; empty if it was.
	Unproven                   string
	Held, Broken, NotCheckable []invariantRow
}

// invariantRow is the verdict on one invariant.
type invariantRow struct {
	ID, Statement     string
	Cases, Violations int
	Why, What         string
	Events            []eventRow
	Left              int
}

// eventRow is an event of a counter-example.
type eventRow struct {
	// Anchor is the id of the event's pin on the page; empty if it has none.
	Anchor, Number        string
	When, Who, Name, Text string
}

// maxEvents limits the events that are shown of a counter-example.
const maxEvents = 12

func verdictsOf(in Input, lanes []*lane, a axis) verdicts {
	var v verdicts
	if in.Unproven != nil {
		v.Unproven = in.Unproven.Error()
	}
	for _, r := range in.Results {
		p := invariantRow{ID: r.ID, Statement: r.Statement, Cases: r.Cases, Violations: r.Violations, Why: r.Why}
		switch r.Verdict {
		case guarantees.Violated:
			p.What = r.First.What
			p.Left = max(0, len(r.First.Events)-maxEvents)
			for i, e := range r.First.Events[:min(maxEvents, len(r.First.Events))] {
				p.Events = append(p.Events, pinEvent(r.ID, i+1, e, in.Log.Events, lanes, a))
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

// pinEvent pins an event to the lane of its pod, if there is one.
func pinEvent(id string, number int, e history.Event, events []history.Event, lanes []*lane, a axis) eventRow { //nolint:revive // a pin needs all of these
	row := eventRow{Number: fmt.Sprint(number), Who: e.Process, Name: string(e.Fact.Name()), When: e.Wall.UTC().Format("15:04:05.000"), Text: formatFields(e)}
	if e.Process == "" {
		row.Who = "database"
	}
	at, uid := e.Ended, uidOf(e.Fact)
	if i := slices.IndexFunc(events, func(other history.Event) bool { return describesSame(e, other) }); i >= 0 {
		at = events[i].Ended
		uid = uidOf(events[i].Fact)
	}
	if l := laneOf(lanes, uid); l != nil && at > 0 {
		row.Anchor = fmt.Sprintf("%s-%d", id, number)
		l.Pins = append(l.Pins, pin{ID: row.Anchor, Number: row.Number, X: a.position(at), Text: fmt.Sprintf("%s, event %d: %s %s", id, number, row.Name, row.Text)})
	}
	return row
}

// describesSame reports whether the other event adds a time and a pod to an event without them: a
// commit of the database, or a request with known commits.
func describesSame(e, other history.Event) bool {
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
