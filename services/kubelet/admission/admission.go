// Package admission decides whether a node takes a pod that has been bound to it (KBL-09),
// and which pods a critical pod may preempt. All of it is pure; the kubelet's loop acts on it.
package admission

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Host is the node as an arriving pod sees it.
type Host struct {
	// Name is the node's; Labels and Taints are as the API has them.
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// Allocatable is what the node has for pods.
	Allocatable corev1.ResourceList
	// Pods are the other pods on the node, deleted ones included until their containers have
	// stopped.
	Pods []*corev1.Pod
	// Pressures are the pressures that the node reports.
	Pressures []corev1.NodeConditionType
	// ShuttingDown says that the node is being shut down.
	ShuttingDown bool
	// AllocateErr is why the node could not allocate what the pod asks for, for example devices;
	// nil if it could.
	AllocateErr error
}

// Verdict says whether the node takes a pod, and if not why, in upstream's words.
type Verdict struct {
	Admitted        bool
	Reason, Message string
	// Victims must end first to make room for a critical pod.
	Victims []*corev1.Pod
}

// Admit decides whether the host takes the pod.
func Admit(pod *corev1.Pod, host Host) Verdict {
	for _, check := range []func(*corev1.Pod, Host) Verdict{checkShutdown, checkPressure, checkAllocation, checkOS, checkResources, checkPlacement, checkTaints} {
		if v := check(pod, host); !v.Admitted || len(v.Victims) > 0 {
			return v
		}
	}
	return Verdict{Admitted: true}
}

func refuse(reason, message string) Verdict { return Verdict{Reason: reason, Message: message} }

func checkShutdown(_ *corev1.Pod, host Host) Verdict {
	if host.ShuttingDown {
		return refuse("NodeShutdown", "Pod was rejected as the node is shutting down.")
	}
	return Verdict{Admitted: true}
}

// checkPressure refuses pods while the node is under pressure. Memory pressure alone refuses only
// pods without requests.
func checkPressure(pod *corev1.Pod, host Host) Verdict {
	if len(host.Pressures) == 0 || podstate.IsCritical(pod) {
		return Verdict{Admitted: true}
	}
	if len(host.Pressures) == 1 && host.Pressures[0] == corev1.NodeMemoryPressure {
		taint := corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}
		if podstate.QOS(pod) != corev1.PodQOSBestEffort || tolerates(pod, taint) {
			return Verdict{Admitted: true}
		}
	}
	return refuse("Evicted", fmt.Sprintf("The node had condition: %v. ", host.Pressures))
}

func checkAllocation(_ *corev1.Pod, host Host) Verdict {
	if host.AllocateErr != nil {
		return refuse("UnexpectedAdmissionError", fmt.Sprintf("Allocate failed due to %v, which is unexpected", host.AllocateErr))
	}
	return Verdict{Admitted: true}
}

// checkOS refuses pods of another operating system.
func checkOS(pod *corev1.Pod, _ Host) Verdict {
	if os := pod.Spec.OS; os != nil && os.Name != corev1.Linux {
		return refuse("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
	}
	return Verdict{Admitted: true}
}

// checkPlacement checks the node selector, affinity and name of a pod, and that its host ports are
// free.
func checkPlacement(pod *corev1.Pod, host Host) Verdict {
	switch {
	case !matchesNode(pod, host):
		return refusePredicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	case pod.Spec.NodeName != "" && pod.Spec.NodeName != host.Name:
		return refusePredicate("NodeName", "node(s) didn't match the requested node name")
	case portsTaken(pod, host.Pods):
		return refusePredicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	return Verdict{Admitted: true}
}

func refusePredicate(predicate, text string) Verdict {
	return refuse(predicate, fmt.Sprintf("Predicate %s failed: %s", predicate, text))
}

// checkTaints refuses pods that would be evicted at once. Static pods always stay.
func checkTaints(pod *corev1.Pod, host Host) Verdict {
	if podstate.IsStatic(pod) {
		return Verdict{Admitted: true}
	}
	for _, taint := range host.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute && !tolerates(pod, taint) {
			return refusePredicate("TaintToleration", "node(s) had untolerated taint(s)")
		}
	}
	return Verdict{Admitted: true}
}

func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	for _, t := range pod.Spec.Tolerations {
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		if t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Key != "" && t.Value == taint.Value {
			return true
		}
	}
	return false
}

// portsTaken reports whether another pod uses a host port that this pod wants.
func portsTaken(pod *corev1.Pod, others []*corev1.Pod) bool {
	wanted := hostPorts(pod)
	for _, other := range others {
		for _, theirs := range hostPorts(other) {
			for _, ours := range wanted {
				if ours.conflicts(theirs) {
					return true
				}
			}
		}
	}
	return false
}

// hostPort is a port of the node.
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

// anyIP is every address of the node.
const anyIP = "0.0.0.0"

func (a hostPort) conflicts(b hostPort) bool {
	return a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || a.ip == anyIP || b.ip == anyIP)
}

func hostPorts(pod *corev1.Pod) []hostPort {
	containers := pod.Spec.Containers
	for _, c := range pod.Spec.InitContainers {
		if podstate.IsSidecar(&c) {
			containers = append(slices.Clip(containers), c)
		}
	}
	var ports []hostPort
	for _, c := range containers {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			port := hostPort{ip: p.HostIP, protocol: p.Protocol, port: p.HostPort}
			if port.ip == "" || strings.Trim(port.ip, ":") == "" {
				port.ip = anyIP
			}
			if port.protocol == "" {
				port.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, port)
		}
	}
	return ports
}
