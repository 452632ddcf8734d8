package client_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// fakeCluster is an API server made of a map: it keeps objects and records what it was asked.
type fakeCluster struct {
	mu       sync.Mutex
	revision int64
	objects  map[string]kinds.Object
	asked    []string
	uids     int
}

func key(t podapi.Target) string {
	return t.Kind.GroupResource().String() + " " + t.Namespace + "/" + t.Name
}

// Put stores an object as it is, and tells watchers.
func (c *fakeCluster) Put(obj kinds.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(obj)
}

// Asked returns the requests since it was last called.
func (c *fakeCluster) Asked() []string {
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

func (c *fakeCluster) put(obj kinds.Object) {
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
	c.objects[key(t)] = obj
}

func copyOf(obj kinds.Object) kinds.Object {
	return obj.DeepCopyObject().(kinds.Object) //nolint:errcheck,forcetypeassert // a copy has the type of the original
}

// begin records a request; it is called with the lock held.
func (c *fakeCluster) begin(verb string, t podapi.Target, detail string) {
	line := verb + " " + t.String()
	if detail != "" {
		line += " " + detail
	}
	c.asked = append(c.asked, line)
}

// Get returns a copy.
func (c *fakeCluster) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin("GET", t, "")
	return c.get(t)
}

func (c *fakeCluster) get(t podapi.Target) (kinds.Object, error) {
	obj := c.objects[key(podapi.Target{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name})]
	if obj == nil {
		return nil, apierrors.NewNotFound(t.Kind.GroupResource(), t.Name)
	}
	return copyOf(obj), nil
}

// List is in order of namespace and name, in pages.
func (c *fakeCluster) List(_ context.Context, t podapi.Target, opts metav1.ListOptions) (*podapi.List, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin("LIST", t, selectors(opts))
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
