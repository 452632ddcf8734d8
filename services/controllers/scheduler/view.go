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

// Resources are amounts of CPU, memory, pods and other resources.
type Resources struct {
	MilliCPU int64
	// Memory in bytes.
	Memory int64
	Pods   int64
	// Others are ephemeral storage, huge pages and extended resources; nil for none.
	Others map[corev1.ResourceName]int64
}

// add adds other sign times; r must own its map.
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

func (r *Resources) otherNames() []corev1.ResourceName {
	if len(r.Others) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(r.Others))
}

// parseResources reads a list of resources without its pods.
func parseResources(list corev1.ResourceList) Resources {
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

// NodeView is a node and what its pods use.
type NodeView struct {
	Name        string
	Object      *corev1.Node
	Ready       bool
	Allocatable Resources
	Used        Resources
	// Ports counts the pods with each host port.
	Ports map[HostPort]int
	// Pods are the node's pods; AntiAffinityPods are those of them that have required
	// anti-affinity.
	Pods, AntiAffinityPods map[types.UID]*corev1.Pod
	// Nominated are the pods for which victims make room here.
	Nominated map[types.UID]*corev1.Pod
}

// HostPort is a port of the node.
type HostPort struct {
	Protocol corev1.Protocol
	Port     int32
}

// NewNodeView returns a node without any pods counted.
func NewNodeView(node *corev1.Node) *NodeView {
	view := &NodeView{
		Name: node.Name, Ports: map[HostPort]int{}, Pods: map[types.UID]*corev1.Pod{}, AntiAffinityPods: map[types.UID]*corev1.Pod{},
	}
	view.SetNode(node)
	return view
}

// SetNode stores a newer version of the node; the counted pods stay.
func (v *NodeView) SetNode(node *corev1.Node) {
	v.Object = node
	v.Ready = false
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			v.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	v.Allocatable = parseResources(node.Status.Allocatable)
	v.Allocatable.Pods = node.Status.Allocatable.Pods().Value()
}

// AddPod counts the pod.
func (v *NodeView) AddPod(pod *corev1.Pod) {
	v.countPod(pod, 1)
	v.Pods[pod.UID] = pod
	if len(antiTerms(pod)) > 0 {
		v.AntiAffinityPods[pod.UID] = pod
	}
}

// RemovePod is the inverse of AddPod.
func (v *NodeView) RemovePod(pod *corev1.Pod) {
	v.countPod(pod, -1)
	delete(v.Pods, pod.UID)
	delete(v.AntiAffinityPods, pod.UID)
}

func (v *NodeView) countPod(pod *corev1.Pod, sign int) {
	v.Used.add(Requests(pod), int64(sign))
	for _, port := range hostPorts(pod) {
		if v.Ports[port] += sign; v.Ports[port] == 0 {
			delete(v.Ports, port)
		}
	}
}

// Requests is what a pod uses of its node. A terminating pod uses it until the pod is gone or
// terminal (CTL-54); see HoldsResources.
func Requests(pod *corev1.Pod) Resources {
	found := parseResources(resource.PodRequests(pod, resource.PodResourcesOptions{}))
	found.Pods = 1
	return found
}

// HoldsResources reports whether the pod still uses resources of its node (CTL-54).
func HoldsResources(pod *corev1.Pod) bool {
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

// startTime is when the kubelet accepted the pod, or else when the pod was created.
func startTime(pod *corev1.Pod) metav1.Time {
	if pod.Status.StartTime != nil {
		return *pod.Status.StartTime
	}
	return pod.CreationTimestamp
}

func noLogger() logr.Logger { return logr.Discard() }
