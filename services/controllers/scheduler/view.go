package scheduler

import (
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"
)

// Resources is an amount of what pods share.
type Resources struct {
	MilliCPU int64
	// Memory in bytes.
	Memory int64
	Pods   int64
	// Others are ephemeral storage, huge pages and extended resources; nil for none.
	Others map[corev1.ResourceName]int64
}

// add changes r by other; r must own its map.
func (r *Resources) add(other Resources, sign int64) {
	r.MilliCPU += sign * other.MilliCPU
	r.Memory += sign * other.Memory
	r.Pods += sign * other.Pods
	for name, amount := range other.Others {
		if r.Others == nil {
			r.Others = map[corev1.ResourceName]int64{} //nolint:exhaustive // names are open
		}
		r.Others[name] += sign * amount
	}
}

func (r *Resources) names() []corev1.ResourceName {
	if len(r.Others) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.Others))
}

// amounts reads a list of resources; the pods are left out.
func amounts(list corev1.ResourceList) Resources {
	found := Resources{MilliCPU: list.Cpu().MilliValue(), Memory: list.Memory().Value()}
	for name, quantity := range list {
		if name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods {
			continue
		}
		if found.Others == nil {
			found.Others = map[corev1.ResourceName]int64{} //nolint:exhaustive // names are open
		}
		found.Others[name] = quantity.Value()
	}
	return found
}

// NodeView is a node and what is taken of it.
type NodeView struct {
	Name        string
	Object      *corev1.Node
	Ready       bool
	Allocatable Resources
	Used        Resources
	// Ports counts the pods that hold a host port.
	Ports map[HostPort]int
	// Pods are on the node, Anti those of them that do not want certain others around.
	Pods, Anti map[types.UID]*corev1.Pod
	// Nominated are pods for which room is made here.
	Nominated map[types.UID]*corev1.Pod
}

// HostPort is a port of the node itself.
type HostPort struct {
	Protocol corev1.Protocol
	Port     int32
}

// NewNodeView reads a node on which nothing is counted yet.
func NewNodeView(node *corev1.Node) *NodeView {
	view := &NodeView{
		Name: node.Name, Ports: map[HostPort]int{}, Pods: map[types.UID]*corev1.Pod{}, Anti: map[types.UID]*corev1.Pod{},
	}
	view.Set(node)
	return view
}

// Set takes over a newer version of the node; what is counted stays.
func (v *NodeView) Set(node *corev1.Node) {
	v.Object = node
	v.Ready = false
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			v.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	v.Allocatable = amounts(node.Status.Allocatable)
	v.Allocatable.Pods = node.Status.Allocatable.Pods().Value()
}

// Take counts the pod in; Give counts it out again.
func (v *NodeView) Take(pod *corev1.Pod) {
	v.count(pod, 1)
	v.Pods[pod.UID] = pod
	if len(antiTerms(pod)) > 0 {
		v.Anti[pod.UID] = pod
	}
}

// Give is the inverse of Take.
func (v *NodeView) Give(pod *corev1.Pod) {
	v.count(pod, -1)
	delete(v.Pods, pod.UID)
	delete(v.Anti, pod.UID)
}

func (v *NodeView) count(pod *corev1.Pod, sign int) {
	v.Used.add(Requests(pod), int64(sign))
	for _, port := range hostPorts(pod) {
		if v.Ports[port] += sign; v.Ports[port] == 0 {
			delete(v.Ports, port)
		}
	}
}

// Requests is what a pod takes of its node. A terminating pod takes it until it is
// gone or its phase is terminal (CTL-54); see Holds.
func Requests(pod *corev1.Pod) Resources {
	found := amounts(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	found.Pods = 1
	return found
}

// Holds reports whether the pod still takes part of its node (CTL-54).
func Holds(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func hostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.HostPort > 0 {
				ports = append(ports, HostPort{Protocol: port.Protocol, Port: port.HostPort})
			}
		}
	}
	return ports
}

// began is when the pod was taken up, or made.
func began(pod *corev1.Pod) metav1.Time {
	if pod.Status.StartTime != nil {
		return *pod.Status.StartTime
	}
	return pod.CreationTimestamp
}

func noLogger() logr.Logger { return logr.Discard() }
