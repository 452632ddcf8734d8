// Package fake is an API server made of a map, for tests of the client: it keeps
// objects, tells watchers of changes, marks and removes pods after a delay, and records
// what it was asked. It knows nothing of rules beyond that.
package fake

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Annotations by which a test says how an object goes.
const (
	// Stays keeps a marked object for ever.
	Stays = "fake/stays"
	// Gone is how long a marked object takes to go; not at all by default.
	Gone = "fake/gone"
	// Replaced puts another object under the name at once.
	Replaced = "fake/replaced"
)

// Cluster is the fake. Its zero value is empty and uses the wall clock.
type Cluster struct {
	Clock clock.Clock
	// Refuse may answer a request with an error, before anything else is done.
	Refuse func(verb string, t podapi.Target) error

	// OnWatch is told, in a goroutine of its own, of every watch that opens.
	OnWatch func()

	mu       sync.Mutex
	revision int64
	objects  map[string]kinds.Object
	history  []change
	watchers []*watcher
	asked    []string
	uids     int
	leaving  sync.WaitGroup
}

// Wait returns once every marked object that will go has gone.
func (c *Cluster) Wait() { c.leaving.Wait() }

// change is one event, with the object before it.
type change struct {
	revision int64
	watch.Event
	target podapi.Target
}

// watcher is one open watch.
type watcher struct {
	*watch.RaceFreeFakeWatcher
	target podapi.Target
	opts   metav1.ListOptions
}

func key(t podapi.Target) string {
	return t.Kind.GroupResource().String() + " " + t.Namespace + "/" + t.Name
}

// Put stores an object as it is, and tells watchers.
func (c *Cluster) Put(obj kinds.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(obj)
}

// Remove takes an object out, and tells watchers.
func (c *Cluster) Remove(t podapi.Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(t)
}

// Tell sends an event to every watcher without storing anything.
func (c *Cluster) Tell(event watch.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.watchers {
		w.Action(event.Type, event.Object)
	}
}

// EndWatches closes every watch, as a server does that goes away.
func (c *Cluster) EndWatches() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.watchers {
		w.Stop()
	}
	c.watchers = nil
}

// Asked returns the requests since it was last called.
func (c *Cluster) Asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

func targetOf(obj kinds.Object) podapi.Target {
	gvk, err := kinds.GVK(obj)
	if err != nil {
		panic(err)
	}
	kind, _ := kinds.ByGVK(gvk)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return podapi.Target{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func (c *Cluster) put(obj kinds.Object) {
	obj = copyOf(obj)
	t := targetOf(obj)
	if c.objects == nil {
		c.objects = map[string]kinds.Object{}
	}
	c.revision++
	if obj.GetUID() == "" {
		c.uids++
		obj.SetUID(types.UID("uid-" + strconv.Itoa(c.uids)))
	}
	obj.SetResourceVersion(strconv.FormatInt(c.revision, 10))
	kind := watch.Modified
	if c.objects[key(t)] == nil {
		kind = watch.Added
	}
	c.objects[key(t)] = obj
	c.tell(t, watch.Event{Type: kind, Object: obj})
}

func (c *Cluster) remove(t podapi.Target) {
	obj := c.objects[key(t)]
	if obj == nil {
		return
	}
	delete(c.objects, key(t))
	last := copyOf(obj)
	c.revision++
	last.SetResourceVersion(strconv.FormatInt(c.revision, 10))
	c.tell(t, watch.Event{Type: watch.Deleted, Object: last})
}

func (c *Cluster) tell(t podapi.Target, event watch.Event) {
	c.history = append(c.history, change{revision: c.revision, Event: event, target: t})
	for _, w := range c.watchers {
		if ok, err := matches(w.target, w.opts, t, event.Object); ok && err == nil {
			w.Action(event.Type, event.Object)
		}
	}
}

func copyOf(obj kinds.Object) kinds.Object {
	return obj.DeepCopyObject().(kinds.Object) //nolint:errcheck,forcetypeassert // a copy has the type of the original
}

// begin records a request; it is called with the lock held.
func (c *Cluster) begin(verb string, t podapi.Target, detail string) error {
	line := verb + " " + t.String()
	if detail != "" {
		line += " " + detail
	}
	c.asked = append(c.asked, line)
	if c.Refuse != nil {
		return c.Refuse(verb, t)
	}
	return nil
}

// Get returns a copy.
func (c *Cluster) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin("GET", t, ""); err != nil {
		return nil, err
	}
	return c.get(t)
}

func (c *Cluster) get(t podapi.Target) (kinds.Object, error) {
	obj := c.objects[key(podapi.Target{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name})]
	if obj == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	return copyOf(obj), nil
}

// List is in order of namespace and name, in pages.
func (c *Cluster) List(_ context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin("LIST", t, selectors(opts)); err != nil {
		return nil, err
	}
	list := &podapi.List{ResourceVersion: strconv.FormatInt(c.revision, 10)}
	names := make([]string, 0, len(c.objects))
	for name := range c.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if name <= opts.Continue {
			continue
		}
		obj := c.objects[name]
		ok, err := matches(t, opts, targetOf(obj), obj)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		if opts.Limit > 0 && int64(len(list.Items)) == opts.Limit {
			list.Continue = key(targetOf(list.Items[len(list.Items)-1]))
			break
		}
		list.Items = append(list.Items, copyOf(obj))
	}
	return list, nil
}

func selectors(opts metav1.ListOptions) string {
	var parts []string
	if opts.LabelSelector != "" {
		parts = append(parts, "labels="+opts.LabelSelector)
	}
	if opts.FieldSelector != "" {
		parts = append(parts, "fields="+opts.FieldSelector)
	}
	if opts.Continue != "" {
		parts = append(parts, "continued")
	}
	return strings.Join(parts, " ")
}

// Watch replays what came after the version, or what there is, and goes on.
func (c *Cluster) Watch(_ context.Context, t podapi.Target, opts metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin("WATCH", t, strings.TrimSpace(selectors(opts)+" from="+opts.ResourceVersion)); err != nil {
		return nil, err
	}
	w := &watcher{RaceFreeFakeWatcher: watch.NewRaceFreeFake(), target: t, opts: opts}
	from, err := strconv.ParseInt(opts.ResourceVersion, 10, 64)
	if err != nil || from == 0 {
		for _, name := range slices.Sorted(keysOf(c.objects)) {
			obj := c.objects[name]
			if ok, err := matches(t, opts, targetOf(obj), obj); ok && err == nil {
				w.Add(obj)
			}
		}
		from = c.revision
	}
	for _, past := range c.history {
		if ok, err := matches(t, opts, past.target, past.Object); past.revision > from && ok && err == nil {
			w.Action(past.Type, past.Object)
		}
	}
	c.watchers = append(c.watchers, w)
	if c.OnWatch != nil {
		c.leaving.Go(c.OnWatch)
	}
	return w, nil
}

func keysOf(objects map[string]kinds.Object) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range objects {
			if !yield(name) {
				return
			}
		}
	}
}

// CreateRaw stores the object that body holds.
func (c *Cluster) CreateRaw(_ context.Context, t podapi.Target, _ string, body []byte, opts metav1.CreateOptions) (kinds.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	detail := "validation=" + opts.FieldValidation
	if len(opts.DryRun) > 0 {
		detail += " dryRun"
	}
	obj, err := kinds.New(t.Kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	t.Name = obj.GetName()
	if err := c.begin("CREATE", t, detail); err != nil {
		return nil, err
	}
	if t.Name == "" {
		obj.SetName(obj.GetGenerateName() + "x7k2p")
		t.Name = obj.GetName()
	}
	if c.objects[key(t)] != nil {
		return nil, apierrors.NewAlreadyExists(t.Kind.GroupResource(), t.Name)
	}
	obj.SetNamespace(t.Namespace)
	obj.SetCreationTimestamp(metav1.NewTime(c.Clock.Now().Truncate(time.Second)))
	if len(opts.DryRun) > 0 {
		return obj, nil
	}
	c.put(obj)
	return c.get(t)
}

// Patch applies a merge or strategic-merge patch.
func (c *Cluster) Patch(_ context.Context, t podapi.Target, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (kinds.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	detail := strings.TrimSuffix(strings.TrimPrefix(string(pt), "application/"), "+json") + " " + string(patch)
	if len(opts.DryRun) > 0 {
		detail += " dryRun"
	}
	if err := c.begin("PATCH", t, detail); err != nil {
		return nil, err
	}
	old, err := c.get(t)
	if err != nil {
		return nil, err
	}
	if pt == types.JSONPatchType {
		return old, nil
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	typed, err := kinds.New(t.Kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, typed)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := json.Unmarshal(after, typed); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if normal, err := json.Marshal(typed); err != nil || string(normal) == string(before) || len(opts.DryRun) > 0 {
		return old, err
	}
	c.put(typed)
	return c.get(t)
}
