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
func coreSheet(gvk schema.GroupVersionKind) (sheet, bool) {
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("Pod"):
		return podSheet(), true
	case corev1.SchemeGroupVersion.WithKind("Node"):
		return sheetOf(
			View.node,
			name(), text("Status", "The status of the node"), text("Roles", "The roles of the node"), age(), text("Version", corev1.NodeSystemInfo{}.SwaggerDoc()["kubeletVersion"]),
			wide(text("Internal-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])), wide(text("External-IP", corev1.NodeStatus{}.SwaggerDoc()["addresses"])), wide(text("OS-Image", corev1.NodeSystemInfo{}.SwaggerDoc()["osImage"])),
			wide(text("Kernel-Version", corev1.NodeSystemInfo{}.SwaggerDoc()["kernelVersion"])), wide(text("Container-Runtime", corev1.NodeSystemInfo{}.SwaggerDoc()["containerRuntimeVersion"])),
		), true
	case corev1.SchemeGroupVersion.WithKind("Namespace"):
		return sheetOf(func(v View, ns *corev1.Namespace) []any {
			return []any{ns.Name, string(ns.Status.Phase), v.age(ns)}
		}, name(), text("Status", "The status of the namespace"), age()), true
	case corev1.SchemeGroupVersion.WithKind("Event"):
		return eventSheet(), true
	case coordinationv1.SchemeGroupVersion.WithKind("Lease"):
		return sheetOf(func(v View, lease *coordinationv1.Lease) []any {
			return []any{lease.Name, value(lease.Spec.HolderIdentity, ""), v.age(lease)}
		}, name(), text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]), age()), true
	default:
		return sheet{}, false
	}
}

func (v View) node(node *corev1.Node) []any {
	info := node.Status.NodeInfo
	kernel := orUnknown(info.KernelVersion)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		node.Name,
		nodeStatus(node),
		orNone(strings.Join(NodeRoles(node), ",")),
		v.age(node),
		info.KubeletVersion,
		address(node, corev1.NodeInternalIP),
		address(node, corev1.NodeExternalIP),
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

func address(node *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range node.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}

func eventSheet() sheet {
	return sheetOf(
		View.event,
		text("Last Seen", corev1.Event{}.SwaggerDoc()["lastTimestamp"]), text("Type", corev1.Event{}.SwaggerDoc()["type"]), text("Reason", corev1.Event{}.SwaggerDoc()["reason"]), text("Object", corev1.Event{}.SwaggerDoc()["involvedObject"]),
		wide(text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])), wide(text("Source", corev1.Event{}.SwaggerDoc()["source"])),
		text("Message", corev1.Event{}.SwaggerDoc()["message"]),
		wide(text("First Seen", corev1.Event{}.SwaggerDoc()["firstTimestamp"])), wide(number("Count", corev1.Event{}.SwaggerDoc()["count"])), wide(name()),
	)
}

func (v View) event(event *corev1.Event) []any {
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
func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}

func selectorText(selector *metav1.LabelSelector) string {
	return metav1.FormatLabelSelector(selector)
}
