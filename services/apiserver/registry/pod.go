package registry

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// podStrategy is the strategy of Pods: defaults in pod_defaults.go, validation in pod_validation.go
// and the files around it, what an update may change in pod_update.go and pod_status.go.
type podStrategy struct {
	generic

	compat proto.Compat
}

func (s podStrategy) PrepareForCreate(obj kinds.Object, now time.Time) {
	pod := as[*corev1.Pod](obj)
	defaultPod(pod)
	admitPod(pod)
	if s.compat.TracksGeneration {
		pod.Generation = 1 // whatever was asked for (API-12)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(&pod.Spec)}
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message:            "Scheduling is blocked due to non-empty scheduling gates",
			LastTransitionTime: metav1.Unix(now.Unix(), 0),
		}}
	}
}

func (s podStrategy) Validate(obj kinds.Object) field.ErrorList {
	pod := as[*corev1.Pod](obj)
	return append(validatePod(s.kind, pod), validateNewPod(pod)...)
}

func (s podStrategy) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	pod, before := as[*corev1.Pod](obj), as[*corev1.Pod](old)
	switch subresource {
	case "status":
		keepAllButStatus(pod, before)
		keepReportedStatus(&pod.Status, &before.Status)
		return
	case "ephemeralcontainers":
		keepAllButEphemeral(pod, before)
		return
	case "resize":
		keepAllButResources(pod, before)
		return
	}
	pod.Status = before.Status
	defaultPod(pod)
	fill(&pod.Spec.Priority, before.Spec.Priority)
	fill(&pod.Spec.PreemptionPolicy, before.Spec.PreemptionPolicy)
	if s.compat.TracksGeneration && !kinds.Equal(pod.Spec, before.Spec) {
		pod.Generation++
	}
}

func (s podStrategy) ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList {
	pod, before := as[*corev1.Pod](obj), as[*corev1.Pod](old)
	errs := validateKindMetaUpdate(pod, before)
	if subresource == "status" {
		return append(errs, validatePodStatusUpdate(pod, before)...)
	}
	errs = append(errs, validatePod(s.kind, pod)...)
	switch subresource {
	case "ephemeralcontainers":
		return append(errs, validateEphemeralUpdate(pod, before)...)
	case "resize":
		return append(errs, validateResize(pod, before)...)
	}
	return append(errs, validatePodUpdate(pod, before)...)
}

func (s podStrategy) Warnings(obj kinds.Object) []string { return podWarnings(as[*corev1.Pod](obj)) }

func (s podStrategy) Fields(obj kinds.Object) fields.Set {
	pod := as[*corev1.Pod](obj)
	ip := ""
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	return fields.Set{
		"metadata.name":            pod.Name,
		"metadata.namespace":       pod.Namespace,
		"spec.nodeName":            pod.Spec.NodeName,
		"spec.restartPolicy":       string(pod.Spec.RestartPolicy),
		"spec.schedulerName":       pod.Spec.SchedulerName,
		"spec.serviceAccountName":  pod.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(pod.Spec.HostNetwork),
		"status.phase":             string(pod.Status.Phase),
		"status.podIP":             ip,
		"status.nominatedNodeName": pod.Status.NominatedNodeName,
	}
}

// Graceful returns the requested grace, or the Pod's own. The grace is 0 if nothing can be running:
// the Pod is on no node, or its phase is terminal (API-11, API-13, API-14).
func (podStrategy) Graceful(obj kinds.Object, grace *int64) (int64, bool) {
	pod := as[*corev1.Pod](obj)
	var seconds int64
	switch {
	case pod.Spec.NodeName == "", pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
	case grace != nil:
		seconds = *grace
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 {
		seconds = 1
	}
	return seconds, true
}

// as returns obj as the type of the strategy.
func as[T kinds.Object](obj kinds.Object) T {
	typed, ok := obj.(T)
	if !ok {
		panic(fmt.Sprintf("%T came to the strategy of another kind", obj)) // the caller mixed up strategies
	}
	return typed
}
