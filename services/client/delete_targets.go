package client

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
)

// aim is what a delete command is pointed at: manifests, objects by name, or kinds with
// a selector.
type aim struct {
	manifests []manifest
	// manifestErrs are what was wrong with manifests; the others are still deleted.
	manifestErrs []error
	selection    selection
	choose       deleteSelection
	namespace    string
}

// victim is one object that is to be deleted.
type victim struct {
	target podapi.Target
	// source is the manifest that names it, if one does.
	source string
}

// place is where an object is, whatever its incarnation.
type place struct{ resource, namespace, name string }

func (v victim) place() place {
	return place{v.target.Kind.GroupResource().String(), v.target.Namespace, v.target.Name}
}

// aim reads what the command line points at, without asking the cluster.
func (c *call) aim(ctx context.Context) (aim, error) {
	namespace, explicit := c.namespace()
	a := aim{
		namespace: namespace,
		choose: deleteSelection{
			all:           c.flags.Bool(flagAll),
			selector:      c.flags.String(flagSelector),
			fieldSelector: c.flags.String(flagFieldSelector),
		},
	}
	args := c.flags.Args().Slice()
	if files, err := c.filenames(); err != nil {
		return aim{}, err
	} else if len(files) > 0 {
		if len(args) > 0 {
			return aim{}, errArgsAndFiles
		}
		a.manifests, a.manifestErrs = c.manifests(files, manifestScope{namespace, explicit, c.kinds(ctx)})
		return a, nil
	}
	selection, err := parseResources(args, c.kinds(ctx))
	if err != nil {
		return aim{}, err
	}
	a.selection = selection
	if c.flags.Bool(flagAllNamespaces) {
		a.namespace = ""
	}
	return a, a.check()
}

// check refuses what names too much or too little.
func (a aim) check() error {
	switch {
	case a.choose.some() && a.selection.combined:
		return errors.New("selectors and the all flag cannot be used when passing resource/name arguments")
	case a.choose.some() && len(a.selection.objects) > 0:
		return errors.New("name cannot be provided when a selector is specified")
	case a.choose.some() && len(a.selection.kinds) == 0:
		return errors.New("at least one resource must be specified to use a selector")
	case a.choose.some():
		return nil
	case len(a.selection.kinds) > 0:
		return errors.New("resource(s) were provided, but no name was specified")
	case len(a.selection.objects) == 0:
		return errNothing
	}
	for _, object := range a.selection.objects {
		if object.kind.Namespaced && a.namespace == "" {
			return errors.New("a resource cannot be retrieved by name across all namespaces")
		}
	}
	return nil
}

// victims are the objects that a is pointed at now: named ones as they were typed,
// without looking (CLI-20), selected ones from a list (CLI-21).
func (a aim) victims(ctx context.Context, api API) ([]victim, []error) {
	errs := append([]error{}, a.manifestErrs...)
	var found []victim
	for _, m := range a.manifests {
		found = append(found, victim{target: m.target(), source: m.source})
	}
	for _, object := range a.selection.objects {
		found = append(found, victim{target: target(object.kind, a.namespace, object.name)})
	}
	for _, kind := range a.selection.kinds {
		list, err := listAll(ctx, api, target(kind, a.namespace, ""), metav1.ListOptions{
			LabelSelector: a.choose.selector, FieldSelector: a.choose.fieldSelector, Limit: chunkSize,
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, obj := range list.Items {
			found = append(found, victim{target: target(kind, obj.GetNamespace(), obj.GetName())})
		}
	}
	return found, errs
}

// chunkSize is how many objects a page of a list holds.
const chunkSize = 500

// listAll reads a list page by page.
func listAll(ctx context.Context, api API, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error) {
	all, err := api.List(ctx, t, opts)
	if err != nil {
		return nil, err
	}
	for next := all.Continue; next != ""; {
		opts.Continue, opts.ResourceVersion = next, ""
		page, err := api.List(ctx, t, opts)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, page.Items...)
		next = page.Continue
	}
	return all, nil
}
