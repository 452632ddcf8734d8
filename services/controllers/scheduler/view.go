package scheduler

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Resources is an amount of what pods share.
type Resources struct {
	MilliCPU int64
	// Memory in bytes.
	Memory int64
	Pods   int64
}

func (r *Resources) add(other Resources, sign int64) {
	r.MilliCPU += sign * other.MilliCPU
	r.Memory += sign * other.Memory
	r.Pods += sign * other.Pods
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
}

// HostPort is a port of the node itself.
type HostPort struct {
	Protocol corev1.Protocol
	Port     int32
}

// NewNodeView reads a node on which nothing is counted yet.
func NewNodeView(node *corev1.Node) *NodeView {
	view := &NodeView{Name: node.Name, Ports: map[HostPort]int{}}
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
	v.Allocatable = Resources{
		MilliCPU: node.Status.Allocatable.Cpu().MilliValue(),
		Memory:   node.Status.Allocatable.Memory().Value(),
		Pods:     node.Status.Allocatable.Pods().Value(),
	}
}

// Take counts the pod in; Give counts it out again.
func (v *NodeView) Take(pod *corev1.Pod) { v.count(pod, 1) }

// Give is the inverse of Take.
func (v *NodeView) Give(pod *corev1.Pod) { v.count(pod, -1) }

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
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	return Resources{MilliCPU: requests.Cpu().MilliValue(), Memory: requests.Memory().Value(), Pods: 1}
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

func noLogger() logr.Logger { return logr.Discard() }
