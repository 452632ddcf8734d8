package report

import (
	"fmt"
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// place draws the lane's rows.
func (l *lane) place(a axis) {
	v := &l.life
	end := a.knots[len(a.knots)-1].at
	or := func(at int64) int64 {
		if at == 0 {
			return end
		}
		return at
	}
	api := l.row(rowAPI, "API")
	if v.created > 0 {
		api.bar(a, "live", v.created, or(min64(v.marked, v.removed)), "the object")
	}
	if v.marked > 0 && v.removed != v.marked {
		api.bar(a, "terminating", v.marked, or(v.removed), "Terminating")
	}
	kubelet := l.row(rowKubelet, "kubelet")
	if v.stopping > 0 {
		kubelet.bar(a, "stopping", v.stopping, or(max(v.final, v.umount, v.died())), "the kubelet ends the pod")
	}
	for _, c := range v.containers {
		if c.start == 0 {
			continue
		}
		r := l.row(rowContainers, c.name)
		r.bar(a, "alive", c.start, or(c.exit), c.name+" runs")
		if c.hooked {
			r.bar(a, "hook", c.hookBegan, or(min64(c.hookEnded, c.exit)), c.name+": preStop hook")
		}
	}
	if v.mount > 0 {
		l.row(rowVolumes, "volumes").bar(a, "mounted", v.mount, or(v.umount), "volumes are mounted")
	}
	l.marks(a)
}

// min64 is the lesser of those that are not 0.
func min64(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (l *lane) row(kind rowKind, name string) *row {
	r := &row{Kind: kind, Name: name, Y: rowTop/2 + len(l.Rows)*rowHeight}
	l.Rows = append(l.Rows, r)
	return r
}

func (r *row) bar(a axis, kind string, from, to int64, text string) {
	x, width := a.span(from, to)
	r.Bars = append(r.Bars, bar{Kind: kind, X: x, Width: width, Text: text + ", " + clockOf(a, from) + " to " + clockOf(a, to)})
}

// clockOf is what the cluster's clock showed.
func clockOf(a axis, at int64) string { return a.shows(at).UTC().Format("15:04:05.000") }

// marks puts the lane's events on its rows.
func (l *lane) marks(a axis) {
	var was *history.Commit
	for _, e := range l.life.events {
		said, ok := told{}, false
		switch f := e.Fact.(type) {
		case history.Commit:
			said, ok = tellCommit(was, f)
			was = &f
		case history.OpCall:
			if f.Verb == "delete" {
				said, ok = tellCall(f), true
			}
		default:
			said, ok = tell(e.Fact)
		}
		if !ok {
			continue
		}
		r := l.rowOf(said.row, e.Fact)
		if r == nil {
			continue
		}
		m := mark{Kind: said.kind, X: a.x(e.Ended), Text: e.Wall.UTC().Format("15:04:05.000") + "  " + said.text}
		if exit, ended := e.Fact.(history.Exit); ended && exit.Code != 0 {
			m.Label = fmt.Sprint(exit.Code)
		}
		r.add(m)
	}
}

// add leaves out what stands at the place of an equal one: a retry every second is one mark.
func (r *row) add(m mark) {
	const near = 0.15
	same := func(old mark) bool {
		return old.Kind == m.Kind && m.X-old.X < near && old.Kind != "sig" && old.Kind != "kill" && old.Kind != "exit"
	}
	if i := slices.IndexFunc(r.Marks, same); i >= 0 {
		r.Marks[i].Text = more(r.Marks[i].Text, m.Text)
		return
	}
	r.Marks = append(r.Marks, m)
}

// more adds a line, up to a few.
func more(text, line string) string {
	const most = 700
	if len(text) > most {
		return text
	}
	return text + "\n" + line
}

// rowOf is the row that a mark belongs on: of containers, the container's own.
func (l *lane) rowOf(kind rowKind, fact history.Fact) *row {
	of, _ := containerOf(fact)
	nth := 0
	for _, c := range l.life.containers {
		if c.start == 0 {
			continue
		}
		if c.id == of.Container {
			break
		}
		nth++
	}
	for _, r := range l.Rows {
		if r.Kind != kind {
			continue
		}
		if kind != rowContainers || nth == 0 {
			return r
		}
		nth--
	}
	return nil
}
