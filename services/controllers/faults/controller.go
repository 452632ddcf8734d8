// Package faults has a cluster's objects of kind Fault and Partition on the board of its
// management plane, and says in their status what became of them. It defines the kinds,
// and is podfall's own: upstream has no such controller.
package faults

import (
	"bytes"
	"context"
	_ "embed" // definitions.yaml
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
)

//go:embed definitions.yaml
var definitions []byte

// Board is the management plane's. *mgmt.Client is one.
type Board interface {
	Get(ctx context.Context) (mgmt.FaultState, error)
	Set(ctx context.Context, change mgmt.Change) (mgmt.FaultState, error)
}

// Controller mirrors objects to a board.
type Controller struct {
	base   control.Base
	board  Board
	mirror []*mirror
	wake   chan struct{}
}

// New is a controller of the board.
func New(base control.Base, board Board) *Controller {
	c := &Controller{base: base, board: board, wake: make(chan struct{}, 1)}
	c.mirror = []*mirror{c.mirrorOf("Fault", "faults", faultSide()), c.mirrorOf("Partition", "partitions", cutSide())}
	return c
}

// mirror is the objects of one kind.
type mirror struct {
	kind kinds.Kind
	side half
	wake chan struct{}
	// outcomes are what has become of objects, by UID. They are look's alone.
	outcomes map[types.UID]outcome

	mu      sync.Mutex
	filled  bool
	objects map[string]*unstructured.Unstructured
}

// outcome is what has become of one generation of an object, as its status is to tell.
type outcome struct {
	generation int64
	phase      string
	status     map[string]any
}

func (c *Controller) mirrorOf(kind, resource string, s half) *mirror {
	const version = "v1alpha1"
	return &mirror{
		kind: kinds.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "podfall.io", Version: version, Kind: kind},
			Resource:         resource, StorageVersion: version, ListKind: kind + "List", Subresources: []string{"status"}, Custom: true,
		},
		side: s, wake: c.wake, outcomes: map[types.UID]outcome{}, objects: map[string]*unstructured.Unstructured{},
	}
}

// Run defines the kinds and mirrors their objects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.define(ctx); err != nil {
		return err
	}
	parts := []func(context.Context) error{c.look}
	for _, m := range c.mirror {
		parts = append(parts, func(ctx context.Context) error {
			return c.base.API.Follow(ctx, podapi.Target{Kind: m.kind}, metav1.ListOptions{}, m)
		})
	}
	return daemon.Run(ctx, parts...)
}

// retry is between two attempts to define the kinds, on the wall.
const retry = time.Second

// define creates the definitions; those that there are stay as they are.
func (c *Controller) define(ctx context.Context) error {
	kind, ok := kinds.ByResource("customresourcedefinitions.apiextensions.k8s.io")
	if !ok {
		return errors.New("the table of kinds has no CustomResourceDefinition")
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(definitions), 1<<16); ; {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := decoder.Decode(crd); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("definitions of faults: %w", err)
		}
		for {
			_, err := c.base.API.Create(ctx, podapi.Target{Kind: kind}, crd, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) {
				break
			}
			c.base.Log.InfoContext(ctx, "a kind is not defined yet", "kind", crd.Name, "err", err)
			if err := (clock.Clock{}).Sleep(ctx, retry); err != nil {
				return err
			}
		}
	}
}

// look mirrors whenever an object has changed, and now and then, because the board tells
// nobody but stations.
func (c *Controller) look(ctx context.Context) error {
	for {
		timer := clock.Clock{}.Timer(mgmt.PublishInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
		for _, m := range c.mirror {
			if err := c.put(ctx, m); err != nil && ctx.Err() == nil {
				c.base.Log.InfoContext(ctx, "not all faults are on the board", "kind", m.kind.Kind, "err", err)
			}
		}
	}
}

// put carries out one plan.
func (c *Controller) put(ctx context.Context, m *mirror) error {
	objects, filled := m.all()
	if !filled {
		return nil
	}
	board, err := c.board.Get(ctx)
	if err != nil {
		return err
	}
	seen := make([]Object, len(objects))
	for i, object := range objects {
		became := m.outcomes[object.GetUID()]
		seen[i] = read(object).known(became.generation, became.phase)
	}
	maps.DeleteFunc(m.outcomes, func(uid types.UID, _ outcome) bool {
		return !slices.ContainsFunc(seen, func(o Object) bool { return o.UID == uid })
	})
	plan := Decide(seen, m.side.entries(board))
	var failed error
	if len(plan.Remove) > 0 {
		_, err := c.board.Set(ctx, m.side.remove(plan.Remove))
		failed = errors.Join(failed, err)
	}
	for _, object := range plan.Place {
		failed = errors.Join(failed, c.place(ctx, m, object, board))
	}
	for _, object := range plan.End {
		failed = errors.Join(failed, c.say(ctx, m, object, map[string]any{"phase": Ended}))
	}
	for _, object := range plan.Say {
		failed = errors.Join(failed, c.say(ctx, m, object, m.outcomes[object.UID].status))
	}
	return failed
}

// place puts an object on the board, and says in its status what came of it.
func (c *Controller) place(ctx context.Context, m *mirror, object Object, board mgmt.FaultState) error {
	replaces := slices.ContainsFunc(m.side.entries(board), func(e Entry) bool { return e.Owner == object.UID })
	change, err := m.side.place(m.spec(object.Name), object, replaces)
	if err == nil {
		board, err = c.board.Set(ctx, change)
	}
	phase, told := Active, map[string]any{}
	switch {
	case errors.Is(err, mgmt.ErrRefused), errors.Is(err, errSpec):
		phase, told["message"] = Refused, err.Error()
	case err != nil:
		return err
	default:
		for _, entry := range m.side.entries(board) {
			if entry.Owner == object.UID {
				told["since"] = entry.Since.UTC().Format(time.RFC3339)
				if !entry.Until.IsZero() {
					told["until"] = entry.Until.UTC().Format(time.RFC3339)
				}
			}
		}
	}
	told["phase"] = phase
	m.outcomes[object.UID] = outcome{object.Generation, phase, told}
	return c.say(ctx, m, object, told)
}

// say writes an object's status. The object may have changed meanwhile: it comes again.
func (c *Controller) say(ctx context.Context, m *mirror, object Object, told map[string]any) error {
	m.mu.Lock()
	current, ok := m.objects[object.Name]
	m.mu.Unlock()
	if !ok {
		return nil
	}
	told["observedGeneration"] = object.Generation
	changed := current.DeepCopy()
	changed.Object["status"] = told
	target := podapi.Target{Kind: m.kind, Name: object.Name, Subresource: "status"}
	updated, err := c.base.API.Update(ctx, target, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if u, ok := updated.(*unstructured.Unstructured); ok {
		m.keep(u)
	}
	return nil
}

// read is what matters of an object.
func read(u *unstructured.Unstructured) Object {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return Object{
		Name: u.GetName(), UID: u.GetUID(), Generation: u.GetGeneration(), Leaving: u.GetDeletionTimestamp() != nil,
		Phase: phase, Observed: observed,
	}
}

func (m *mirror) all() ([]*unstructured.Unstructured, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	objects := make([]*unstructured.Unstructured, 0, len(m.objects))
	for _, object := range m.objects {
		objects = append(objects, object)
	}
	return objects, m.filled
}

// spec is an object's, as JSON.
func (m *mirror) spec(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := m.objects[name]
	if !ok {
		return nil
	}
	data, err := json.Marshal(object.Object["spec"])
	if err != nil {
		return nil // what was decoded can be encoded
	}
	return data
}

func (m *mirror) keep(u *unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[u.GetName()] = u
}

// Replace implements podapi.Sink.
func (m *mirror) Replace(items []kinds.Object, _ string) {
	m.mu.Lock()
	m.filled = true
	clear(m.objects)
	for _, item := range items {
		if u, ok := item.(*unstructured.Unstructured); ok {
			m.objects[u.GetName()] = u
		}
	}
	m.mu.Unlock()
	m.poke()
}

// Apply implements podapi.Sink.
func (m *mirror) Apply(event watch.Event) {
	if u, ok := event.Object.(*unstructured.Unstructured); ok {
		m.mu.Lock()
		if event.Type == watch.Deleted {
			delete(m.objects, u.GetName())
		} else {
			m.objects[u.GetName()] = u
		}
		m.mu.Unlock()
	}
	m.poke()
}

func (m *mirror) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
