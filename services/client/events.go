package client

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podfall/podfall/internal/podview"
	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/describe"
)

func eventsCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:  "events",
		Usage: "list events, the oldest first",
		Flags: join(namespaceFlags(), []cli.Flag{
			allNamespacesFlag(),
			&cli.StringFlag{Name: "for", Usage: "TYPE/NAME: events about this object only"},
			&cli.StringSliceFlag{Name: "types", Usage: "Normal, Warning or both"},
			&cli.BoolFlag{Name: flagWatch, Aliases: []string{"w"}, Usage: "show events as they come"},
			&cli.BoolFlag{Name: flagNoHeaders, Usage: "no column titles"},
			outputFlag("json, yaml, name or jsonpath=…"),
		}),
		Action: action(env, runEvents),
	}
}

// eventFilter is which events are wanted.
type eventFilter struct {
	namespace string
	selector  string
	types     []string
}

func (f eventFilter) matches(event *corev1.Event) bool {
	return len(f.types) == 0 || slices.ContainsFunc(f.types, func(kind string) bool {
		return strings.EqualFold(kind, event.Type)
	})
}

func runEvents(ctx context.Context, c *call) error {
	filter, err := c.eventFilter(ctx)
	if err != nil {
		return err
	}
	machine, err := c.objectPrinter()
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	rows := &eventWriter{call: c, machine: machine, aligns: printers.GetNewTabWriter(c.stdout)}
	if c.flags.Bool(flagWatch) {
		return rows.watch(ctx, api, filter)
	}
	found, err := listEvents(ctx, api, filter.namespace, filter.selector)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(e *corev1.Event) bool { return !filter.matches(e) })
	if len(found) == 0 {
		if filter.namespace == "" {
			terminal.Printf(c.stderr, "No events found.\n")
		} else {
			terminal.Printf(c.stderr, "No events found in %s namespace.\n", filter.namespace)
		}
		return nil
	}
	slices.SortStableFunc(found, func(a, b *corev1.Event) int {
		_, lastA := podview.EventTimes(a)
		_, lastB := podview.EventTimes(b)
		return lastA.Compare(lastB)
	})
	return rows.all(found)
}

func (c *call) eventFilter(ctx context.Context) (eventFilter, error) {
	filter := eventFilter{types: c.flags.StringSlice("types")}
	for _, kind := range filter.types {
		if !strings.EqualFold(kind, corev1.EventTypeNormal) && !strings.EqualFold(kind, corev1.EventTypeWarning) {
			return eventFilter{}, errors.New("valid --types are Normal or Warning")
		}
	}
	filter.namespace, _ = c.namespace()
	if c.flags.Bool(flagAllNamespaces) {
		filter.namespace = ""
	}
	about := c.flags.String("for")
	if about == "" {
		return filter, nil
	}
	if !strings.Contains(about, "/") {
		return eventFilter{}, errors.New("--for must be in resource/name form")
	}
	named, err := parsePairs([]string{about}, c.kinds(ctx))
	if err != nil {
		return eventFilter{}, err
	}
	object := named.objects[0]
	filter.selector = allEqual(
		"involvedObject.kind", object.kind.Kind,
		"involvedObject.apiVersion", object.kind.GroupVersion().String(),
		"involvedObject.name", object.name,
	)
	return filter, nil
}

// allEqual is a field selector for names and values in turn, in their order.
func allEqual(pairs ...string) string {
	var terms []fields.Selector
	for i := 0; i+1 < len(pairs); i += 2 {
		terms = append(terms, fields.OneTermEqualSelector(pairs[i], pairs[i+1]))
	}
	return fields.AndSelectors(terms...).String()
}

// eventKind is the core group's events.
func eventKind() kinds.Kind { return known(corev1.SchemeGroupVersion.WithKind("Event")) }

func listEvents(ctx context.Context, api API, namespace, selector string) ([]*corev1.Event, error) {
	list, err := listAll(ctx, api, target(eventKind(), namespace, ""), metav1.ListOptions{FieldSelector: selector, Limit: chunkSize})
	if err != nil {
		return nil, err
	}
	var found []*corev1.Event
	for _, item := range list.Items {
		if event, ok := item.(*corev1.Event); ok {
			found = append(found, event)
		}
	}
	return found, nil
}

// eventWriter prints events under one header, or as documents.
type eventWriter struct {
	*call
	machine printFunc
	aligns  interface {
		io.Writer
		Flush() error
	}
	headed bool
}

func (w *eventWriter) all(events []*corev1.Event) error {
	if w.machine != nil {
		list := &corev1.EventList{TypeMeta: metav1.TypeMeta{Kind: "EventList", APIVersion: "v1"}}
		for _, event := range events {
			list.Items = append(list.Items, *event)
		}
		return w.machine(list)
	}
	for _, event := range events {
		w.row(event)
	}
	return w.aligns.Flush()
}

func (w *eventWriter) row(event *corev1.Event) {
	columns := []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	cells := []string{
		event.Namespace,
		describe.Interval(w.view(), event),
		event.Type,
		event.Reason,
		event.InvolvedObject.Kind + "/" + event.InvolvedObject.Name,
		strings.TrimSpace(event.Message),
	}
	if !w.flags.Bool(flagAllNamespaces) {
		columns, cells = columns[1:], cells[1:]
	}
	if !w.headed && !w.flags.Bool(flagNoHeaders) {
		terminal.Row(w.aligns, columns...)
	}
	w.headed = true
	terminal.Row(w.aligns, cells...)
}

// watch prints the events there are and those that come; their removal, which is only
// their age, is not shown.
func (w *eventWriter) watch(ctx context.Context, api API, filter eventFilter) error {
	stream, err := api.Watch(ctx, target(eventKind(), filter.namespace, ""), metav1.ListOptions{FieldSelector: filter.selector})
	if err != nil {
		return err
	}
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return errInterruptedWait
		case change, open := <-stream.ResultChan():
			if !open {
				return interrupted(ctx)
			}
			event, ok := change.Object.(*corev1.Event)
			if !ok || change.Type == watch.Deleted || change.Type == watch.Bookmark || !filter.matches(event) {
				continue
			}
			if err := w.one(event); err != nil {
				return err
			}
		}
	}
}

// one prints one event at once.
func (w *eventWriter) one(event *corev1.Event) error {
	if w.machine != nil {
		return w.machine(event)
	}
	w.row(event)
	return w.aligns.Flush()
}
