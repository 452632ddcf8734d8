package report

import (
	"fmt"
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// draw lays out the rows of the lane.
func (l *lane) draw(a axis) {
	v := &l.record
	end := a.knots[len(a.knots)-1].at
	orEnd := func(at int64) int64 {
		if at == 0 {
			return end
		}
		return at
	}
	api := l.addRow(rowAPI, "API")
	if v.created > 0 {
		api.addBar(a, "live", v.created, orEnd(earlier(v.marked, v.removed)), "the object")
	}
	if v.marked > 0 && v.removed != v.marked {
		api.addBar(a, "terminating", v.marked, orEnd(v.removed), "Terminating")
	}
	kubelet := l.addRow(rowKubelet, "kubelet")
	if v.stopping > 0 {
		kubelet.addBar(a, "stopping", v.stopping, orEnd(max(v.final, v.umount, v.endedAt())), "the kubelet ends the pod")
	}
	for _, c := range v.containers {
		if c.start == 0 {
			continue
		}
		r := l.addRow(rowContainers, c.name)
		r.addBar(a, "alive", c.start, orEnd(c.exit), c.name+" runs")
		if c.hooked {
			r.addBar(a, "hook", c.hookBegan, orEnd(earlier(c.hookEnded, c.exit)), c.name+": preStop hook")
		}
	}
	if v.mount > 0 {
		l.addRow(rowVolumes, "volumes").addBar(a, "mounted", v.mount, orEnd(v.umount), "volumes are mounted")
	}
	l.addMarks(a)
}

// earlier returns the lesser of the instants that are not 0.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (l *lane) addRow(kind rowKind, name string) *row {
	r := &row{Kind: kind, Name: name, Y: rowTop/2 + len(l.Rows)*rowHeight}
	l.Rows = append(l.Rows, r)
	return r
}

func (r *row) addBar(a axis, kind string, from, to int64, text string) {
	x, width := a.span(from, to)
	r.Bars = append(r.Bars, bar{Kind: kind, X: x, Width: width, Text: text + ", " + formatInstant(a, from) + " to " + formatInstant(a, to)})
}

// formatInstant returns the cluster time of an instant as text.
func formatInstant(a axis, at int64) string { return a.clusterTime(at).UTC().Format("15:04:05.000") }

// addMarks adds the marks of the lane's events to its rows.
func (l *lane) addMarks(a axis) {
	var was *history.Commit
	for _, e := range l.record.events {
		said, ok := eventMark{}, false
		switch f := e.Fact.(type) {
		case history.Commit:
			said, ok = commitMark(was, f)
			was = &f
		case history.OpCall:
			if f.Verb == "delete" {
				said, ok = callMark(f), true
			}
		default:
			said, ok = markOf(e.Fact)
		}
		if !ok {
			continue
		}
		r := l.rowOf(said.row, e.Fact)
		if r == nil {
			continue
		}
		m := mark{Kind: said.kind, X: a.position(e.Ended), Text: e.Wall.UTC().Format("15:04:05.000") + "  " + said.text}
		if exit, ended := e.Fact.(history.Exit); ended && exit.Code != 0 {
			m.Label = fmt.Sprint(exit.Code)
		}
		r.addMark(m)
	}
}

// addMark adds a mark. Equal marks at one position become one, for example of a retry every second.
func (r *row) addMark(m mark) {
	const near = 0.15
	same := func(old mark) bool {
		return old.Kind == m.Kind && m.X-old.X < near && old.Kind != "sig" && old.Kind != "kill" && old.Kind != "exit"
	}
	if i := slices.IndexFunc(r.Marks, same); i >= 0 {
		r.Marks[i].Text = appendLine(r.Marks[i].Text, m.Text)
		return
	}
	r.Marks = append(r.Marks, m)
}

// appendLine appends a line unless the text is long already.
func appendLine(text, line string) string {
	const most = 700
	if len(text) > most {
		return text
	}
	return text + "\n" + line
}

// rowOf returns the row that a mark belongs to: for containers, the container's own.
func (l *lane) rowOf(kind rowKind, fact history.Fact) *row {
	of, _ := containerOf(fact)
	nth := 0
	for _, c := range l.record.containers {
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
