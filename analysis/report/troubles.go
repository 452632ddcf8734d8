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

// trouble is something that was broken on purpose, or a process that stood still.
type trouble struct {
	history.Trouble

	began, ended int64
	// hits are when a fault has struck.
	hits []int64
	text string
	// nodes are those that it is about, and pods the names that it selects; none for all.
	nodes []string
	pods  string
}

// troublesOf are all, in the order in which they began. One without an end lasts. Processes
// that end after all pods are those of a cluster that is taken down.
func troublesOf(events []history.Event, lanes []*lane) []*trouble {
	var all []*trouble
	last := int64(0)
	for _, l := range lanes {
		last = max(last, l.life.until)
	}
	for _, e := range events {
		switch f := e.Fact.(type) {
		case history.FaultBegin:
			// A bus that begins again says again what is broken.
			again := newest(all, func(t *trouble) bool { return t.ended == 0 && t.Kind == f.Kind && t.What == f.What }) != nil
			if !again && (e.Ended < last || f.Kind != history.TroubleDown) {
				all = append(all, newTrouble(f.Trouble, e.Ended))
			}
		case history.FaultEnd:
			if t := newest(all, func(t *trouble) bool { return t.ended == 0 && t.Kind == f.Kind && t.What == f.What }); t != nil {
				t.ended = max(e.Began, t.began)
			}
		case history.FaultHit:
			if t := newest(all, func(t *trouble) bool { return t.Kind == history.TroubleFault && t.What == f.Fault }); t != nil {
				t.hits = append(t.hits, e.Ended)
			}
		case history.Stall:
			all = stalled(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *trouble) int { return cmp.Compare(a.began, b.began) })
	for _, t := range all {
		t.ended = cmp.Or(t.ended, max(last, t.began))
	}
	return all
}

// stalled adds a process that stood still, unless it is known that it was paused for all of
// that time, but for a second at either end.
func stalled(all []*trouble, e history.Event) []*trouble {
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

// newest is the last that is so; nil for none.
func newest(all []*trouble, is func(*trouble) bool) *trouble {
	for _, t := range slices.Backward(all) {
		if is(t) {
			return t
		}
	}
	return nil
}

// newTrouble says in words what is wrong. What it cannot read it calls by its name.
func newTrouble(of history.Trouble, began int64) *trouble {
	t := &trouble{Trouble: of, began: began, text: string(of.Kind) + " " + of.What}
	switch of.Kind {
	case history.TroubleCut:
		t.nodes = of.Off
		var cut partition.Cut
		if json.Unmarshal(of.Arguments, &cut) == nil {
			t.text = manner(cut.Spec) + " " + strings.Join(of.Off, ", ")
		}
	case history.TroubleFault:
		var f fault.Fault
		if json.Unmarshal(of.Arguments, &f) == nil {
			t.text = strings.TrimSpace(string(f.Spec.Point)+" "+string(f.Spec.Effect.Kind)) + where(f.Spec.Where)
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

// nodeOfClient is the node that a client such as node:node-1 speaks for.
func nodeOfClient(client string) string {
	node, _ := strings.CutPrefix(client, "node:")
	if node == client {
		return ""
	}
	return node
}

// manner is what a cut does, in a few words.
func manner(s partition.Spec) string {
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

// where is what a fault selects, in a few words.
func where(about fault.About) string {
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

// kind is how it is coloured.
func (t *trouble) kind() string {
	switch t.Kind {
	case history.TroubleCut, history.TroubleFault, history.TroubleClock, history.TroubleDown, history.TroublePaused:
		return string(t.Kind)
	}
	return "fault"
}

// concerns reports whether it is about a lane's node and pod, and whether about that node
// alone.
func (t *trouble) concerns(l *lane) (here, alone bool) {
	_, name, _ := strings.Cut(l.Pod, "/")
	if t.pods != "" && !slices.ContainsFunc(strings.Split(t.pods, ","), func(pattern string) bool { return matches(pattern, name) }) {
		return false, false
	}
	about := slices.DeleteFunc(slices.Clone(t.nodes), func(node string) bool { return slices.Contains(partition.Parties(nil), node) })
	if len(about) == 0 {
		return true, false
	}
	return slices.ContainsFunc(about, func(node string) bool { return matches(node, l.Node) }), true
}

// matches compares with a pattern that may end in a star.
func matches(pattern, name string) bool {
	if begin, open := strings.CutSuffix(pattern, "*"); open {
		return strings.HasPrefix(name, begin)
	}
	return pattern == name
}

// shade puts what was broken behind the lane, for as long as the pod was there.
func (l *lane) shade(troubles []*trouble, a axis) {
	for _, t := range troubles {
		here, alone := t.concerns(l)
		from, to := max(t.began, l.life.born), min(t.ended, l.life.until)
		if !here || from > to {
			continue
		}
		kind := t.kind()
		if !alone {
			kind += " everywhere"
		}
		x, width := a.span(from, to)
		l.Bands = append(l.Bands, bar{Kind: kind, X: x, Width: width, Text: t.text})
	}
	l.Bands = merged(l.Bands)
}

// merged are bands of which no two of one kind overlap: when everything is broken at once, a
// lane is still to be read.
func merged(bands []bar) []bar {
	var all []bar
	for _, b := range bands { // in the order of their beginnings
		i := slices.IndexFunc(all, func(old bar) bool { return old.Kind == b.Kind && b.X <= old.X+old.Width })
		if i < 0 {
			all = append(all, b)
			continue
		}
		all[i].Width = max(all[i].Width, b.X+b.Width-all[i].X)
		if !strings.Contains(all[i].Text, b.Text) {
			all[i].Text = more(all[i].Text, b.Text)
		}
	}
	return all
}

// troubleRow is a row above the lanes: troubles that do not overlap.
type troubleRow struct {
	Y    int
	Bars []troubleBar
	full percent
}

// troubleBar is one trouble there.
type troubleBar struct {
	bar

	Label string
	Hits  []percent
}

// letter is about how much of the axis one letter of a label takes.
const letter = percent(0.52)

// mostHits is how many hits of one fault are shown.
const mostHits = 100

// rowsOf puts each trouble into the first row that has room for it and its label.
func rowsOf(troubles []*trouble, a axis) []troubleRow {
	var rows []troubleRow
	for _, t := range troubles {
		x, width := a.span(t.began, t.ended)
		b := troubleBar{
			bar:   bar{Kind: t.kind(), X: x, Width: width, Text: fmt.Sprintf("%s: %s, %s to %s", t.What, t.text, clockOf(a, t.began), clockOf(a, t.ended))},
			Label: shorten(t.text),
		}
		for _, hit := range t.hits[:min(mostHits, len(t.hits))] {
			b.Hits = append(b.Hits, a.x(hit))
		}
		if len(t.hits) > 0 {
			b.Text += fmt.Sprintf("; struck %d times", len(t.hits))
		}
		i := slices.IndexFunc(rows, func(r troubleRow) bool { return r.full < x })
		if i < 0 {
			i = len(rows)
			rows = append(rows, troubleRow{Y: i * troubleHeight})
		}
		rows[i].Bars = append(rows[i].Bars, b)
		rows[i].full = max(x+width, x+letter*percent(len([]rune(b.Label))+2))
	}
	return rows
}

const troubleHeight = 18

// TroublesHeight is that of all rows, in pixels.
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
	// Lanes are the ids of the two, the older first.
	Lanes [2]string
	bar
}

// splitsOf are the windows, and puts each behind its lanes.
func splitsOf(events []history.Event, lanes []*lane, a axis) []split {
	var splits []split
	for _, w := range windows.Find(events, a.samplesEnd()) {
		older, younger := laneOf(lanes, w.Lives[0].UID), laneOf(lanes, w.Lives[1].UID)
		if older == nil || younger == nil {
			continue
		}
		from, to := younger.life.started(), a.knots[len(a.knots)-1].at
		for _, died := range []int64{older.life.died(), younger.life.died()} {
			if died > 0 {
				to = min(to, died)
			}
		}
		x, width := a.span(from, max(from, to))
		where := w.Lives[0].Node + " and on " + w.Lives[1].Node
		if w.Lives[0].Node == w.Lives[1].Node {
			where = w.Lives[0].Node + " twice"
		}
		text := fmt.Sprintf("split brain: %s ran on %s for %s", w.Identity, where, brief(seconds64(w.Took)))
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

// started is when the first container was started.
func (v *life) started() int64 {
	first := int64(0)
	for _, c := range v.containers {
		first = min64(first, c.start)
	}
	return first
}
