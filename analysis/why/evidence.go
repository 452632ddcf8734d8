package why

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// Pod is what is known of a pod.
type Pod struct {
	// Now is the observer's time, on the cluster's clock.
	Now time.Time
	// Pod is the object; nil when the API has none.
	Pod *corev1.Pod
	// Namespace and Name are what was asked for.
	Namespace, Name string
	// Events are those about the pod, in any order.
	Events []corev1.Event
	// Job is the one whose finalizer the pod has; nil when it has none, or the Job is gone.
	Job *batchv1.Job
	// JobErr is why the Job could not be read; empty when it could.
	JobErr string
	Node   Node
	Telemetry
}

// Node is what is known of a pod's node.
type Node struct {
	// Node is the object; nil when the API has none, or the pod no node.
	Node *corev1.Node
	// Lease is the node's; nil when there is none.
	Lease *coordinationv1.Lease
	// Pods are the node's, when the question is about the node.
	Pods []*corev1.Pod
}

// Telemetry is what processes said of themselves. A zero Answer is of a process that was
// not asked.
type Telemetry struct {
	Kubelet     inspect.Answer[inspect.Kubelet]
	Runtime     inspect.Answer[inspect.Runtime]
	Controllers inspect.Answer[inspect.Controllers]
	APIServer   inspect.Answer[inspect.APIServer]
	Bus         inspect.Answer[inspect.Bus]
}

// settled is the same by one clock, whose the creations and deletions of objects are, and what that shows now:
// what the apiserver says it does, or else what the observer's does. What the processes of a node and the bus tell, and
// the lease that a kubelet renews, are as long ago as their own clocks have them, which may be wrong.
func (t Telemetry) settled(n Node, observed time.Time) (Telemetry, Node, time.Time) {
	now := observed
	if t.compares() {
		now = t.APIServer.Said.Now
	}
	if k := t.Kubelet.Said; k != nil && !k.Now.IsZero() && n.Lease != nil && n.Lease.Spec.RenewTime != nil {
		n.Lease = n.Lease.DeepCopy()
		n.Lease.Spec.RenewTime.Time = inspect.Moved(n.Lease.Spec.RenewTime.Time, now.Sub(k.Now))
	}
	t.Kubelet, t.Runtime, t.Bus = toldAt(t.Kubelet, now), toldAt(t.Runtime, now), toldAt(t.Bus, now)
	return t, n, now
}

// toldAt is an answer by a clock that shows now. One that does not say what its own shows stays as it is.
func toldAt[T interface {
	Shown() time.Time
	Moved(ahead time.Duration) T
}](answer inspect.Answer[T], now time.Time) inspect.Answer[T] {
	if answer.Said == nil || (*answer.Said).Shown().IsZero() {
		return answer
	}
	moved := (*answer.Said).Moved(now.Sub((*answer.Said).Shown()))
	answer.Said = &moved
	return answer
}

// compares reports whether what the processes of a node tell can be set beside the creations and deletions
// of objects: it is known what the apiserver's clock shows.
func (t Telemetry) compares() bool { return t.APIServer.Said != nil && !t.APIServer.Said.Now.IsZero() }

// sources are the witnesses and how old their words are.
func (t Telemetry) sources(now time.Time) []Source {
	sources := []Source{{Name: api}}
	add := func(name string, asked bool, at time.Time, err string) {
		if asked {
			sources = append(sources, Source{Name: name, AgeSeconds: max(now.Sub(at), 0).Seconds(), Err: err})
		}
	}
	add("kubelet", t.Kubelet.Asked(), t.Kubelet.At, t.Kubelet.Err)
	add("runtime", t.Runtime.Asked(), t.Runtime.At, t.Runtime.Err)
	add("controllers", t.Controllers.Asked(), t.Controllers.At, t.Controllers.Err)
	add("apiserver", t.APIServer.Asked(), t.APIServer.At, t.APIServer.Err)
	add("bus", t.Bus.Said != nil, t.Bus.At, "") // a network of somebody else's tells nothing
	return sources
}

// runs reports whether a controller runs; unknown when nobody could be asked.
func (t Telemetry) runs(controller string) (runs, known bool) {
	switch {
	case t.Controllers.Said != nil:
		return slices.Contains(t.Controllers.Said.Running, controller), true
	case t.Controllers.Silent():
		return false, true
	}
	return false, false
}

// marked is when the deletion of a pod was asked for.
func (p Pod) marked() time.Time {
	grace := time.Duration(0)
	if g := p.Pod.DeletionGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	return p.Pod.DeletionTimestamp.Add(-grace)
}

// grace is the deletionGracePeriodSeconds.
func (p Pod) grace() time.Duration {
	if g := p.Pod.DeletionGracePeriodSeconds; g != nil {
		return time.Duration(*g) * time.Second
	}
	return 0
}

// work is what the kubelet says of the pod; nil when it does not know it.
func (p Pod) work() *inspect.Work {
	if p.Kubelet.Said == nil {
		return nil
	}
	for i := range p.Kubelet.Said.Pods {
		if w := &p.Kubelet.Said.Pods[i]; w.UID == string(p.Pod.UID) {
			return w
		}
	}
	return nil
}

// containers are those that the runtime has of the pod.
func (p Pod) containers() (all []inspect.Container, known bool) {
	if p.Runtime.Said == nil {
		return nil, false
	}
	for _, c := range p.Runtime.Said.Containers {
		if c.UID == string(p.Pod.UID) {
			all = append(all, c)
		}
	}
	return all, true
}

// alive are the containers of the pod that run.
func (p Pod) alive() []inspect.Container {
	all, _ := p.containers()
	var alive []inspect.Container
	for _, c := range all {
		if c.Alive {
			alive = append(alive, c)
		}
	}
	return alive
}

// event is the newest event with one of the reasons; nil for none.
func (p Pod) event(reasons ...string) *corev1.Event {
	var newest *corev1.Event
	for i := range p.Events {
		e := &p.Events[i]
		for _, reason := range reasons {
			if e.Reason == reason && (newest == nil || newest.LastTimestamp.Before(&e.LastTimestamp)) {
				newest = e
			}
		}
	}
	return newest
}
