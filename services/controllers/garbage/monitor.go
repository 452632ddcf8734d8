package garbage

import (
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// ignored reports whether objects of a kind are left out, because they neither own nor are owned
// and change all the time.
func ignored(resource schema.GroupResource) bool {
	return resource.Resource == "events" || resource == schema.GroupResource{Resource: "componentstatuses"}
}

// monitored returns the kinds to watch, each in its first version.
func monitored(all []kinds.Kind) map[schema.GroupResource]kinds.Kind {
	chosen := map[schema.GroupResource]kinds.Kind{}
	for _, kind := range all {
		resource := kind.GroupResource()
		if _, known := chosen[resource]; !known && !ignored(resource) {
			chosen[resource] = kind
		}
	}
	return chosen
}

// Run collects until ctx ends. It begins when every built-in kind has been listed once, because an
// owner must not be released before its dependents are known.
func (c *Controller) Run(ctx context.Context) error {
	var monitors sync.WaitGroup
	defer monitors.Wait()
	running := map[schema.GroupResource]*monitor{}
	changed := c.kinds.Changed()
	c.resync(ctx, &monitors, running)
	for _, resource := range slices.SortedFunc(maps.Keys(running), byName) {
		if _, always := kinds.ByResource(resource.String()); !always {
			continue // a definition may be on its way out, and its list never come
		}
		select {
		case <-running[resource].listed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	follow := func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-changed:
			}
			changed = c.kinds.Changed()
			c.resync(ctx, &monitors, running)
		}
	}
	return daemon.Run(ctx, c.items.Run, c.orphans.Run, follow)
}

func byName(a, b schema.GroupResource) int {
	switch {
	case a.String() < b.String():
		return -1
	case a.String() > b.String():
		return 1
	}
	return 0
}

// resync starts a watch of each new kind, and forgets kinds that are gone.
func (c *Controller) resync(ctx context.Context, monitors *sync.WaitGroup, running map[schema.GroupResource]*monitor) {
	wanted := monitored(c.kinds.All())
	for resource, kind := range wanted {
		if running[resource] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		m := &monitor{controller: c, kind: kind, stop: stop, listed: make(chan struct{})}
		running[resource] = m
		monitors.Go(func() {
			defer stop()
			_ = c.api.Follow(own, podapi.Target{Kind: kind}, metav1.ListOptions{}, m)
		})
	}
	for resource, m := range running {
		if _, stays := wanted[resource]; !stays {
			m.stop()
			delete(running, resource)
			c.updateGraph(func(g *Graph) Work { return g.Replace(m.kind.GroupKind(), nil) })
		}
	}
}

// monitor feeds the objects of one kind to the graph.
type monitor struct {
	controller *Controller
	kind       kinds.Kind
	stop       context.CancelFunc
	listed     chan struct{}
	once       sync.Once
}

// Replace implements podapi.Sink.
func (m *monitor) Replace(objects []kinds.Object, _ string) {
	items := make([]Item, 0, len(objects))
	for _, obj := range objects {
		items = append(items, ItemOf(m.kind, obj))
	}
	m.controller.updateGraph(func(g *Graph) Work { return g.Replace(m.kind.GroupKind(), items) })
	m.once.Do(func() { close(m.listed) })
}

// Apply implements podapi.Sink.
func (m *monitor) Apply(event watch.Event) {
	obj, ok := event.Object.(kinds.Object)
	if !ok {
		return
	}
	item := ItemOf(m.kind, obj)
	switch event.Type {
	case watch.Added, watch.Modified:
		m.controller.updateGraph(func(g *Graph) Work { return g.Set(item) })
	case watch.Deleted:
		m.controller.updateGraph(func(g *Graph) Work { return g.Remove(item.UID) })
		m.controller.recordAbsent(item.UID)
	case watch.Bookmark, watch.Error:
	}
}
