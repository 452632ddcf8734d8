// Package faults mirrors the cluster's objects of kind Fault and Partition to the shared fault
// state, and writes the result to their status. It defines the kinds. Upstream has no such
// controller.
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

// StateStore holds the shared fault state. *mgmt.Client is one.
type StateStore interface {
	Get(ctx context.Context) (mgmt.FaultState, error)
	Set(ctx context.Context, change mgmt.Change) (mgmt.FaultState, error)
}

// Controller mirrors objects to the shared fault state.
type Controller struct {
	base    control.Base
	store   StateStore
	mirrors []*mirror
	wake    chan struct{}
}

// New returns a controller that writes to the store.
func New(base control.Base, board StateStore) *Controller {
	c := &Controller{base: base, store: board, wake: make(chan struct{}, 1)}
	c.mirrors = []*mirror{c.newMirror("Fault", "faults", newFaultAdapter()), c.newMirror("Partition", "partitions", newCutAdapter())}
	return c
}

// mirror has the objects of one kind.
type mirror struct {
	kind    kinds.Kind
	adapter adapter
	wake    chan struct{}
	// outcomes are what has become of objects, by UID. Only syncLoop uses them.
	outcomes map[types.UID]outcome

	mu      sync.Mutex
	filled  bool
	objects map[string]*unstructured.Unstructured
}

// outcome is what has become of one generation of an object, for its status.
type outcome struct {
	generation int64
	phase      string
	status     map[string]any
}

func (c *Controller) newMirror(kind, resource string, s adapter) *mirror {
	const version = "v1alpha1"
	return &mirror{
		kind: kinds.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "podfall.io", Version: version, Kind: kind},
			Resource:         resource, StorageVersion: version, ListKind: kind + "List", Subresources: []string{"status"}, Custom: true,
		},
		adapter: s, wake: c.wake, outcomes: map[types.UID]outcome{}, objects: map[string]*unstructured.Unstructured{},
	}
}

// Run defines the kinds and mirrors their objects until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.createDefinitions(ctx); err != nil {
		return err
	}
	parts := []func(context.Context) error{c.syncLoop}
	for _, m := range c.mirrors {
		parts = append(parts, func(ctx context.Context) error {
			return c.base.API.Follow(ctx, podapi.Target{Kind: m.kind}, metav1.ListOptions{}, m)
		})
	}
	return daemon.Run(ctx, parts...)
}

// defineRetryDelay is the wall-clock time between two attempts to define the kinds.
const defineRetryDelay = time.Second

// createDefinitions creates the definitions; existing ones stay as they are.
func (c *Controller) createDefinitions(ctx context.Context) error {
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
			if err := (clock.Clock{}).Sleep(ctx, defineRetryDelay); err != nil {
				return err
			}
		}
	}
}

// syncLoop mirrors after each change of an object, and periodically, because the store does not
// notify controllers.
func (c *Controller) syncLoop(ctx context.Context) error {
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
		for _, m := range c.mirrors {
			if err := c.syncMirror(ctx, m); err != nil && ctx.Err() == nil {
				c.base.Log.InfoContext(ctx, "could not mirror all faults", "kind", m.kind.Kind, "err", err)
			}
		}
	}
}

// syncMirror carries out one plan.
func (c *Controller) syncMirror(ctx context.Context, m *mirror) error {
	objects, filled := m.list()
	if !filled {
		return nil
	}
	state, err := c.store.Get(ctx)
	if err != nil {
		return err
	}
	known := make([]Object, len(objects))
	for i, object := range objects {
		outcome := m.outcomes[object.GetUID()]
		known[i] = readObject(object).withOutcome(outcome.generation, outcome.phase)
	}
	maps.DeleteFunc(m.outcomes, func(uid types.UID, _ outcome) bool {
		return !slices.ContainsFunc(known, func(o Object) bool { return o.UID == uid })
	})
	plan := Decide(known, m.adapter.entries(state))
	var failed error
	if len(plan.Remove) > 0 {
		_, err := c.store.Set(ctx, m.adapter.remove(plan.Remove))
		failed = errors.Join(failed, err)
	}
	for _, object := range plan.Place {
		failed = errors.Join(failed, c.placeObject(ctx, m, object, state))
	}
	for _, object := range plan.End {
		failed = errors.Join(failed, c.writeStatus(ctx, m, object, map[string]any{"phase": Ended}))
	}
	for _, object := range plan.WriteStatus {
		failed = errors.Join(failed, c.writeStatus(ctx, m, object, m.outcomes[object.UID].status))
	}
	return failed
}

// placeObject puts an object into the fault state, and writes the result to its status.
func (c *Controller) placeObject(ctx context.Context, m *mirror, object Object, state mgmt.FaultState) error {
	replaces := slices.ContainsFunc(m.adapter.entries(state), func(e Entry) bool { return e.Owner == object.UID })
	change, err := m.adapter.place(m.spec(object.Name), object, replaces)
	if err == nil {
		state, err = c.store.Set(ctx, change)
	}
	phase, status := Active, map[string]any{}
	switch {
	case errors.Is(err, mgmt.ErrRefused), errors.Is(err, errInvalidSpec):
		phase, status["message"] = Refused, err.Error()
	case err != nil:
		return err
	default:
		for _, entry := range m.adapter.entries(state) {
			if entry.Owner == object.UID {
				status["since"] = entry.Since.UTC().Format(time.RFC3339)
				if !entry.Until.IsZero() {
					status["until"] = entry.Until.UTC().Format(time.RFC3339)
				}
			}
		}
	}
	status["phase"] = phase
	m.outcomes[object.UID] = outcome{object.Generation, phase, status}
	return c.writeStatus(ctx, m, object, status)
}

// writeStatus writes an object's status. If the object has changed meanwhile, its watch event
// causes another try.
func (c *Controller) writeStatus(ctx context.Context, m *mirror, object Object, status map[string]any) error {
	m.mu.Lock()
	current, ok := m.objects[object.Name]
	m.mu.Unlock()
	if !ok {
		return nil
	}
	status["observedGeneration"] = object.Generation
	changed := current.DeepCopy()
	changed.Object["status"] = status
	target := podapi.Target{Kind: m.kind, Name: object.Name, Subresource: "status"}
	updated, err := c.base.API.Update(ctx, target, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if u, ok := updated.(*unstructured.Unstructured); ok {
		m.store(u)
	}
	return nil
}

// readObject returns the fields that decisions use.
func readObject(u *unstructured.Unstructured) Object {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return Object{
		Name: u.GetName(), UID: u.GetUID(), Generation: u.GetGeneration(), Deleting: u.GetDeletionTimestamp() != nil,
		Phase: phase, Observed: observed,
	}
}

func (m *mirror) list() ([]*unstructured.Unstructured, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	objects := make([]*unstructured.Unstructured, 0, len(m.objects))
	for _, object := range m.objects {
		objects = append(objects, object)
	}
	return objects, m.filled
}

// spec returns an object's spec as JSON.
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

func (m *mirror) store(u *unstructured.Unstructured) {
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
	m.wakeController()
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
	m.wakeController()
}

func (m *mirror) wakeController() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}
