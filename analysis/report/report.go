// Package report renders the history of a cluster as one page. It shows a swim-lane for each
// incarnation of a pod, the troubles meanwhile, and the verdict on every invariant, with the events
// of counter-examples pinned to the lanes. The page is a single HTML file without external
// resources. The package is pure: equal histories give equal bytes.
//
//	report.go    the input, and the page as it is written
//	axis.go      the position of an instant on the page
//	lanes.go     the incarnation of a pod: its bars and marks
//	facts.go     which pod an event is about, and its text
//	troubles.go  the troubles, and where they are shown
//	verdicts.go  the verdicts on the invariants
//	page.html    the page; page.css and page.js are put into it
//
// # Time
//
// Positions use the machine's monotonic clock, so that the order is right whatever a cluster's
// clock does. Labels show cluster time. Stretches in which nothing happens are drawn short.
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

// Input holds what a page is made of.
type Input struct {
	// Title is the title of the page.
	Title string
	// Facts are shown under the title, for example a seed or a command.
	Facts []Fact
	// Log holds the events that the processes recorded.
	Log history.Log
	// Results holds the verdicts on the invariants. It is empty if Unproven says why.
	Results  []guarantees.Result
	Unproven error
	// Notes are shown to the reader, for example that a database could not be read.
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
	// Compact shows small lanes at first.
	Compact bool
}

// maxLargeLanes is how many lanes are shown large at first.
const maxLargeLanes = 24

// New returns a page, or ErrNothing if there is nothing to show.
func New(in Input) (Page, error) {
	lanes := lanesOf(in.Log.Events)
	if len(lanes) == 0 {
		return Page{}, ErrNothing
	}
	troubles := findTroubles(in.Log.Events, lanes)
	at := newAxis(in.Log.Events, instants(lanes, troubles))
	splits := addSplits(in.Log.Events, lanes, at)
	for _, l := range lanes {
		l.draw(at)
		l.addTroubleBands(troubles, at)
	}
	p := Page{
		Title: in.Title, Notes: in.Notes, Axis: at.view(), Lanes: lanes, Splits: splits,
		Troubles: layOutTroubles(troubles, at), Compact: len(lanes) > maxLargeLanes, Verdicts: verdictsOf(in, lanes, at),
	}
	for _, l := range lanes {
		if l.Node != "" && !slices.Contains(p.Nodes, l.Node) {
			p.Nodes = append(p.Nodes, l.Node)
		}
	}
	slices.Sort(p.Nodes)
	p.Facts = append(summaryOf(in, p), in.Facts...)
	return p, nil
}

// summaryOf returns the facts about the size of the history.
func summaryOf(in Input, p Page) []Fact {
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
		{"troubles", fmt.Sprint(broken)},
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

// Write writes the page. Names are escaped, so that no name becomes markup.
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
