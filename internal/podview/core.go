package podview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// corePrinter prints pods, nodes, namespaces, events and leases.
func corePrinter(gvk schema.GroupVersionKind) (printer, bool) {
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		return podPrinter(), true
	case corev1.SchemeGroupVersion.WithKind("Node"):
		return newPrinter(
			View.nodeCells,
			nameColumn(), textColumn("Status", "The status of the node"), textColumn("Roles", "The roles of the node"), ageColumn(), textColumn("Version", corev1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"]),
			wideOnly(textColumn("Internal-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])), wideOnly(textColumn("External-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])), wideOnly(textColumn("OS-Image", corev1.NodeSystemInfo{}.SwaggerDoc()["osImage"])),
			wideOnly(textColumn("Kernel-Version", corev1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"])), wideOnly(textColumn("Container-Runtime", corev1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"])),
		), true
	case corev1.SchemeGroupVersion.WithKind("Namespace"):
		return newPrinter(func(v View, ns *corev1.Namespace) []any {
			return []any{ns.Name, string(ns.Status.Phase), v.objectAge(ns)}
		}, nameColumn(), textColumn("Status", "The status of the namespace"), ageColumn()), true
	case corev1.SchemeGroupVersion.WithKind("Event"):
		return eventPrinter(), true
	case coordinationv1.SchemeGroupVersion.WithKind("Lease"):
		return newPrinter(func(v View, lease *coordinationv1.Lease) []any {
			return []any{lease.Name, valueOr(lease.Spec.HolderIdentity, ""), v.objectAge(lease)}
		}, nameColumn(), textColumn("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), ageColumn()), true
	default:
		return printer{}, false
	}
}

func (v View) nodeCells(node *corev1.Node) []any {
	info := node.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		node.Name,
		nodeStatus(node),
		orNone(strings.Join(NodeRoles(node), ",")),
		v.objectAge(node),
		info.KubeletVersion,
		nodeAddress(node, corev1.NodeInternalIP),
		nodeAddress(node, corev1.NodeExternalIP),
		orUnknown(info.OSImage),
		kernel,
		orUnknown(info.ContainerRuntimeVersion),
	}
}

// nodeStatus is Ready, NotReady (the Ready condition is False or Unknown) or Unknown (no Ready
// condition).
func nodeStatus(node *corev1.Node) string {
	status := "Unknown"
	for _, c := range node.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			status = "Ready"
		default:
			status = "NotReady"
		}
	}
	if node.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// NodeRoles returns the roles in a node's labels, sorted.
func NodeRoles(node *corev1.Node) []string {
	roles := map[string]bool{}
	for key, label := range node.Labels {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles[role] = true
		}
		if key == "kubernetes.io/role" && label != "" {
			roles[label] = true
		}
	}
	return slices.Sorted(maps.Keys(roles))
}

func nodeAddress(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}

func eventPrinter() printer {
	return newPrinter(
		View.eventCells,
		textColumn("Last Seen", corev1.Event{}.SwaggerDoc()["lastTimestamp"]), textColumn("Type", corev1.Event{}.SwaggerDoc()["type"]), textColumn("Reason", corev1.Event{}.SwaggerDoc()["reason"]), textColumn("Object", corev1.Event{}.SwaggerDoc()["involvedObject"]),
		wideOnly(textColumn("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])), wideOnly(textColumn("Source", corev1.Event{}.SwaggerDoc()["source"])),
		textColumn("Message", corev1.Event{}.SwaggerDoc()["message"]),
		wideOnly(textColumn("First Seen", corev1.Event{}.SwaggerDoc()["firstTimestamp"])), wideOnly(numberColumn("Count", corev1.Event{}.SwaggerDoc()["count"])), wideOnly(nameColumn()),
	)
}

func (v View) eventCells(event *corev1.Event) []any {
	first, last := EventTimes(event)
	object := strings.ToLower(event.InvolvedObject.Kind)
	if event.InvolvedObject.Name != "" {
		object += "/" + event.InvolvedObject.Name
	}
	return []any{
		v.Since(last),
		event.Type,
		event.Reason,
		object,
		event.InvolvedObject.FieldPath,
		eventSource(event),
		strings.TrimSpace(event.Message),
		v.Since(first),
		int64(EventCount(event)),
		event.Name,
	}
}

// EventTimes returns when an event was first and last seen, for both event APIs.
func EventTimes(event *corev1.Event) (first, last time.Time) {
	first = event.FirstTimestamp.Time
	if first.IsZero() {
		first = event.EventTime.Time
	}
	last = event.LastTimestamp.Time
	if last.IsZero() {
		last = first
	}
	if event.Series != nil {
		last = event.Series.LastObservedTime.Time
	}
	return first, last
}

// EventCount returns how often an event was seen, at least once.
func EventCount(event *corev1.Event) int32 {
	if event.Series != nil {
		return event.Series.Count
	}
	return max(event.Count, 1)
}

func eventSource(event *corev1.Event) string {
	component, host := event.Source.Component, event.Source.Host
	if component == "" {
		component = event.ReportingController
	}
	if host == "" {
		host = event.ReportingInstance
	}
	if host == "" {
		return component
	}
	return fmt.Sprintf("%s, %s", component, host)
}

func orUnknown(value string) string {
	if value == "" {
		return unknown
	}
	return value
}

// valueOr returns what p points to, or otherwise if p is nil.
func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func selectorText(selector *metav1.LabelSelector) string {
	return metav1.FormatLabelSelector(selector)
}
