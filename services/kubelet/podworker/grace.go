package podworker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// MinimumGrace is the shortest grace with which a worker stops a pod, in seconds.
	MinimumGrace int64 = 1
	// MinimumStop is the shortest timeout given to a runtime's StopContainer, in seconds.
	MinimumStop int64 = 2
)

// EffectiveGrace returns the seconds that a pod has to end (KBL-16, upstream's
// calculateEffectiveGracePeriod). Current is the grace in force, 0 before there is one. Override is
// the grace that a kill by the node asked for. The grace never grows and is at least
// [MinimumGrace]; shortened reports whether a grace in force became shorter.
func EffectiveGrace(current int64, override *int64, pod *corev1.Pod) (grace int64, shortened bool) {
	grace = current
	taken := false
	for _, asked := range []*int64{pod.DeletionGracePeriodSeconds, override} {
		if asked == nil || (grace != 0 && *asked >= grace) {
			continue
		}
		grace, taken = *asked, true
		if *asked == 0 {
			break // nothing is shorter, and 0 must not read as "none yet"
		}
	}
	if !taken && grace == 0 && pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	grace = max(grace, MinimumGrace)
	return grace, current != 0 && grace < current
}

// Reason says why one container is stopped.
type Reason int

// Reasons to stop a container. The probes may have a grace of their own (KBL-46); ReasonPod has
// none.
const (
	ReasonPod Reason = iota
	ReasonStartupProbe
	ReasonLivenessProbe
)

// BaseGrace returns the grace of one container in seconds, before any override (KBL-33a).
func BaseGrace(pod *corev1.Pod, container *corev1.Container, reason Reason) int64 {
	if pod.DeletionGracePeriodSeconds != nil {
		return *pod.DeletionGracePeriodSeconds
	}
	if own := probeGrace(container, reason); own != nil {
		return *own
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		return *pod.Spec.TerminationGracePeriodSeconds
	}
	return MinimumStop
}

func probeGrace(container *corev1.Container, reason Reason) *int64 {
	probe := container.StartupProbe
	switch reason {
	case ReasonPod:
		return nil
	case ReasonLivenessProbe:
		probe = container.LivenessProbe
	case ReasonStartupProbe:
	}
	if probe == nil {
		return nil
	}
	return probe.TerminationGracePeriodSeconds
}

// StopTimeout returns the timeout for StopContainer, in seconds: the override if there is one, else
// base, less the whole seconds spent on hooks and waiting, and at least [MinimumStop] (KBL-33c to
// f).
func StopTimeout(base int64, override *int64, spent time.Duration) int64 {
	if override != nil {
		base = *override
	}
	return max(base-int64(spent/time.Second), MinimumStop)
}
