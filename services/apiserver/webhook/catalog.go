package webhook

import (
	"maps"
	"sync/atomic"

	"github.com/podfall/podfall/services/apiserver/store"
)

// The keys of the two kinds of configurations in the store.
const (
	MutatingResource   = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
	ValidatingResource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
)

// Catalog holds the stored hooks. It is safe for concurrent use, and its readers never wait. The
// zero value, and nil, have none.
type Catalog struct {
	state atomic.Pointer[hooks]
}

// hooks is one state of a catalog; it is immutable.
type hooks struct {
	configurations       map[string]map[string][]*Hook // by resource and name
	mutating, validating []*Hook
}

// Load adds all configurations of a snapshot. Call it before the first commit.
func (c *Catalog) Load(snapshot *store.Snapshot) {
	loaded := map[string]map[string][]*Hook{}
	for _, resource := range []string{MutatingResource, ValidatingResource} {
		loaded[resource] = map[string][]*Hook{}
		for record := range snapshot.Scan(resource, "", "") {
			loaded[resource][record.Key.Name] = hooksOf(record.Object)
		}
	}
	c.publish(loaded)
}

func (c *Catalog) publish(configurations map[string]map[string][]*Hook) {
	c.state.Store(&hooks{
		configurations: configurations,
		mutating:       sortHooks(configurations[MutatingResource]), validating: sortHooks(configurations[ValidatingResource]),
	})
}

// OnCommit follows every committed batch; the store's writer calls it, before any caller is
// answered.
func (c *Catalog) OnCommit(events []store.Event) {
	var changed map[string]map[string][]*Hook
	for _, event := range events {
		key := event.Record.Key
		if key.Resource != MutatingResource && key.Resource != ValidatingResource {
			continue
		}
		if changed == nil {
			changed = map[string]map[string][]*Hook{MutatingResource: {}, ValidatingResource: {}}
			for resource, known := range c.current().configurations {
				maps.Copy(changed[resource], known)
			}
		}
		if event.Type == store.Deleted {
			delete(changed[key.Resource], key.Name)
		} else {
			changed[key.Resource][key.Name] = hooksOf(event.Record.Object)
		}
	}
	if changed != nil {
		c.publish(changed)
	}
}

func (c *Catalog) current() *hooks {
	if c == nil {
		return &hooks{}
	}
	if now := c.state.Load(); now != nil {
		return now
	}
	return &hooks{}
}

// Mutating returns the mutating hooks, in the order in which they are called.
func (c *Catalog) Mutating() []*Hook { return c.current().mutating }

// Validating returns the validating hooks.
func (c *Catalog) Validating() []*Hook { return c.current().validating }
