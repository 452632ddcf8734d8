package endpointslice

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

const workers = 5

// seen is what both controllers look at.
type seen struct {
	services *view.Copy[*corev1.Service]
	pods     *view.Copy[*corev1.Pod]
	nodes    *view.Copy[*corev1.Node]
}

// look is a view of services that tells queue which of them a change is about.
func look(base control.Base, queue func(view.Key)) seen {
	s := seen{
		services: view.Of[*corev1.Service](base.Views, "services"),
		pods:     view.Of[*corev1.Pod](base.Views, "pods"),
		nodes:    view.Of[*corev1.Node](base.Views, "nodes"),
	}
	s.services.OnChange(func(old, now *corev1.Service) {
		if now == nil {
			now = old
		}
		queue(view.KeyOf(now))
	})
	s.pods.OnChange(func(old, now *corev1.Pod) {
		for _, pod := range []*corev1.Pod{old, now} {
			if pod == nil {
				continue
			}
			for _, service := range s.services.InNamespace(pod.Namespace) {
				if Selects(service) && selects(service, pod) {
					queue(view.KeyOf(service))
				}
			}
		}
	})
	return s
}

func selects(service *corev1.Service, pod *corev1.Pod) bool {
	return labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// view gathers what could be behind a service.
func (s seen) view(service *corev1.Service) View {
	found := View{Service: service, Zones: map[string]string{}}
	for _, pod := range s.pods.InNamespace(service.Namespace) {
		if !selects(service, pod) {
			continue
		}
		found.Pods = append(found.Pods, pod)
		if node, ok := s.nodes.Get(view.Key{Name: pod.Spec.NodeName}); ok {
			found.Zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
		}
	}
	return found
}

// Controller keeps EndpointSlices.
type Controller struct {
	seen
	slices *view.Copy[*discoveryv1.EndpointSlice]
	client control.Resource[*discoveryv1.EndpointSlice]
	loop   *loop.Loop[view.Key]

	mu sync.Mutex
	// written are the slices of each service as this controller last wrote them, by their
	// generation: until the view has them it is too old to decide by.
	written map[view.Key]map[string]int64
}

// New is a controller that has not begun.
func New(base control.Base) *Controller {
	c := &Controller{
		slices:  view.Of[*discoveryv1.EndpointSlice](base.Views, "endpointslices.discovery.k8s.io"),
		client:  control.Of[*discoveryv1.EndpointSlice](base.API, "endpointslices.discovery.k8s.io"),
		written: map[view.Key]map[string]int64{},
	}
	c.loop = loop.New(loop.Config{Name: "endpoint_slice", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.sync)
	c.seen = look(base, c.loop.Add)
	c.slices.Index(byService, func(slice *discoveryv1.EndpointSlice) []string {
		if slice.Labels[discoveryv1.LabelManagedBy] != ManagedBy {
			return nil
		}
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}
	})
	c.slices.OnChange(c.sliceChanged)
	return c
}

// byService is the index of slices by the service that they are of.
const byService = "service"

func (c *Controller) sliceChanged(old, now *discoveryv1.EndpointSlice) {
	for _, slice := range []*discoveryv1.EndpointSlice{old, now} {
		if slice == nil || slice.Labels[discoveryv1.LabelManagedBy] != ManagedBy {
			continue
		}
		key := view.Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		if now == nil {
			c.mu.Lock()
			delete(c.written[key], slice.Name)
			c.mu.Unlock()
		}
		c.loop.Add(key)
	}
}

// Run keeps slices until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

var errOldView = errors.New("the view of the service's slices is older than what was written")

func (c *Controller) sync(ctx context.Context, key view.Key) error {
	service, found := c.services.Get(key)
	if !found {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.written, key)
		return nil // its slices have it for an owner
	}
	if !Selects(service) || service.DeletionTimestamp != nil {
		return nil
	}
	looked := c.view(service)
	looked.Slices = c.slices.ByIndex(byService, key.String())
	if c.old(key, looked.Slices) {
		return errOldView
	}
	return c.carryOut(ctx, key, Decide(looked))
}

// old reports whether the slices are not all that was written.
func (c *Controller) old(key view.Key, slices []*discoveryv1.EndpointSlice) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	generations := map[string]int64{}
	for _, slice := range slices {
		generations[slice.Name] = slice.Generation
	}
	for name, generation := range c.written[key] {
		if generations[name] < generation {
			return true
		}
	}
	return false
}

func (c *Controller) note(key view.Key, slice *discoveryv1.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written[key] == nil {
		c.written[key] = map[string]int64{}
	}
	c.written[key][slice.Name] = slice.Generation
}

func (c *Controller) carryOut(ctx context.Context, key view.Key, plan Plan) error {
	for _, slice := range plan.Creates {
		stored, err := c.client.Create(ctx, slice)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return err
		}
		c.note(key, stored)
	}
	for _, slice := range plan.Updates {
		stored, err := c.client.Update(ctx, slice)
		if err != nil {
			return err
		}
		c.note(key, stored)
	}
	for _, slice := range plan.Deletes {
		c.mu.Lock()
		delete(c.written[key], slice.Name)
		c.mu.Unlock()
		if err := c.client.Delete(ctx, slice, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
