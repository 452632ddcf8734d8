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

// copies are the objects that both controllers read.
type copies struct {
	services *view.Copy[*corev1.Service]
	pods     *view.Copy[*corev1.Pod]
	nodes    *view.Copy[*corev1.Node]
}

// newCopies watches services and their pods, and passes the key of each affected service to queue.
func newCopies(base control.Base, queue func(view.Key)) copies {
	s := copies{
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
				if HasSelector(service) && selectsPod(service, pod) {
					queue(view.KeyOf(service))
				}
			}
		}
	})
	return s
}

func selectsPod(service *corev1.Service, pod *corev1.Pod) bool {
	return labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// buildView collects the pods that the service selects, and their zones.
func (s copies) buildView(service *corev1.Service) View {
	input := View{Service: service, Zones: map[string]string{}}
	for _, pod := range s.pods.InNamespace(service.Namespace) {
		if !selectsPod(service, pod) {
			continue
		}
		input.Pods = append(input.Pods, pod)
		if node, ok := s.nodes.Get(view.Key{Name: pod.Spec.NodeName}); ok {
			input.Zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
		}
	}
	return input
}

// Controller keeps EndpointSlices.
type Controller struct {
	copies
	slices *view.Copy[*discoveryv1.EndpointSlice]
	client control.Resource[*discoveryv1.EndpointSlice]
	loop   *loop.Loop[view.Key]

	mu sync.Mutex
	// written has the generation of each service's slices as this controller last wrote them. A
	// view with older slices is too old to decide by.
	written map[view.Key]map[string]int64
}

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	c := &Controller{
		slices:  view.Of[*discoveryv1.EndpointSlice](base.Views, "endpointslices.discovery.k8s.io"),
		client:  control.Of[*discoveryv1.EndpointSlice](base.API, "endpointslices.discovery.k8s.io"),
		written: map[view.Key]map[string]int64{},
	}
	c.loop = loop.New(loop.Config{Name: "endpoint_slice", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.sync)
	c.copies = newCopies(base, c.loop.Add)
	c.slices.Index(byService, func(slice *discoveryv1.EndpointSlice) []string {
		if slice.Labels[discoveryv1.LabelManagedBy] != ManagedBy {
			return nil
		}
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}
	})
	c.slices.OnChange(c.sliceChanged)
	return c
}

// byService indexes slices by their service.
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

var errStaleView = errors.New("the view of the service's slices is older than what was written")

func (c *Controller) sync(ctx context.Context, key view.Key) error {
	service, found := c.services.Get(key)
	if !found {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.written, key)
		return nil // its slices have it for an owner
	}
	if !HasSelector(service) || service.DeletionTimestamp != nil {
		return nil
	}
	input := c.buildView(service)
	input.Slices = c.slices.ByIndex(byService, key.String())
	if c.isStale(key, input.Slices) {
		return errStaleView
	}
	return c.applyPlan(ctx, key, Decide(input))
}

// isStale reports whether the view lacks a slice that was written.
func (c *Controller) isStale(key view.Key, slices []*discoveryv1.EndpointSlice) bool {
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

func (c *Controller) recordWritten(key view.Key, slice *discoveryv1.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written[key] == nil {
		c.written[key] = map[string]int64{}
	}
	c.written[key][slice.Name] = slice.Generation
}

func (c *Controller) applyPlan(ctx context.Context, key view.Key, plan Plan) error {
	for _, slice := range plan.Creates {
		stored, err := c.client.Create(ctx, slice)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return err
		}
		c.recordWritten(key, stored)
	}
	for _, slice := range plan.Updates {
		stored, err := c.client.Update(ctx, slice)
		if err != nil {
			return err
		}
		c.recordWritten(key, stored)
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
