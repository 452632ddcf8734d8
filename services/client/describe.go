package client

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podfall/podfall/internal/terminal"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/client/describe"
)

func describeCommand(env Env) *cli.Command {
	return &cli.Command{
		Name:      "describe",
		Usage:     "show objects in full, with their events",
		ArgsUsage: "(-f FILE | TYPE [NAME… | PREFIX | -l SELECTOR] | TYPE/NAME…)",
		Flags: join(namespaceFlags(), selectorFlags()[:1], filenameFlags(), []cli.Flag{
			allNamespacesFlag(),
			&cli.BoolFlag{Name: "show-events", Value: true, Usage: "the events of each object"},
			&cli.Int64Flag{Name: "chunk-size", Value: chunkSize, Usage: "objects per request; 0 asks for all at once"},
		}),
		Action: action(env, runDescribe),
	}
}

// errNothingToDescribe is kubectl's answer to a describe of nothing.
var errNothingToDescribe = errors.New("You must specify the type of resource to describe. Use \"podfall api-resources\" for a complete list of supported resources.") //nolint:staticcheck,revive // kubectl's text

func runDescribe(ctx context.Context, c *call) error {
	if files, err := c.filenames(); err == nil && len(files) == 0 && !c.flags.Args().Present() {
		return errNothingToDescribe
	}
	want, err := c.wanted(ctx)
	if err != nil {
		return err
	}
	api, err := c.api(ctx)
	if err != nil {
		return err
	}
	groups, errs := want.fetch(ctx, api)
	between, after := "\n\n", ""
	if args := c.flags.Args().Slice(); len(errs) == 1 && len(args) == 2 && apierrors.IsNotFound(errs[0]) {
		groups, errs = c.byPrefix(ctx, api, want, errs)
		between, after = "", "\n"
	}
	d := &describer{call: c, api: api, events: c.flags.Bool("show-events")}
	count := 0
	for _, g := range groups {
		count += len(g.objects)
	}
	if count == 0 && len(errs) == 0 {
		return joined(c.show(want, nil, getOutput{}, nil))
	}
	if (count > 1 || len(errs) > 0) && !c.flags.IsSet("show-events") {
		d.events = false // kubectl's way of keeping a long answer short
	}
	return joined(append(errs, d.describeAll(ctx, groups, between, after)...))
}

// describeAll writes every object out, with between between them and after after each.
func (d *describer) describeAll(ctx context.Context, groups []group, between, after string) []error {
	var errs []error
	separator := ""
	for _, g := range groups {
		for _, obj := range g.objects {
			terminal.Printf(d.stdout, "%s", terminal.Text(separator))
			separator = between
			if err := d.describe(ctx, g.kind, obj); err != nil {
				errs = append(errs, err)
			}
			terminal.Printf(d.stdout, "%s", terminal.Text(after))
		}
	}
	return errs
}

// byPrefix is what "describe pod web" finds when no pod is called web: those whose
// names begin with it. Of "pod/a pod/b" kubectl takes the second for a beginning, too, and
// finds nothing.
func (c *call) byPrefix(ctx context.Context, api API, want wanted, notFound []error) ([]group, []error) {
	if strings.Contains(c.flags.Args().First(), "/") {
		return nil, notFound
	}
	named := want.targets[0].target
	prefix := named.Name
	named.Name = ""
	list, err := listAll(ctx, api, named, metav1.ListOptions{Limit: want.options.Limit})
	if err != nil {
		return nil, []error{err}
	}
	g := group{kind: named.Kind}
	for _, obj := range list.Items {
		if strings.HasPrefix(obj.GetName(), prefix) {
			g.objects = append(g.objects, obj)
		}
	}
	if len(g.objects) == 0 {
		return nil, notFound
	}
	return []group{g}, nil
}

// describer writes objects out.
type describer struct {
	*call
	api    API
	events bool
}

// describe writes one object, or nothing when something that it needs cannot be had.
func (d *describer) describe(ctx context.Context, kind kinds.Kind, obj kinds.Object) error {
	events, err := d.eventsOf(ctx, kind, obj)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	switch typed := obj.(type) {
	case *corev1.Pod:
		err = describe.Pod(&text, d.view(), typed, events)
	case *corev1.Node:
		err = d.node(ctx, &text, typed, events)
	case *corev1.Namespace:
		err = describe.Namespace(&text, d.view(), typed)
	default:
		plain, convertErr := asUnstructured(obj)
		if convertErr != nil {
			return convertErr
		}
		err = describe.Object(&text, d.view(), plain.(*unstructured.Unstructured), events) //nolint:errcheck,forcetypeassert // an object with metadata is never a list
	}
	if err != nil {
		return err
	}
	_, err = d.stdout.Write(text.Bytes())
	return err
}

// eventsOf are the events about the object; nil when they are not wanted.
func (d *describer) eventsOf(ctx context.Context, kind kinds.Kind, obj kinds.Object) ([]*corev1.Event, error) {
	if !d.events || kind.Kind == "Namespace" {
		return nil, nil
	}
	about := []string{"involvedObject.name", obj.GetName(), "involvedObject.namespace", obj.GetNamespace()}
	if kind.Kind != "Pod" {
		about = append(about, "involvedObject.kind", kind.Kind)
	}
	uids := []string{string(obj.GetUID())}
	if kind.Kind == "Node" {
		uids = append(uids, obj.GetName()) // a kubelet's own events carry its name there
	}
	found := []*corev1.Event{}
	for _, uid := range uids {
		selector := allEqual(append(slices.Clip(about), "involvedObject.uid", uid)...)
		list, err := listEvents(ctx, d.api, obj.GetNamespace(), selector)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

func (d *describer) node(ctx context.Context, text *bytes.Buffer, node *corev1.Node, events []*corev1.Event) error {
	facts := describe.NodeFacts{Node: node, Events: events}
	leases := known(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	lease, err := d.api.Get(ctx, target(leases, corev1.NamespaceNodeLease, node.Name), metav1.GetOptions{})
	facts.LeaseErr = err
	facts.Lease, _ = lease.(*coordinationv1.Lease)
	selector := fields.AndSelectors(
		fields.OneTermEqualSelector("spec.nodeName", node.Name),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	list, err := listAll(ctx, d.api, target(podKind(), "", ""), metav1.ListOptions{FieldSelector: selector.String(), Limit: chunkSize})
	if err != nil {
		return err
	}
	for _, item := range list.Items {
		if pod, ok := item.(*corev1.Pod); ok {
			facts.Pods = append(facts.Pods, pod)
		}
	}
	return describe.Node(text, d.view(), facts)
}
