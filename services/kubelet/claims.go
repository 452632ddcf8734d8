package kubelet

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/fault"
)

// claims are the dynamic resources of the node's pods. The node has no devices, so that
// nothing is prepared; giving back can fail as a driver's does (STK-19).
type claims struct{ faults *fault.Table }

// Unprepare implements podworker.Claims.
func (c claims) Unprepare(ctx context.Context, pod *corev1.Pod) error {
	return c.faults.Inject(ctx, fault.ClaimUnprepare, fault.Attributes{Namespace: pod.Namespace, Pod: pod.Name})
}
