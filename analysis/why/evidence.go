package why

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// Pod is the evidence about a pod.
type Pod struct {
	// Now is the observer's time on the cluster's clock.
	Now time.Time
	// Pod is the object; nil if the API has none.
	Pod *corev1.Pod
	// Namespace and Name identify the pod that was asked about.
	Namespace, Name string
	// Events holds the Events about the pod, in any order.
	Events []corev1.Event
	// Job is the Job whose finalizer the pod has; nil if there is none or it is gone.
	Job *batchv1.Job
	// JobErr says why the Job could not be read; empty if it could.
	JobErr string
	Node   Node
	Telemetry
}

// Node is the evidence about a node.
type Node struct {
	// Node is the object; nil if the API has none, or if the pod has no node.
	Node *corev1.Node
	// Lease is the node's lease; nil if there is none.
	Lease *coordinationv1.Lease
	// Pods holds the node's pods if the question is about the node.
	Pods []*corev1.Pod
}

// Telemetry holds what processes report of themselves. A zero Answer means that the process was not
// asked.
type Telemetry struct {
	Kubelet     inspect.Answer[inspect.Kubelet]
	Runtime     inspect.Answer[inspect.Runtime]
	Controllers inspect.Answer[inspect.Controllers]
	APIServer   inspect.Answer[inspect.APIServer]
	Bus         inspect.Answer[inspect.Bus]
}

// onAPIServerClock shifts all telemetry times to the apiserver's clock, and returns the time on it.
// Creations and deletions of objects have the times of that clock. If the apiserver does not report
// its clock, the observer's is used. Times of node processes, of the bus and of the kubelet's lease
// keep their distance to the clocks of their processes, which may be wrong.
func (t Telemetry) onAPIServerClock(n Node, observerNow time.Time) (Telemetry, Node, time.Time) {
	now := observerNow
	if t.hasAPIServerClock() {
		now = t.APIServer.Report.Now
	}
	if k := t.Kubelet.Report; k != nil && !k.Now.IsZero() && n.Lease != nil && n.Lease.Spec.RenewTime != nil {
		n.Lease = n.Lease.DeepCopy()
		n.Lease.Spec.RenewTime.Time = inspect.ShiftTime(n.Lease.Spec.RenewTime.Time, now.Sub(k.Now))
	}
	t.Kubelet, t.Runtime, t.Bus = shiftTo(t.Kubelet, now), shiftTo(t.Runtime, now), shiftTo(t.Bus, now)
	return t, n, now
}

// shiftTo shifts an answer to a clock that shows now. An answer without its own clock reading stays
// as it is.
func shiftTo[T interface {
	ReportedAt() time.Time
	Shift(offset time.Duration) T
}](answer inspect.Answer[T], now time.Time) inspect.Answer[T] {
	if answer.Report == nil || (*answer.Report).ReportedAt().IsZero() {
		return answer
	}
	moved := (*answer.Report).Shift(now.Sub((*answer.Report).ReportedAt()))
	answer.Report = &moved
	return answer
}

// hasAPIServerClock reports whether the apiserver's clock is known. Only then can telemetry be
// compared with the creations and deletions of objects.
func (t Telemetry) hasAPIServerClock() bool {
	return t.APIServer.Report != nil && !t.APIServer.Report.Now.IsZero()
}

// sources returns the processes that were asked, with the age of their answers.
func (t Telemetry) sources(now time.Time) []Source {
	sources := []Source{{Name: api}}
	add := func(name string, asked bool, at time.Time, err string) {
		if asked {
			sources = append(sources, Source{Name: name, AgeSeconds: max(now.Sub(at), 0).Seconds(), Err: err})
		}
	}
	add("kubelet", t.Kubelet.WasAsked(), t.Kubelet.At, t.Kubelet.Err)
	add("runtime", t.Runtime.WasAsked(), t.Runtime.At, t.Runtime.Err)
	add("controllers", t.Controllers.WasAsked(), t.Controllers.At, t.Controllers.Err)
	add("apiserver", t.APIServer.WasAsked(), t.APIServer.At, t.APIServer.Err)
	add("bus", t.Bus.Report != nil, t.Bus.At, "") // a foreign network has no telemetry
	return sources
}

// controllerRuns reports whether a controller runs; known is false if the controllers could not be
// asked.
func (t Telemetry) controllerRuns(controller string) (runs, known bool) {
	switch {
	case t.Controllers.Report != nil:
		return slices.Contains(t.Controllers.Report.Running, controller), true
	case t.Controllers.IsSilent():
		return false, true
	}
	return false, false
}

// markedAt returns when the deletion of the pod was requested.
func (p Pod) markedAt() time.Time {
	grace := time.Duration(0)
	if g := p.Pod.DeletionGracePeriodSeconds; g != nil {
		grace = time.Duration(*g) * time.Second
	}
	return p.Pod.DeletionTimestamp.Add(-grace)
}

// grace returns the deletionGracePeriodSeconds.
func (p Pod) grace() time.Duration {
	if g := p.Pod.DeletionGracePeriodSeconds; g != nil {
		return time.Duration(*g) * time.Second
	}
	return 0
}

// kubeletWork returns what the kubelet reports of the pod; nil if it does not know the pod.
func (p Pod) kubeletWork() *inspect.PodWorker {
	if p.Kubelet.Report == nil {
		return nil
	}
	for i := range p.Kubelet.Report.Pods {
		if w := &p.Kubelet.Report.Pods[i]; w.UID == string(p.Pod.UID) {
			return w
		}
	}
	return nil
}

// containers returns the pod's containers in the runtime.
func (p Pod) containers() (all []inspect.Container, known bool) {
	if p.Runtime.Report == nil {
		return nil, false
	}
	for _, c := range p.Runtime.Report.Containers {
		if c.UID == string(p.Pod.UID) {
			all = append(all, c)
		}
	}
	return all, true
}

// liveContainers returns the pod's running containers.
func (p Pod) liveContainers() []inspect.Container {
	all, _ := p.containers()
	var alive []inspect.Container
	for _, c := range all {
		if c.Alive {
			alive = append(alive, c)
		}
	}
	return alive
}

// newestEvent returns the newest Event with one of the reasons; nil for none.
func (p Pod) newestEvent(reasons ...string) *corev1.Event {
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
