// Package report makes one page of what a cluster has written down: a swim-lane for each
// incarnation of a pod, what was broken meanwhile, and what became of every promise, with
// counter-examples at their places in the lanes. The page is one HTML file that needs
// nothing else. It is pure: the same history makes the same bytes.
//
//	report.go    what goes in, and the page as it is written
//	axis.go      where an instant is on the page
//	lanes.go     a pod's incarnation: its bars and marks
//	facts.go     what an event is about, and how it is said
//	troubles.go  what was broken, and where that is shown
//	verdicts.go  what became of the promises
//	page.html    the page; page.css and page.js are put into it
//
// # Time
//
// Things are where the machine's monotonic clock has them, so that their order is true
// whatever a cluster's clock does; the labels are the cluster's clock. Stretches in which
// nothing happens are drawn short.
package report

import (
	"bytes"
	_ "embed" // the page's parts
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// ErrNothing says that a history has nothing to show.
var ErrNothing = errors.New("there is nothing to show: no process has written down anything about a pod")

// Input is what a page is made of.
type Input struct {
	// Title is the page's.
	Title string
	// Facts are shown under it: a seed, a command.
	Facts []Fact
	// Log is what the processes have written down.
	Log history.Log
	// Results are what became of the promises; none when Unproven says why.
	Results  []guarantees.Result
	Unproven error
	// Notes are what a reader has to know, such as a database that could not be read.
	Notes []string
}

// Fact is a line under the title.
type Fact struct{ Name, Value string }

// Page is a report, ready to be written.
type Page struct {
	Title    string
	Facts    []Fact
	Notes    []string
	Verdicts verdicts
	Axis     axisView
	Troubles []troubleRow
	Splits   []split
	Lanes    []*lane
	Nodes    []string
	// Compact shows lanes small at first.
	Compact bool
}

// most lanes that are shown large at first.
const mostLarge = 24

// New makes a page; ErrNothing when there is nothing to show.
func New(in Input) (Page, error) {
	lanes := lanesOf(in.Log.Events)
	if len(lanes) == 0 {
		return Page{}, ErrNothing
	}
	troubles := troublesOf(in.Log.Events, lanes)
	at := newAxis(in.Log.Events, instants(lanes, troubles))
	splits := splitsOf(in.Log.Events, lanes, at)
	for _, l := range lanes {
		l.place(at)
		l.shade(troubles, at)
	}
	p := Page{
		Title: in.Title, Notes: in.Notes, Axis: at.view(), Lanes: lanes, Splits: splits,
		Troubles: rowsOf(troubles, at), Compact: len(lanes) > mostLarge, Verdicts: verdictsOf(in, lanes, at),
	}
	for _, l := range lanes {
		if l.Node != "" && !slices.Contains(p.Nodes, l.Node) {
			p.Nodes = append(p.Nodes, l.Node)
		}
	}
	slices.Sort(p.Nodes)
	p.Facts = append(factsOf(in, p), in.Facts...)
	return p, nil
}

// factsOf say how much there is.
func factsOf(in Input, p Page) []Fact {
	pods := map[string]bool{}
	for _, l := range p.Lanes {
		pods[l.Pod] = true
	}
	broken := 0
	for _, row := range p.Troubles {
		broken += len(row.Bars)
	}
	facts := []Fact{
		{"began", p.Axis.Began},
		{"lasted", p.Axis.Lasted},
		{"pods", fmt.Sprintf("%d, in %d incarnations", len(pods), len(p.Lanes))},
		{"broken on purpose", fmt.Sprint(broken)},
		{"split-brain windows", fmt.Sprint(len(p.Splits))},
		{"events", fmt.Sprint(len(in.Log.Events))},
	}
	if in.Log.Torn > 0 {
		facts = append(facts, Fact{"lines cut short by a crash", fmt.Sprint(in.Log.Torn)})
	}
	return facts
}

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText string
	//go:embed page.js
	scriptText string
)

// Write writes the page. Whatever names there are, nothing in them is markup.
func (p Page) Write(out io.Writer) error {
	page, err := template.New("page").Funcs(template.FuncMap{
		"percent": func(share float64) float64 { return 100 * share },
		"style":   func() template.CSS { return template.CSS(styleText) }, //nolint:gosec // our own file
		"script":  func() template.JS { return template.JS(scriptText) },  //nolint:gosec // our own file
	}).Parse(pageText)
	if err != nil {
		return err
	}
	var whole bytes.Buffer
	if err := page.Execute(&whole, p); err != nil {
		return err
	}
	_, err = out.Write(whole.Bytes())
	return err
}
