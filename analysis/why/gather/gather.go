// Package gather collects the evidence for package why from a cluster: objects and
// events from the API, and from the processes what they say of themselves.
//
// # Blocking
//
// Asking a process that does not answer takes [Patience]; all are asked at once.
package gather

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Patience is how long on the wall a process may take to say how it is.
const Patience = 2 * time.Second

// API is what is asked of the apiserver; *podapi.Client is one.
type API interface {
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	List(ctx context.Context, target podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
}

// Ask asks a process by its name how it is, and fills in said, a pointer to what package
// inspect has for it.
type Ask func(ctx context.Context, process string, said any) error

// JSON is an [Ask] of processes that answer in JSON; that of nil is nil.
func JSON(ask func(ctx context.Context, process string) ([]byte, error)) Ask {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, process string, said any) error {
		data, err := ask(ctx, process)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, said)
	}
}

// Observer asks a cluster why.
type Observer struct {
	API API
	// Ask is nil when processes cannot be asked.
	Ask Ask
	// Clock is the cluster's.
	Clock clock.Clock
}

// Why says what the object waits for. The error is that of the API, but an object that is
// not there is none.
func (o Observer) Why(ctx context.Context, target podapi.Target) (why.Report, error) {
	obj, err := o.API.Get(ctx, target, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return why.Report{}, err
	}
	if err != nil {
		obj = nil
	}
	if target.Kind.GroupResource().String() == "pods" {
		pod, _ := obj.(*corev1.Pod)
		return o.pod(ctx, target, pod)
	}
	return o.object(ctx, target, obj)
}

// Pod is Why for a pod that is known, with what is known of its node and processes.
func (o Observer) pod(ctx context.Context, target podapi.Target, pod *corev1.Pod) (why.Report, error) {
	e := why.Pod{Pod: pod, Namespace: target.Namespace, Name: target.Name}
	if pod == nil {
		return o.gonePod(ctx, e)
	}
	var err error
	if e.Events, err = o.events(ctx, target.Namespace, target.Name); err != nil {
		return why.Report{}, err
	}
	if e.Job, err = o.job(ctx, pod); err != nil { // the rest is worth saying without it
		e.JobErr = err.Error()
	}
	if e.Node, err = o.node(ctx, pod.Spec.NodeName); err != nil {
		return why.Report{}, err
	}
	e.Telemetry = o.telemetry(ctx, pod.Spec.NodeName)
	e.Now = o.Clock.Now()
	return why.OfPod(e), nil
}

// job is the Job that a deleted pod holds a finalizer for; nil when there is none.
func (o Observer) job(ctx context.Context, pod *corev1.Pod) (*batchv1.Job, error) {
	owner := metav1.GetControllerOf(pod)
	if pod.DeletionTimestamp == nil || owner == nil || owner.Kind != "Job" || !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		return nil, nil //nolint:nilnil // none is no mistake
	}
	obj, err := o.API.Get(ctx, podapi.Target{Kind: kind("jobs.batch"), Namespace: pod.Namespace, Name: owner.Name}, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if its, is := obj.(*batchv1.Job); is && its.UID == owner.UID {
		return its, nil
	}
	return nil, nil //nolint:nilnil // it is gone, or another's
}

// gonePod looks on every node for what may be left of a pod.
func (o Observer) gonePod(ctx context.Context, e why.Pod) (why.Report, error) {
	nodes, err := list[*corev1.Node](ctx, o.API, "nodes", "", metav1.ListOptions{})
	if err != nil {
		return why.Report{}, err
	}
	e.Now = o.Clock.Now()
	report := why.OfPod(e)
	reports := make([]why.Report, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			there := e
			there.Telemetry = o.telemetry(ctx, node.Name)
			there.Now = o.Clock.Now()
			reports[i] = why.OfPod(there)
		})
	}
	all.Wait()
	for _, found := range reports {
		if len(found.Findings) > 0 || found.State != report.State {
			return found, nil
		}
	}
	return report, nil
}

// node is what the API has of a node; nothing for an empty name.
func (o Observer) node(ctx context.Context, name string) (why.Node, error) {
	var n why.Node
	if name == "" {
		return n, nil
	}
	obj, err := o.API.Get(ctx, podapi.Target{Kind: kind("nodes"), Name: name}, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return n, err
	}
	n.Node, _ = obj.(*corev1.Node)
	obj, err = o.API.Get(ctx, podapi.Target{Kind: kind("leases.coordination.k8s.io"), Namespace: corev1.NamespaceNodeLease, Name: name}, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return n, err
	}
	n.Lease, _ = obj.(*coordinationv1.Lease)
	return n, nil
}

// events are those about a pod of this name.
func (o Observer) events(ctx context.Context, namespace, name string) ([]corev1.Event, error) {
	found, err := list[*corev1.Event](ctx, o.API, "events", namespace, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector("involvedObject.kind", "Pod"), fields.OneTermEqualSelector("involvedObject.name", name),
		).String(),
	})
	all := make([]corev1.Event, 0, len(found))
	for _, event := range found {
		all = append(all, *event)
	}
	return all, err
}

// telemetry is what the processes say of themselves; a node's only if one is named.
func (o Observer) telemetry(ctx context.Context, node string) why.Telemetry {
	var t why.Telemetry
	if o.Ask == nil {
		return t
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, Patience)
	defer cancel()
	var all sync.WaitGroup
	if node != "" {
		all.Go(func() { t.Kubelet = answer[inspect.Kubelet](ctx, o, "kubelet/"+node) })
		all.Go(func() {
			t.Runtime = answer[inspect.Runtime](ctx, o, "runtime/"+node)
			if t.Runtime.Said != nil {
				t.Runtime.Said.Node = node
			}
		})
	}
	if node != "" {
		all.Go(func() { t.Bus = answer[inspect.Bus](ctx, o, "bus") })
	}
	all.Go(func() { t.Controllers = answer[inspect.Controllers](ctx, o, "controllers") })
	all.Go(func() { t.APIServer = answer[inspect.APIServer](ctx, o, "apiserver") })
	all.Wait()
	return t
}

// answer is what one process says.
func answer[T any](ctx context.Context, o Observer, process string) inspect.Answer[T] {
	began := o.Clock.Steady()
	said := new(T)
	err := o.Ask(ctx, process, said)
	heard := inspect.Answer[T]{At: o.Clock.Now(), Took: o.Clock.Steady().Sub(began)}
	if err != nil {
		heard.Err = err.Error()
	} else {
		heard.Said = said
	}
	return heard
}

// object is Why for what is no pod.
func (o Observer) object(ctx context.Context, target podapi.Target, obj kinds.Object) (why.Report, error) {
	e := why.Object{What: strings.ToLower(target.Kind.Kind) + "/" + target.Name, Object: obj}
	node := ""
	var err error
	if _, is := obj.(*corev1.Node); is {
		node = target.Name
		if e.Node, err = o.node(ctx, node); err != nil {
			return why.Report{}, err
		}
	}
	if obj != nil {
		if e.Below, err = o.below(ctx, target, obj); err != nil {
			return why.Report{}, err
		}
	}
	e.Telemetry = o.telemetry(ctx, node)
	e.Now = o.Clock.Now()
	return why.OfObject(e), nil
}

// below are the reports of the pods that an object may wait for.
func (o Observer) below(ctx context.Context, target podapi.Target, obj kinds.Object) ([]why.Report, error) {
	namespace := target.Namespace
	if target.Kind.Resource == "namespaces" {
		namespace = target.Name
	}
	pods, err := list[*corev1.Pod](ctx, o.API, "pods", namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	concerned, err := o.concerned(ctx, target, obj)
	if err != nil {
		return nil, err
	}
	var reports []why.Report
	for _, pod := range pods {
		if !concerned(pod) {
			continue
		}
		report := why.Report{Object: "pod/" + pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), State: "it is not being deleted"}
		if pod.DeletionTimestamp != nil {
			at := podapi.Target{Kind: kind("pods"), Namespace: pod.Namespace, Name: pod.Name}
			if report, err = o.pod(ctx, at, pod); err != nil {
				return nil, err
			}
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// concerned says which pods an object may wait for: those in it, on it, that use it, or
// that it owns.
func (o Observer) concerned(ctx context.Context, target podapi.Target, obj kinds.Object) (func(*corev1.Pod) bool, error) {
	switch obj.(type) {
	case *corev1.Namespace:
		return func(*corev1.Pod) bool { return true }, nil
	case *corev1.Node:
		return func(pod *corev1.Pod) bool { return pod.Spec.NodeName == target.Name }, nil
	case *corev1.PersistentVolumeClaim:
		return func(pod *corev1.Pod) bool { return uses(pod, target.Name) }, nil
	}
	owners := map[types.UID]bool{obj.GetUID(): true}
	if target.Kind.Resource == "deployments" {
		sets, err := o.API.List(ctx, podapi.Target{Kind: kind("replicasets.apps"), Namespace: target.Namespace}, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, set := range sets.Items {
			if owner := metav1.GetControllerOf(set); owner != nil && owner.UID == obj.GetUID() {
				owners[set.GetUID()] = true
			}
		}
	}
	return func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOf(pod)
		return owner != nil && owners[owner.UID]
	}, nil
}

func uses(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// list is all objects of a kind.
func list[T kinds.Object](ctx context.Context, api API, resource, namespace string, opts metav1.ListOptions) ([]T, error) {
	page, err := api.List(ctx, podapi.Target{Kind: kind(resource), Namespace: namespace}, opts)
	if err != nil {
		return nil, err
	}
	items := make([]T, 0, len(page.Items))
	for _, item := range page.Items {
		typed, ok := item.(T)
		if !ok {
			return nil, fmt.Errorf("%s: answered with a %T", resource, item)
		}
		items = append(items, typed)
	}
	return items, nil
}

// kind is a row of the table. It panics when there is none: a mistake in this package.
func kind(resource string) kinds.Kind {
	found, ok := kinds.ByResource(resource)
	if !ok {
		panic("gather: no kind " + resource)
	}
	return found
}
