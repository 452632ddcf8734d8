package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/analysis/windows"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/partition"
)

// trouble is an injected trouble, or the pause of a process.
type trouble struct {
	history.Trouble

	began, ended int64
	// hits are the instants at which a fault took effect.
	hits []int64
	text string
	// nodes are the affected nodes, and pods the selected pod names; empty for all.
	nodes []string
	pods  string
}

// findTroubles returns all troubles in the order of their beginnings. A trouble without an end
// lasts. Processes that stop after the last event of a pod belong to the shutdown of the cluster.
func findTroubles(events []history.Event, lanes []*lane) []*trouble {
	var all []*trouble
	last := int64(0)
	for _, l := range lanes {
		last = max(last, l.record.lastSeen)
	}
	for _, e := range events {
		switch f := e.Fact.(type) {
		case history.FaultBegin:
			// A restarted bus records the troubles in force again.
			again := lastMatching(all, func(t *trouble) bool { return t.ended == 0 && t.Kind == f.Kind && t.What == f.What }) != nil
			if !again && (e.Ended < last || f.Kind != history.TroubleDown) {
				all = append(all, newTrouble(f.Trouble, e.Ended))
			}
		case history.FaultEnd:
			if t := lastMatching(all, func(t *trouble) bool { return t.ended == 0 && t.Kind == f.Kind && t.What == f.What }); t != nil {
				t.ended = max(e.Began, t.began)
			}
		case history.FaultTrigger:
			if t := lastMatching(all, func(t *trouble) bool { return t.Kind == history.TroubleFault && t.What == f.Fault }); t != nil {
				t.hits = append(t.hits, e.Ended)
			}
		case history.Stall:
			all = addStall(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *trouble) int { return cmp.Compare(a.began, b.began) })
	for _, t := range all {
		t.ended = cmp.Or(t.ended, max(last, t.began))
	}
	return all
}

// addStall adds a process that was not scheduled, unless a known pause covers the time within a
// second at either end.
func addStall(all []*trouble, e history.Event) []*trouble {
	const slack = int64(time.Second)
	paused := func(t *trouble) bool {
		return t.Kind == history.TroublePaused && t.What == e.Process && t.began <= e.Began+slack && (t.ended == 0 || t.ended >= e.Ended-slack)
	}
	if slices.ContainsFunc(all, paused) {
		return all
	}
	t := newTrouble(history.Trouble{Kind: history.TroublePaused, What: e.Process}, e.Began)
	t.ended, t.text = e.Ended, e.Process+" stood still"
	return append(all, t)
}

// lastMatching returns the last trouble that matches; nil for none.
func lastMatching(all []*trouble, is func(*trouble) bool) *trouble {
	for _, t := range slices.Backward(all) {
		if is(t) {
			return t
		}
	}
	return nil
}

// newTrouble describes a trouble. If its arguments cannot be decoded, the text is its kind and
// name.
func newTrouble(of history.Trouble, began int64) *trouble {
	t := &trouble{Trouble: of, began: began, text: string(of.Kind) + " " + of.What}
	switch of.Kind {
	case history.TroubleCut:
		t.nodes = of.CutOff
		var cut partition.Cut
		if json.Unmarshal(of.Arguments, &cut) == nil {
			t.text = describeCut(cut.Spec) + " " + strings.Join(of.CutOff, ", ")
		}
	case history.TroubleFault:
		var f fault.Fault
		if json.Unmarshal(of.Arguments, &f) == nil {
			t.text = strings.TrimSpace(string(f.Spec.Point)+" "+string(f.Spec.Effect.Kind)) + describeTarget(f.Spec.Where)
			t.nodes, t.pods = strings.FieldsFunc(cmp.Or(f.Spec.Where.Node, nodeOf(f.Spec.Where.Process), nodeOfClient(f.Spec.Where.Client)), func(r rune) bool { return r == ',' }), f.Spec.Where.Pod
		}
	case history.TroubleClock:
		var s clock.Segment
		if json.Unmarshal(of.Arguments, &s) == nil {
			t.text = fmt.Sprintf("clock: speed %v", s.Speed)
			if s.Paused {
				t.text = "clock paused"
			}
		}
	case history.TroubleDown, history.TroublePaused:
		t.text = of.What + " " + string(of.Kind)
		if node := nodeOf(of.What); node != "" {
			t.nodes = []string{node}
		}
	}
	return t
}

// nodeOfClient returns the node of a client, for example of node:node-1; empty for others.
func nodeOfClient(client string) string {
	node, _ := strings.CutPrefix(client, "node:")
	if node == client {
		return ""
	}
	return node
}

// describeCut returns in a few words what a cut does.
func describeCut(s partition.Spec) string {
	what := "cut off:"
	switch {
	case s.Flap != partition.Flap{}:
		what = "flapping:"
	case s.Latency.Duration > 0 || s.Bandwidth > 0:
		what = "slow:"
	case s.Manner == partition.Reset:
		what = "reset:"
	}
	if len(s.Only) > 0 {
		what = fmt.Sprintf("%v held:", s.Only)
	}
	if s.Direction == partition.FromNode {
		return "from only, " + what
	}
	if s.Direction == partition.ToNode {
		return "to only, " + what
	}
	return what
}

// describeTarget returns in a few words what a fault selects.
func describeTarget(about fault.Attributes) string {
	words := []string{
		about.Process, about.Node, about.Client, about.Verb, about.Resource, about.Subresource,
		about.Namespace, about.Pod, about.Container, about.Volume, about.Name,
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, " ") + ")"
}

// class returns the CSS class of the trouble.
func (t *trouble) class() string {
	switch t.Kind {
	case history.TroubleCut, history.TroubleFault, history.TroubleClock, history.TroubleDown, history.TroublePaused:
		return string(t.Kind)
	}
	return "fault"
}

// affects reports whether the trouble is about a lane's node and pod, and whether about some nodes
// alone.
func (t *trouble) affects(l *lane) (here, alone bool) {
	_, name, _ := strings.Cut(l.Pod, "/")
	if t.pods != "" && !slices.ContainsFunc(strings.Split(t.pods, ","), func(pattern string) bool { return matchesPattern(pattern, name) }) {
		return false, false
	}
	about := slices.DeleteFunc(slices.Clone(t.nodes), func(node string) bool { return slices.Contains(partition.Members(nil), node) })
	if len(about) == 0 {
		return true, false
	}
	return slices.ContainsFunc(about, func(node string) bool { return matchesPattern(node, l.Node) }), true
}

// matchesPattern compares a name with a pattern that may end in a star.
func matchesPattern(pattern, name string) bool {
	if begin, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(name, begin)
	}
	return pattern == name
}

// addTroubleBands shows the troubles behind the lane, for as long as the pod existed.
func (l *lane) addTroubleBands(troubles []*trouble, a axis) {
	for _, t := range troubles {
		here, alone := t.affects(l)
		from, to := max(t.began, l.record.firstSeen), min(t.ended, l.record.lastSeen)
		if !here || from > to {
			continue
		}
		kind := t.class()
		if !alone {
			kind += " everywhere"
		}
		x, width := a.span(from, to)
		l.Bands = append(l.Bands, bar{Kind: kind, X: x, Width: width, Text: t.text})
	}
	l.Bands = mergeBands(l.Bands)
}

// mergeBands joins overlapping bands of one kind, so that a lane stays readable when everything is
// broken at once.
func mergeBands(bands []bar) []bar {
	var all []bar
	for _, b := range bands { // sorted by their beginnings
		i := slices.IndexFunc(all, func(old bar) bool { return old.Kind == b.Kind && b.X <= old.X+old.Width })
		if i < 0 {
			all = append(all, b)
			continue
		}
		all[i].Width = max(all[i].Width, b.X+b.Width-all[i].X)
		if !strings.Contains(all[i].Text, b.Text) {
			all[i].Text = appendLine(all[i].Text, b.Text)
		}
	}
	return all
}

// troubleRow is a row above the lanes, with troubles that do not overlap.
type troubleRow struct {
	Y         int
	Bars      []troubleBar
	usedUntil percent
}

// troubleBar is one trouble in such a row.
type troubleBar struct {
	bar

	Label string
	Hits  []percent
}

// letterWidth is roughly the width of one letter of a label on the axis.
const letterWidth = percent(0.52)

// maxHits limits the hits that are shown of one fault.
const maxHits = 100

// layOutTroubles puts each trouble into the first row that has room for it and its label.
func layOutTroubles(troubles []*trouble, a axis) []troubleRow {
	var rows []troubleRow
	for _, t := range troubles {
		x, width := a.span(t.began, t.ended)
		b := troubleBar{
			bar:   bar{Kind: t.class(), X: x, Width: width, Text: fmt.Sprintf("%s: %s, %s to %s", t.What, t.text, formatInstant(a, t.began), formatInstant(a, t.ended))},
			Label: shorten(t.text),
		}
		for _, hit := range t.hits[:min(maxHits, len(t.hits))] {
			b.Hits = append(b.Hits, a.position(hit))
		}
		if len(t.hits) > 0 {
			b.Text += fmt.Sprintf("; struck %d times", len(t.hits))
		}
		i := slices.IndexFunc(rows, func(r troubleRow) bool { return r.usedUntil < x })
		if i < 0 {
			i = len(rows)
			rows = append(rows, troubleRow{Y: i * troubleHeight})
		}
		rows[i].Bars = append(rows[i].Bars, b)
		rows[i].usedUntil = max(x+width, x+letterWidth*percent(len([]rune(b.Label))+2))
	}
	return rows
}

const troubleHeight = 18

// TroublesHeight returns the height of all trouble rows in pixels.
func (p Page) TroublesHeight() int { return len(p.Troubles)*troubleHeight + 6 }

func shorten(text string) string {
	const most = 44
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// split is a split-brain window.
type split struct {
	Identity, Text string
	// Lanes holds the UIDs of the two incarnations, the older first.
	Lanes [2]string
	bar
}

// addSplits returns the split-brain windows, and shows each behind its two lanes.
func addSplits(events []history.Event, lanes []*lane, a axis) []split {
	var splits []split
	for _, w := range windows.Find(events, a.lastClusterTime()) {
		older, younger := laneOf(lanes, w.Incarnations[0].UID), laneOf(lanes, w.Incarnations[1].UID)
		if older == nil || younger == nil {
			continue
		}
		from, to := younger.record.firstStart(), a.knots[len(a.knots)-1].at
		for _, died := range []int64{older.record.endedAt(), younger.record.endedAt()} {
			if died > 0 {
				to = min(to, died)
			}
		}
		x, width := a.span(from, max(from, to))
		where := w.Incarnations[0].Node + " and on " + w.Incarnations[1].Node
		if w.Incarnations[0].Node == w.Incarnations[1].Node {
			where = w.Incarnations[0].Node + " twice"
		}
		text := fmt.Sprintf("split brain: %s ran on %s for %s", w.Identity, where, formatBriefly(durationOf(w.Took)))
		s := split{Identity: w.Identity, Text: text, Lanes: [2]string{older.UID, younger.UID}, bar: bar{Kind: "split", X: x, Width: width, Text: text}}
		splits = append(splits, s)
		older.Bands = append(older.Bands, s.bar)
		younger.Bands = append(younger.Bands, s.bar)
	}
	return splits
}

func laneOf(lanes []*lane, uid string) *lane {
	if i := slices.IndexFunc(lanes, func(l *lane) bool { return l.UID == uid }); i >= 0 {
		return lanes[i]
	}
	return nil
}

// firstStart returns when the first container was started.
func (v *podRecord) firstStart() int64 {
	first := int64(0)
	for _, c := range v.containers {
		first = earlier(first, c.start)
	}
	return first
}
