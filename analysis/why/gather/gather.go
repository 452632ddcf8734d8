// Package gather collects the evidence for package why from a cluster: objects and Events from the
// API, and telemetry from the processes.
//
// # Blocking
//
// A process that does not answer is waited for during [Patience]. All are asked at once.
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

// Patience is the wall-clock time that a process may take to answer.
const Patience = 2 * time.Second

// API is the part of the apiserver client that is used; *podapi.Client implements it.
type API interface {
	Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error)
	List(ctx context.Context, target podapi.Target, opts metav1.ListOptions) (*podapi.List, error)
}

// Ask asks a process, by its name, for its telemetry and decodes the answer into said, a pointer to
// its type in package inspect.
type Ask func(ctx context.Context, process string, said any) error

// JSON returns an [Ask] for processes that answer in JSON; nil for nil.
func JSON(ask func(ctx context.Context, process string) ([]byte, error)) Ask {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, process string, telemetry any) error {
		data, err := ask(ctx, process)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, telemetry)
	}
}

// Observer asks a cluster why an object still exists.
type Observer struct {
	API API
	// Ask is nil if processes cannot be asked.
	Ask Ask
	// Clock is the cluster's clock.
	Clock clock.Clock
}

// Why returns what the object waits for. An error is one of the API. A missing object is not an
// error.
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
		return o.explainPod(ctx, target, pod)
	}
	return o.explainObject(ctx, target, obj)
}

// explainPod explains a known pod with the evidence of its node and of the processes.
func (o Observer) explainPod(ctx context.Context, target podapi.Target, pod *corev1.Pod) (why.Report, error) {
	e := why.Pod{Pod: pod, Namespace: target.Namespace, Name: target.Name}
	if pod == nil {
		return o.explainGonePod(ctx, e)
	}
	var err error
	if e.Events, err = o.podEvents(ctx, target.Namespace, target.Name); err != nil {
		return why.Report{}, err
	}
	if e.Job, err = o.jobOf(ctx, pod); err != nil { // report the rest without the Job
		e.JobErr = err.Error()
	}
	if e.Node, err = o.nodeEvidence(ctx, pod.Spec.NodeName); err != nil {
		return why.Report{}, err
	}
	e.Telemetry = o.askProcesses(ctx, pod.Spec.NodeName)
	e.Now = o.Clock.Now()
	return why.ExplainPod(e), nil
}

// jobOf returns the Job whose finalizer a deleted pod has; nil if there is none.
func (o Observer) jobOf(ctx context.Context, pod *corev1.Pod) (*batchv1.Job, error) {
	owner := metav1.GetControllerOf(pod)
	if pod.DeletionTimestamp == nil || owner == nil || owner.Kind != "Job" || !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		return nil, nil //nolint:nilnil // no Job is no error
	}
	obj, err := o.API.Get(ctx, podapi.Target{Kind: mustKind("jobs.batch"), Namespace: pod.Namespace, Name: owner.Name}, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if job, is := obj.(*batchv1.Job); is && job.UID == owner.UID {
		return job, nil
	}
	return nil, nil //nolint:nilnil // the Job is gone, or another one
}

// explainGonePod looks on every node for what may be left of a pod.
func (o Observer) explainGonePod(ctx context.Context, e why.Pod) (why.Report, error) {
	nodes, err := listAll[*corev1.Node](ctx, o.API, "nodes", "", metav1.ListOptions{})
	if err != nil {
		return why.Report{}, err
	}
	e.Now = o.Clock.Now()
	report := why.ExplainPod(e)
	reports := make([]why.Report, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			evidence := e
			evidence.Telemetry = o.askProcesses(ctx, node.Name)
			evidence.Now = o.Clock.Now()
			reports[i] = why.ExplainPod(evidence)
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

// nodeEvidence returns what the API has of a node; nothing for an empty name.
func (o Observer) nodeEvidence(ctx context.Context, name string) (why.Node, error) {
	var n why.Node
	if name == "" {
		return n, nil
	}
	obj, err := o.API.Get(ctx, podapi.Target{Kind: mustKind("nodes"), Name: name}, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return n, err
	}
	n.Node, _ = obj.(*corev1.Node)
	obj, err = o.API.Get(ctx, podapi.Target{Kind: mustKind("leases.coordination.k8s.io"), Namespace: corev1.NamespaceNodeLease, Name: name}, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return n, err
	}
	n.Lease, _ = obj.(*coordinationv1.Lease)
	return n, nil
}

// podEvents returns the Events about pods of this name.
func (o Observer) podEvents(ctx context.Context, namespace, name string) ([]corev1.Event, error) {
	found, err := listAll[*corev1.Event](ctx, o.API, "events", namespace, metav1.ListOptions{
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

// askProcesses returns the telemetry of the processes; that of a node only if one is named.
func (o Observer) askProcesses(ctx context.Context, node string) why.Telemetry {
	var t why.Telemetry
	if o.Ask == nil {
		return t
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, Patience)
	defer cancel()
	var all sync.WaitGroup
	if node != "" {
		all.Go(func() { t.Kubelet = askOne[inspect.Kubelet](ctx, o, "kubelet/"+node) })
		all.Go(func() {
			t.Runtime = askOne[inspect.Runtime](ctx, o, "runtime/"+node)
			if t.Runtime.Report != nil {
				t.Runtime.Report.Node = node
			}
		})
	}
	if node != "" {
		all.Go(func() { t.Bus = askOne[inspect.Bus](ctx, o, "bus") })
	}
	all.Go(func() { t.Controllers = askOne[inspect.Controllers](ctx, o, "controllers") })
	all.Go(func() { t.APIServer = askOne[inspect.APIServer](ctx, o, "apiserver") })
	all.Wait()
	return t
}

// askOne returns the answer of one process.
func askOne[T any](ctx context.Context, o Observer, process string) inspect.Answer[T] {
	began := o.Clock.Steady()
	telemetry := new(T)
	err := o.Ask(ctx, process, telemetry)
	answer := inspect.Answer[T]{At: o.Clock.Now(), RoundTrip: o.Clock.Steady().Sub(began)}
	if err != nil {
		answer.Err = err.Error()
	} else {
		answer.Report = telemetry
	}
	return answer
}

// explainObject explains an object other than a pod.
func (o Observer) explainObject(ctx context.Context, target podapi.Target, obj kinds.Object) (why.Report, error) {
	e := why.Object{What: strings.ToLower(target.Kind.Kind) + "/" + target.Name, Object: obj}
	node := ""
	var err error
	if _, is := obj.(*corev1.Node); is {
		node = target.Name
		if e.Node, err = o.nodeEvidence(ctx, node); err != nil {
			return why.Report{}, err
		}
	}
	if obj != nil {
		if e.Below, err = o.explainPods(ctx, target, obj); err != nil {
			return why.Report{}, err
		}
	}
	e.Telemetry = o.askProcesses(ctx, node)
	e.Now = o.Clock.Now()
	return why.ExplainObject(e), nil
}

// explainPods returns the reports of the pods that an object may wait for.
func (o Observer) explainPods(ctx context.Context, target podapi.Target, obj kinds.Object) ([]why.Report, error) {
	namespace := target.Namespace
	if target.Kind.Resource == "namespaces" {
		namespace = target.Name
	}
	pods, err := listAll[*corev1.Pod](ctx, o.API, "pods", namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	mayBlock, err := o.concernedPods(ctx, target, obj)
	if err != nil {
		return nil, err
	}
	var reports []why.Report
	for _, pod := range pods {
		if !mayBlock(pod) {
			continue
		}
		report := why.Report{Object: "pod/" + pod.Name, Namespace: pod.Namespace, UID: string(pod.UID), State: "it is not being deleted"}
		if pod.DeletionTimestamp != nil {
			at := podapi.Target{Kind: mustKind("pods"), Namespace: pod.Namespace, Name: pod.Name}
			if report, err = o.explainPod(ctx, at, pod); err != nil {
				return nil, err
			}
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// concernedPods returns a function that tells the pods that an object may wait for: those in it, on
// it, using it, or owned by it.
func (o Observer) concernedPods(ctx context.Context, target podapi.Target, obj kinds.Object) (func(*corev1.Pod) bool, error) {
	switch obj.(type) {
	case *corev1.Namespace:
		return func(*corev1.Pod) bool { return true }, nil
	case *corev1.Node:
		return func(pod *corev1.Pod) bool { return pod.Spec.NodeName == target.Name }, nil
	case *corev1.PersistentVolumeClaim:
		return func(pod *corev1.Pod) bool { return usesClaim(pod, target.Name) }, nil
	}
	owners := map[types.UID]bool{obj.GetUID(): true}
	if target.Kind.Resource == "deployments" {
		sets, err := o.API.List(ctx, podapi.Target{Kind: mustKind("replicasets.apps"), Namespace: target.Namespace}, metav1.ListOptions{})
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

func usesClaim(pod *corev1.Pod, claim string) bool {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}

// listAll returns all objects of a resource.
func listAll[T kinds.Object](ctx context.Context, api API, resource, namespace string, opts metav1.ListOptions) ([]T, error) {
	page, err := api.List(ctx, podapi.Target{Kind: mustKind(resource), Namespace: namespace}, opts)
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

// mustKind returns the kind of a resource. It panics if there is none, which is a mistake in this
// package.
func mustKind(resource string) kinds.Kind {
	found, ok := kinds.ByResource(resource)
	if !ok {
		panic("gather: no kind " + resource)
	}
	return found
}
