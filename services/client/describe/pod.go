package describe

import (
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podview"
)

// Pod describes a pod; events are nil when they were not asked for.
func Pod(w io.Writer, view podview.View, pod *corev1.Pod, events []*corev1.Event) error {
	return write(w, view, func(p *page) {
		p.podHead(pod)
		p.podStatus(pod)
		if len(pod.Spec.InitContainers) > 0 {
			p.containers("Init Containers", pod.Spec.InitContainers, pod.Status.InitContainerStatuses, pod)
		}
		p.containers("Containers", pod.Spec.Containers, pod.Status.ContainerStatuses, pod)
		if len(pod.Spec.EphemeralContainers) > 0 {
			var ephemeral []corev1.Container
			for _, c := range pod.Spec.EphemeralContainers {
				ephemeral = append(ephemeral, corev1.Container(c.EphemeralContainerCommon))
			}
			p.containers("Ephemeral Containers", ephemeral, pod.Status.EphemeralContainerStatuses, pod)
		}
		p.podConditions(pod)
		p.volumes(pod.Spec.Volumes)
		p.field(0, "QoS Class", qualityOf(pod))
		p.pairs("Node-Selectors", pod.Spec.NodeSelector)
		p.tolerations(pod.Spec.Tolerations)
		p.spread(pod.Spec.TopologySpreadConstraints)
		p.events(events)
	})
}

func (p *page) podHead(pod *corev1.Pod) {
	p.field(0, "Name", pod.Name)
	p.field(0, "Namespace", pod.Namespace)
	if pod.Spec.Priority != nil {
		p.field(0, "Priority", *pod.Spec.Priority)
	}
	p.optional(0, "Priority Class Name", pod.Spec.PriorityClassName)
	if pod.Spec.RuntimeClassName != nil {
		p.optional(0, "Runtime Class Name", *pod.Spec.RuntimeClassName)
	}
	p.optional(0, "Service Account", pod.Spec.ServiceAccountName)
	node := none
	if pod.Spec.NodeName != "" {
		node = pod.Spec.NodeName + "/" + pod.Status.HostIP
	}
	p.field(0, "Node", node)
	if pod.Status.StartTime != nil {
		p.field(0, "Start Time", stamp(*pod.Status.StartTime))
	}
	p.pairs("Labels", pod.Labels)
	p.annotations(pod.Annotations)
}

// podStatus shows a pod that is being deleted and has not ended as Terminating, with
// the age of its deadline (PRN-19).
func (p *page) podStatus(pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if pod.DeletionTimestamp != nil && !ended {
		p.field(0, "Status", fmt.Sprintf("Terminating (lasts %s)", p.view.Since(pod.DeletionTimestamp.Time)))
		grace := int64(0)
		if pod.DeletionGracePeriodSeconds != nil {
			grace = *pod.DeletionGracePeriodSeconds
		}
		p.field(0, "Termination Grace Period", fmt.Sprintf("%ds", grace))
	} else {
		p.field(0, "Status", pod.Status.Phase)
	}
	p.optional(0, "Reason", pod.Status.Reason)
	p.optional(0, "Message", pod.Status.Message)
	if context := pod.Spec.SecurityContext; context != nil {
		p.seccomp(0, 0, context.SeccompProfile)
	}
	p.field(0, "IP", pod.Status.PodIP)
	p.podIPs(pod)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		p.field(0, "Controlled By", owner.Kind+"/"+owner.Name)
	}
	p.optional(0, "NominatedNodeName", pod.Status.NominatedNodeName)
	if pod.Spec.Resources != nil {
		p.line(0, "Resources:")
		p.resources(1, pod.Spec.Resources)
	}
}

// seccomp writes a profile at one depth, and where it is at another.
func (p *page) seccomp(depth, pathDepth int, profile *corev1.SeccompProfile) {
	if profile == nil {
		return
	}
	p.field(depth, "SeccompProfile", profile.Type)
	if profile.Type == corev1.SeccompProfileTypeLocalhost && profile.LocalhostProfile != nil {
		p.field(pathDepth, "LocalhostProfile", *profile.LocalhostProfile)
	}
}

func (p *page) podIPs(pod *corev1.Pod) {
	if len(pod.Status.PodIPs) == 0 {
		p.field(0, "IPs", none)
		return
	}
	p.line(0, "IPs:")
	for _, ip := range pod.Status.PodIPs {
		p.field(1, "IP", ip.IP)
	}
}

func (p *page) podConditions(pod *corev1.Pod) {
	state := make(map[corev1.PodConditionType]string)
	for _, c := range slices.Backward(pod.Status.Conditions) {
		state[c.Type] = string(c.Status)
	}
	if len(pod.Spec.ReadinessGates) > 0 {
		p.line(0, "Readiness Gates:")
		p.line(1, "Type\tStatus")
		for _, gate := range pod.Spec.ReadinessGates {
			p.line(1, "%s \t%s ", gate.ConditionType, orNone(state[gate.ConditionType]))
		}
	}
	if len(pod.Status.Conditions) > 0 {
		p.line(0, "Conditions:")
		p.line(1, "Type\tStatus")
		for _, c := range pod.Status.Conditions {
			p.line(1, "%s \t%s ", c.Type, c.Status)
		}
	}
}

func (p *page) tolerations(tolerations []corev1.Toleration) {
	sorted := sortedBy(tolerations, func(t corev1.Toleration) string { return t.Key })
	var lines []string
	for _, t := range sorted {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		if t.Effect != "" {
			text += ":" + string(t.Effect)
		}
		if t.Operator == corev1.TolerationOpExists && t.Value == "" {
			if t.Key != "" || t.Effect != "" {
				text += " op=Exists"
			} else {
				text += "op=Exists"
			}
		}
		if t.TolerationSeconds != nil {
			text += fmt.Sprintf(" for %ds", *t.TolerationSeconds)
		}
		lines = append(lines, text)
	}
	p.list("Tolerations", lines)
}

func (p *page) spread(constraints []corev1.TopologySpreadConstraint) {
	if len(constraints) == 0 {
		return
	}
	var lines []string
	for _, c := range sortedBy(constraints, func(c corev1.TopologySpreadConstraint) string { return c.TopologyKey }) {
		text := fmt.Sprintf("%s:%s when max skew %d is exceeded", c.TopologyKey, c.WhenUnsatisfiable, c.MaxSkew)
		if c.LabelSelector != nil {
			text += " for selector " + metav1.FormatLabelSelector(c.LabelSelector)
		}
		lines = append(lines, text)
	}
	p.list("Topology Spread Constraints", lines)
}

// qualityOf is the class that the server has set, or the one that follows from the
// resources.
func qualityOf(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	guaranteed, asks := true, false
	for _, c := range append(append([]corev1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, limited := c.Resources.Limits[name]
			request, requested := c.Resources.Requests[name]
			asks = asks || (limited && !limit.IsZero()) || (requested && !request.IsZero())
			if !limited || limit.IsZero() || (requested && !request.Equal(limit)) {
				guaranteed = false
			}
		}
	}
	switch {
	case !asks:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// block splits text into lines for a block.
func (p *page) block(depth int, name string, texts []string) {
	if len(texts) == 0 {
		return
	}
	p.line(depth, "%s:", name)
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			p.line(depth+1, "%s", line)
		}
	}
}
