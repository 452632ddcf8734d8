package describe

import (
	"io"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podview"
)

// NodeFacts are a node and what else is known of it.
type NodeFacts struct {
	Node *corev1.Node
	// Lease is nil when there is none; LeaseErr then says why.
	Lease    *coordinationv1.Lease
	LeaseErr error
	// Pods are those bound to the node that have not ended.
	Pods []*corev1.Pod
	// Events are nil when they were not asked for.
	Events []*corev1.Event
}

// Node describes a node.
func Node(w io.Writer, view podview.View, facts NodeFacts) error {
	node := facts.Node
	return write(w, view, func(p *page) {
		p.field(0, "Name", node.Name)
		p.field(0, "Roles", orNone(strings.Join(podview.NodeRoles(node), ",")))
		p.pairs("Labels", node.Labels)
		p.annotations(node.Annotations)
		p.field(0, "CreationTimestamp", stamp(node.CreationTimestamp))
		p.taints(node.Spec.Taints)
		p.field(0, "Unschedulable", node.Spec.Unschedulable)
		p.lease(facts)
		p.nodeConditions(node.Status.Conditions)
		p.line(0, "Addresses:")
		for _, address := range node.Status.Addresses {
			p.field(1, string(address.Type), address.Address)
		}
		p.quantities("Capacity", node.Status.Capacity)
		p.quantities("Allocatable", node.Status.Allocatable)
		p.systemInfo(node)
		p.nodePods(node, facts.Pods)
		p.events(facts.Events)
	})
}

func (p *page) taints(taints []corev1.Taint) {
	var lines []string
	for _, taint := range sortedBy(taints, func(t corev1.Taint) string { return string(t.Effect) + "," + t.Key }) {
		lines = append(lines, taint.ToString())
	}
	p.list("Taints", lines)
}

func (p *page) lease(facts NodeFacts) {
	if facts.Lease == nil {
		p.field(0, "Lease", "Failed to get lease: "+errorText(facts.LeaseErr))
		return
	}
	when := func(t *metav1.MicroTime) string {
		if t == nil {
			return "<unset>"
		}
		return stamp(metav1.Time{Time: t.Time})
	}
	holder := "<unset>"
	if facts.Lease.Spec.HolderIdentity != nil {
		holder = *facts.Lease.Spec.HolderIdentity
	}
	p.line(0, "Lease:")
	p.field(1, "HolderIdentity", holder)
	p.field(1, "AcquireTime", when(facts.Lease.Spec.AcquireTime))
	p.field(1, "RenewTime", when(facts.Lease.Spec.RenewTime))
}

func errorText(err error) string {
	if err == nil {
		return "there is none"
	}
	return err.Error()
}

func (p *page) nodeConditions(conditions []corev1.NodeCondition) {
	if len(conditions) == 0 {
		return
	}
	p.line(0, "Conditions:")
	p.line(1, "Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage")
	p.line(1, "----\t------\t-----------------\t------------------\t------\t-------")
	for _, c := range conditions {
		p.line(1, "%s \t%s \t%s \t%s \t%s \t%s",
			c.Type, c.Status, stamp(c.LastHeartbeatTime), stamp(c.LastTransitionTime), c.Reason, c.Message)
	}
}

func (p *page) quantities(name string, list corev1.ResourceList) {
	if len(list) == 0 {
		return
	}
	p.line(0, "%s:", name)
	for _, key := range resourceNames(list) {
		quantity := list[key]
		p.field(1, string(key), quantity.String())
	}
}

func (p *page) systemInfo(node *corev1.Node) {
	info := node.Status.NodeInfo
	p.line(0, "System Info:")
	p.field(1, "Machine ID", info.MachineID)
	p.field(1, "System UUID", info.SystemUUID)
	p.field(1, "Boot ID", info.BootID)
	p.field(1, "Kernel Version", info.KernelVersion)
	p.field(1, "OS Image", info.OSImage)
	p.field(1, "Operating System", info.OperatingSystem)
	p.field(1, "Architecture", info.Architecture)
	p.field(1, "Container Runtime Version", info.ContainerRuntimeVersion)
	p.field(1, "Kubelet Version", info.KubeletVersion)
	p.optional(0, "PodCIDR", node.Spec.PodCIDR)
	p.optional(0, "PodCIDRs", strings.Join(node.Spec.PodCIDRs, ","))
	p.optional(0, "ProviderID", node.Spec.ProviderID)
}

// nodePods writes what each pod asks of the node, and all of them together.
func (p *page) nodePods(node *corev1.Node, pods []*corev1.Pod) {
	room := node.Status.Allocatable
	if len(room) == 0 {
		room = node.Status.Capacity
	}
	p.field(0, "Non-terminated Pods", "("+itoa(len(pods))+" in total)")
	p.line(1, "Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge")
	p.line(1, "---------\t----\t\t------------\t----------\t---------------\t-------------\t---")
	requests, limits := make(corev1.ResourceList), make(corev1.ResourceList)
	for _, pod := range pods {
		request, limit := podResources(pod)
		addTo(requests, request)
		addTo(limits, limit)
		p.line(1, "%s\t%s\t\t%s\t%s\t%s\t%s\t%s", pod.Namespace, pod.Name,
			share(request, room, corev1.ResourceCPU), share(limit, room, corev1.ResourceCPU),
			share(request, room, corev1.ResourceMemory), share(limit, room, corev1.ResourceMemory),
			p.view.Since(pod.CreationTimestamp.Time))
	}
	p.line(0, "Allocated resources:")
	p.line(1, "(Total limits may be over 100 percent, i.e., overcommitted.)")
	p.line(1, "Resource\tRequests\tLimits")
	p.line(1, "--------\t--------\t------")
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		p.line(1, "%s\t%s\t%s", name, share(requests, room, name), share(limits, room, name))
	}
	var others []corev1.ResourceName
	for _, name := range resourceNames(room) {
		switch {
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			p.line(1, "%s\t%s\t%s", name, share(requests, room, name), share(limits, room, name))
		case name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage && name != corev1.ResourcePods:
			others = append(others, name)
		}
	}
	for _, name := range others {
		request, limit := requests[name], limits[name]
		p.line(1, "%s\t%s\t%s", name, request.String(), limit.String())
	}
}

// share is a quantity and what part of the room it takes.
func share(list, room corev1.ResourceList, name corev1.ResourceName) string {
	quantity, all := list[name], room[name]
	percent := int64(0)
	if total := all.MilliValue(); total != 0 {
		percent = int64(float64(quantity.MilliValue()) / float64(total) * 100)
	}
	return quantity.String() + " (" + itoa(int(percent)) + "%)"
}

// podResources is what a pod's containers ask for: all that run together, or the
// largest init container if that is more, and the pod's overhead.
func podResources(pod *corev1.Pod) (requests, limits corev1.ResourceList) {
	requests, limits = make(corev1.ResourceList), make(corev1.ResourceList)
	sidecarRequests, sidecarLimits := make(corev1.ResourceList), make(corev1.ResourceList)
	peakRequests, peakLimits := make(corev1.ResourceList), make(corev1.ResourceList)
	for _, c := range pod.Spec.Containers {
		addTo(requests, c.Resources.Requests)
		addTo(limits, c.Resources.Limits)
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			addTo(sidecarRequests, c.Resources.Requests)
			addTo(sidecarLimits, c.Resources.Limits)
			raiseTo(peakRequests, sidecarRequests)
			raiseTo(peakLimits, sidecarLimits)
			continue
		}
		raiseTo(peakRequests, sum(sidecarRequests, c.Resources.Requests))
		raiseTo(peakLimits, sum(sidecarLimits, c.Resources.Limits))
	}
	addTo(requests, sidecarRequests)
	addTo(limits, sidecarLimits)
	raiseTo(requests, peakRequests)
	raiseTo(limits, peakLimits)
	addTo(requests, pod.Spec.Overhead)
	for name, quantity := range pod.Spec.Overhead {
		if limit, ok := limits[name]; ok {
			limit.Add(quantity)
			limits[name] = limit
		}
	}
	return requests, limits
}

func sum(a, b corev1.ResourceList) corev1.ResourceList {
	total := a.DeepCopy()
	if total == nil {
		total = make(corev1.ResourceList)
	}
	addTo(total, b)
	return total
}

func addTo(total, more corev1.ResourceList) {
	for name, quantity := range more {
		all := total[name]
		all.Add(quantity)
		total[name] = all
	}
}

func raiseTo(least, other corev1.ResourceList) {
	for name, quantity := range other {
		if have, ok := least[name]; !ok || have.Cmp(quantity) < 0 {
			least[name] = quantity
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
