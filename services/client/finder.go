package client

import (
	"context"
	"fmt"
	"slices"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/proto/kinds"
)

// finder finds kinds by their names. It reads the cluster's definitions of custom kinds when
// it first meets a name that is not built in, so that most commands need not. The zero value
// knows the built-in kinds alone.
type finder struct {
	known *directory.Directory
	// load fills known; nil when that has been tried, or cannot be.
	load func(into *directory.Directory) error
	// failed is why load did not work.
	failed error
}

// kinds is the finder of a command, which asks the cluster in ctx.
func (c *call) kinds(ctx context.Context) *finder {
	if c.found == nil {
		c.found = &finder{known: directory.New(), load: func(into *directory.Directory) error {
			api, err := c.api(ctx)
			if err != nil {
				return err
			}
			return into.Load(ctx, api)
		}}
	}
	return c.found
}

// find asks look, and once more when the definitions have been read.
func find[T any](f *finder, look func(*directory.Directory) (T, bool)) (T, bool, error) {
	if f.known == nil {
		f.known = directory.New()
	}
	found, ok := look(f.known)
	if ok || f.load == nil {
		return found, ok, f.failed
	}
	f.failed = f.load(f.known)
	f.load = nil
	found, ok = look(f.known)
	return found, ok, f.failed
}

// alias finds a kind by any of its names.
func (f *finder) alias(what string) (kinds.Kind, error) {
	kind, ok, err := find(f, func(d *directory.Directory) (kinds.Kind, bool) { return d.ByAlias(what) })
	switch {
	case ok:
		return kind, nil
	case err != nil:
		return kind, err
	}
	return kind, fmt.Errorf("the server doesn't have a resource type %q", what)
}

// everything is one row of each kind, the custom ones included when they can be had.
func (f *finder) everything() []kinds.Kind {
	_, _, _ = find(f, func(*directory.Directory) (struct{}, bool) { return struct{}{}, false }) // only to have read them
	all := kinds.All()
	for _, kind := range f.known.All() {
		same := func(other kinds.Kind) bool { return other.GroupResource() == kind.GroupResource() }
		if kind.Custom && !slices.ContainsFunc(all, same) {
			all = append(all, kind)
		}
	}
	return all
}
