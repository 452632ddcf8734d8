// Package describe writes objects out as kubectl describe does: everything a person
// asks of a pod or a node, and its events. It is pure: what it needs of other objects
// comes in as arguments.
package describe

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/internal/terminal"
)

// page collects aligned lines. Its methods take the depth of indentation first.
type page struct {
	out  *tabwriter.Writer
	view podview.View
}

// write lays out what fill writes, and sends it to w.
func write(w io.Writer, view podview.View, fill func(*page)) error {
	p := &page{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0), view: view}
	fill(p)
	return p.out.Flush()
}

// line writes a formatted line; tabs in its format separate columns.
func (p *page) line(depth int, format string, args ...any) {
	terminal.Printf(p.out, strings.Repeat("  ", depth)+format+"\n", args...) // the flush returns its error
}

// field writes a name and its value.
func (p *page) field(depth int, name string, value any) { p.line(depth, "%s:\t%v", name, value) }

// optional writes a field that has something to say.
func (p *page) optional(depth int, name, value string) {
	if value != "" {
		p.field(depth, name, value)
	}
}

const none = "<none>"

func orNone(text string) string {
	if text == "" {
		return none
	}
	return text
}

// list writes values under each other beside one name.
func (p *page) list(name string, values []string) {
	if len(values) == 0 {
		values = []string{none}
	}
	p.field(0, name, values[0])
	for _, value := range values[1:] {
		p.line(0, "\t%s", value)
	}
}

// pairs writes a map, sorted, one pair a line.
func (p *page) pairs(name string, labels map[string]string) {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		lines = append(lines, key+"="+labels[key])
	}
	p.list(name, lines)
}

// longest is how long an annotation may be before it gets lines of its own.
const longest = 140

// annotations leaves out what apply keeps for itself.
func (p *page) annotations(annotations map[string]string) {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if key == corev1.LastAppliedConfigAnnotation {
			continue
		}
		value := strings.TrimSuffix(annotations[key], "\n")
		if len(key)+len(value)+2 <= longest && !strings.Contains(value, "\n") {
			lines = append(lines, key+": "+value)
			continue
		}
		lines = append(lines, key+":")
		for part := range strings.SplitSeq(value, "\n") {
			if len(part) > longest-2 {
				part = part[:longest-2] + "..."
			}
			lines = append(lines, "  "+part)
		}
	}
	p.list("Annotations", lines)
}

func stamp(t metav1.Time) string { return t.Format(time.RFC1123Z) }

// events writes the events of an object, oldest first; nil means that nobody asked.
func (p *page) events(events []*corev1.Event) {
	switch {
	case events == nil:
		return
	case len(events) == 0:
		p.field(0, "Events", none)
		return
	}
	p.flush()
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b *corev1.Event) int {
		return a.LastTimestamp.Compare(b.LastTimestamp.Time)
	})
	p.line(0, "Events:")
	p.line(1, "Type\tReason\tAge\tFrom\tMessage")
	p.line(1, "----\t------\t----\t----\t-------")
	for _, event := range sorted {
		message := strings.TrimSpace(event.Message)
		if path := event.InvolvedObject.FieldPath; path != "" {
			message = path + ": " + message
		}
		source := event.Source.Component
		if source == "" {
			source = event.ReportingController
		}
		p.line(1, "%s\t%s\t%s\t%s\t%s", event.Type, event.Reason, Interval(p.view, event), source, message)
	}
}

// flush ends the columns so far, so that what follows is aligned on its own.
func (p *page) flush() { _ = p.out.Flush() } // an error stays, and the last flush returns it

// Interval is how long ago an event was seen, and how often: "3s", "3s (x4 over 2m)".
func Interval(view podview.View, event *corev1.Event) string {
	first, last := podview.EventTimes(event)
	if !event.EventTime.IsZero() {
		first = event.EventTime.Time
	}
	if event.Series == nil && event.Count <= 1 {
		return view.Since(first)
	}
	return fmt.Sprintf("%s (x%d over %s)", view.Since(last), podview.EventCount(event), view.Since(first))
}
