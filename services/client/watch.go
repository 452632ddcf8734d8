package client

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// watchObjects is get -w: everything there is, then a row per event, deletions and rows
// that look the same included, until the server ends the stream (PRN-16).
func watchObjects(ctx context.Context, c *call, api API, want wanted, out getOutput) error {
	if want.kindsAsked() > 1 {
		return errors.New("you may only specify a single resource type")
	}
	groups, errs := want.fetch(ctx, api)
	if c.flags.Bool(flagIgnoreMissing) {
		if errs = (deletePlan{ignoreMissing: true}).serious(errs); len(errs) == 0 && len(groups) == 0 {
			return nil
		}
	}
	if len(errs) > 0 {
		return joined(errs)
	}
	rows := newRowWriter(c, groups[0].kind, out)
	if !c.flags.Bool(flagWatchOnly) {
		if err := rows.all(groups[0].objects); err != nil {
			return err
		}
	}
	if len(want.targets) > 1 {
		return errors.New("you may only watch a single resource or type of resource at a time")
	}
	from, opts := want.watchFrom(groups[0])
	events, err := api.Watch(ctx, from, opts)
	if err != nil {
		return err
	}
	defer events.Stop()
	return rows.follow(ctx, events, want.single())
}

// watchFrom is where the watch starts. One named object is watched from now, and its
// first event, which shows it as it is, is not printed.
func (w wanted) watchFrom(g group) (podapi.Target, metav1.ListOptions) {
	if !w.single() {
		opts := w.options
		opts.Limit, opts.ResourceVersion = 0, g.revision
		return target(g.kind, w.namespace, ""), opts
	}
	named := w.targets[0].target
	opts := metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, named.Name).String(),
		ResourceVersion: "0",
	}
	named.Name = ""
	return named, opts
}

// rowWriter prints objects as they come: rows under one header, or documents.
type rowWriter struct {
	*call
	kind   kinds.Kind
	out    getOutput
	table  tableWriter
	aligns interface {
		Write([]byte) (int, error)
		Flush() error
	}
	showEvents bool
}

func newRowWriter(c *call, kind kinds.Kind, out getOutput) *rowWriter {
	return &rowWriter{
		call: c, kind: kind, out: out,
		table:      c.tablePrinter(kind, out.table, false),
		aligns:     printers.GetNewTabWriter(c.stdout),
		showEvents: c.flags.Bool("output-watch-events"),
	}
}

// all prints what there is when the watch begins.
func (w *rowWriter) all(objects []kinds.Object) error {
	if w.out.machine != nil {
		for _, obj := range objects {
			if err := w.one(watch.Added, obj); err != nil {
				return err
			}
		}
		return nil
	}
	return w.rows(watch.Added, objects...)
}

// one prints one object, or a Status that says why the stream ends.
func (w *rowWriter) one(event watch.EventType, obj runtime.Object) error {
	object, ok := obj.(kinds.Object)
	switch {
	case w.out.machine != nil && w.showEvents:
		return w.out.machine(&metav1.WatchEvent{Type: string(event), Object: runtime.RawExtension{Object: obj}})
	case w.out.machine != nil:
		return w.out.machine(obj)
	case ok:
		return w.rows(event, object)
	default:
		if err := w.table.printer.PrintObj(obj, w.aligns); err != nil {
			return err
		}
		return w.aligns.Flush()
	}
}

// rows prints a batch under shared column widths, which only grow (PRN-17).
func (w *rowWriter) rows(event watch.EventType, objects ...kinds.Object) error {
	if !w.showEvents {
		event = ""
	}
	if err := w.table.print(string(event), w.call.table(w.kind, objects...), w.aligns); err != nil {
		return err
	}
	return w.aligns.Flush()
}

// follow prints every event until the stream ends, which is no error (UNS-04).
func (w *rowWriter) follow(ctx context.Context, events watch.Interface, skipFirst bool) error {
	for {
		select {
		case <-ctx.Done():
			return errInterruptedWait
		case event, open := <-events.ResultChan():
			switch {
			case !open:
				return interrupted(ctx)
			case event.Type == watch.Bookmark:
				continue
			case skipFirst:
				skipFirst = false
				continue
			}
			if err := w.one(event.Type, event.Object); err != nil {
				return err
			}
			if event.Type == watch.Error {
				return nil
			}
		}
	}
}

// interrupted tells an end by the user from an end by the server.
func interrupted(ctx context.Context) error {
	if ctx.Err() != nil {
		return errInterruptedWait
	}
	return nil
}
