package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
)

func getCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "get",
		Usage:     "show objects, and with -w what becomes of them",
		ArgsUsage: "(-f FILE | TYPE [NAME… | -l SELECTOR] | TYPE/NAME…)",
		Flags: join(namespaceFlags(), selectorFlags(), filenameFlags(), []cli.Flag{
			allNamespacesFlag(),
			&cli.BoolFlag{Name: flagWatch, Aliases: []string{"w"}, Usage: "show the objects, then every change"},
			&cli.BoolFlag{Name: flagWatchOnly, Usage: "show only changes"},
			&cli.BoolFlag{Name: "output-watch-events", Usage: "show what kind of change each row is"},
			outputFlag("wide, json, yaml, name, jsonpath=…, go-template=… or custom-columns=…"),
			&cli.BoolFlag{Name: flagNoHeaders, Usage: "no column titles"},
			&cli.BoolFlag{Name: "show-labels", Usage: "a last column of labels"},
			&cli.BoolFlag{Name: "show-kind", Usage: "the type in front of every name"},
			&cli.BoolFlag{Name: "show-managed-fields", Usage: "managed fields in json and yaml"},
			&cli.StringSliceFlag{Name: "label-columns", Aliases: []string{"L"}, Usage: "labels that get a column each"},
			&cli.StringFlag{Name: "sort-by", Usage: "a JSONPath to sort by: .metadata.creationTimestamp"},
			&cli.Int64Flag{Name: "chunk-size", Value: chunkSize, Usage: "objects per request; 0 asks for all at once"},
			ignoreMissingFlag(),
		}),
		Action: action(env, runGet),
	}
}

func runGet(ctx context.Context, c *call) error {
	watching := c.flags.Bool(flagWatch) || c.flags.Bool(flagWatchOnly)
	if c.flags.Bool("output-watch-events") && !watching {
		return errors.New("--output-watch-events option can only be used with --watch or --watch-only")
	}
	out, err := c.getOutput()
	if err != nil {
		return err
	}
	want, err := c.wanted(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	if watching {
		return watchObjects(ctx, c, api, want, out)
	}
	groups, errs := want.fetch(ctx, api)
	if c.flags.Bool(flagIgnoreMissing) {
		errs = deletePlan{ignoreMissing: true}.serious(errs)
	}
	if want.single() && len(errs) > 0 {
		return joined(errs)
	}
	if err := sortGroups(groups, c.flags.String("sort-by")); err != nil {
		return err
	}
	return joined(c.show(want, groups, out, errs))
}

// wanted is what a get is asked for.
type wanted struct {
	// targets are objects by name; none when whole kinds are meant.
	targets []victim
	errs    []error
	kinds   []kinds.Kind
	// namespace is empty for all.
	namespace string
	options   metav1.ListOptions
	// oneImplied says that the command line can only mean one object.
	oneImplied bool
}

// single reports whether the answer is an object and not a list.
func (w wanted) single() bool { return w.oneImplied && len(w.targets) == 1 }

// errNoType is kubectl's answer to a get of nothing.
var errNoType = errors.New("Required resource not specified.\nSee 'podfall get -h' for help and examples") //nolint:staticcheck // kubectl's text

// wanted reads what the command line asks for.
func (c *call) wanted(ctx context.Context) (wanted, error) {
	w := wanted{options: metav1.ListOptions{
		LabelSelector: c.flags.String(flagSelector),
		FieldSelector: c.flags.String(flagFieldSelector),
		Limit:         c.flags.Int64("chunk-size"),
	}}
	if c.flags.String("sort-by") != "" {
		w.options.Limit = 0
	}
	files, err := c.filenames()
	if err != nil {
		return wanted{}, err
	}
	if len(files) > 0 {
		w.targets, w.errs, err = c.namedTargets(ctx)
		w.oneImplied = len(files) == 1
		return w, err
	}
	args := c.flags.Args().Slice()
	if len(args) == 0 {
		terminal.Printf(c.stderr, "You must specify the type of resource to get. Use \"podfall api-resources\" for a complete list of supported resources.\n\n")
		return wanted{}, errNoType
	}
	selection, err := parseResources(args, c.kinds(ctx))
	if err != nil {
		return wanted{}, err
	}
	w.namespace, _ = c.namespace()
	if c.flags.Bool(flagAllNamespaces) {
		w.namespace = ""
	}
	if len(selection.kinds) > 0 {
		w.kinds = selection.kinds
		return w, nil
	}
	choose := deleteSelection{selector: w.options.LabelSelector, fieldSelector: w.options.FieldSelector}
	if err := (aim{selection: selection, choose: choose, namespace: w.namespace}).check(); err != nil {
		return wanted{}, err
	}
	for _, object := range selection.objects {
		w.targets = append(w.targets, victim{target: target(object.kind, w.namespace, object.name)})
	}
	w.oneImplied = true
	return w, nil
}

// group is objects of one kind, in the order in which they are shown.
type group struct {
	kind    kinds.Kind
	objects []kinds.Object
	// revision is that of a list; empty for objects by name.
	revision string
}

// fetch asks for everything; what can be had is returned beside the errors.
func (w wanted) fetch(ctx context.Context, api API) ([]group, []error) {
	var groups []group
	errs := append([]error{}, w.errs...)
	for _, t := range w.targets {
		obj, err := api.Get(ctx, t.target, metav1.GetOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if n := len(groups); n == 0 || groups[n-1].kind.GroupVersionKind != t.target.Kind.GroupVersionKind {
			groups = append(groups, group{kind: t.target.Kind})
		}
		last := &groups[len(groups)-1]
		last.objects = append(last.objects, obj)
	}
	for _, kind := range w.kinds {
		list, err := listAll(ctx, api, target(kind, w.namespace, ""), w.options)
		if err != nil {
			errs = append(errs, w.explainList(kind, err))
			continue
		}
		groups = append(groups, group{kind: kind, objects: list.Items, revision: list.ResourceVersion})
	}
	return groups, errs
}

// explainList says which selectors the server did not understand.
func (w wanted) explainList(kind kinds.Kind, err error) error {
	status, ok := asStatus(err)
	selected := w.options.LabelSelector != "" || w.options.FieldSelector != ""
	if !ok || status.Reason != metav1.StatusReasonBadRequest || !selected {
		return err
	}
	status.Message = fmt.Sprintf("Unable to find %q that match label selector %q, field selector %q: %s",
		kind.GroupVersionResource().String(), w.options.LabelSelector, w.options.FieldSelector, status.Message)
	return &apierrors.StatusError{ErrStatus: status}
}

// show prints what was fetched, and adds its errors to those of fetching.
func (c *call) show(want wanted, groups []group, out getOutput, errs []error) []error {
	if out.machine != nil {
		return appendErr(errs, c.showForMachines(want, groups, out))
	}
	written := &countingWriter{out: c.stdout}
	separate := want.kindsAsked() > 1
	for _, g := range groups {
		if len(g.objects) == 0 {
			continue
		}
		if written.count > 0 && !out.table.NoHeaders {
			terminal.Printf(written, "\n")
		}
		printer := c.tablePrinter(g.kind, out.table, separate)
		if err := printer.print("", c.table(g.kind, g.objects...), written); err != nil {
			return append(errs, err)
		}
	}
	if written.count > 0 || len(errs) > 0 || c.flags.Bool(flagIgnoreMissing) {
		return errs
	}
	namespace, _ := c.namespace()
	for _, kind := range want.kinds {
		if !kind.Namespaced {
			namespace = ""
		}
	}
	if namespace == "" || c.flags.Bool(flagAllNamespaces) {
		terminal.Printf(c.stderr, "No resources found\n")
	} else {
		terminal.Printf(c.stderr, "No resources found in %s namespace.\n", namespace)
	}
	return nil
}

// kindsAsked is how many kinds the command line names.
func (w wanted) kindsAsked() int {
	asked := map[string]bool{}
	for _, kind := range w.kinds {
		asked[kind.GroupResource().String()] = true
	}
	for _, t := range w.targets {
		asked[t.target.Kind.GroupResource().String()] = true
	}
	return len(asked)
}

// showForMachines prints the object that was asked for, or a List.
func (c *call) showForMachines(want wanted, groups []group, out getOutput) error {
	if len(groups) == 0 && c.flags.Bool(flagIgnoreMissing) {
		return nil
	}
	if want.single() && len(groups) == 1 {
		return out.machine(groups[0].objects[0])
	}
	list, err := asList(groups)
	if err != nil {
		return err
	}
	return out.machine(list)
}
