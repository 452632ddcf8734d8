// Package nodelifecycle notices nodes that have gone silent, updates their conditions and their
// pods', and taints them (CTL-01 to CTL-03). decide.go judges one node; zones.go says how fast
// nodes may be tainted for eviction; controller.go checks every 5 s.
package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Timing is how patient the controller is.
type Timing struct {
	// Period is the time between two checks.
	Period time.Duration
	// Grace is how long a node may be silent. Startup is the same for a node that has never
	// reported.
	Grace, Startup time.Duration
}

// Default returns upstream's timing (CTL-01).
func Default() Timing {
	return Timing{Period: 5 * time.Second, Grace: 50 * time.Second, Startup: time.Minute}
}

// Health is what is known about a node's heartbeats.
type Health struct {
	// Probe is when the node was last heard of, by the controller's steady clock.
	Probe time.Time
	// Ready is the node's condition Ready as last seen; nil if it had none.
	Ready *corev1.NodeCondition
	// Renewed is the renew time of the node's lease as last seen.
	Renewed time.Time
}

// Finding is the result of one check of a node.
type Finding struct {
	Health Health
	// Observed is the status of Ready that the node had. Current is its status after Conditions are
	// written.
	Observed, Current corev1.ConditionStatus
	// Conditions are all new conditions of the node; nil if they stay.
	Conditions []corev1.NodeCondition
}

// BecameNotReady reports whether this check is the first that finds the node silent.
func (f Finding) BecameNotReady() bool {
	return f.Observed == corev1.ConditionTrue && f.Current != corev1.ConditionTrue
}

// Instant is one moment on two clocks. Silences are measured by Steady. Shown is written into
// objects, and is wrong if the clock is.
type Instant struct{ Steady, Shown time.Time }

// CheckHealth judges a node by its status and its lease's renew time, which is zero if it has no
// lease. known is the result of the last check; nil at the first (tryUpdateNodeHealth). A silence
// of the grace period itself is too long: upstream's checks come a little later than every 5 s.
func CheckHealth(known *Health, node *corev1.Node, renewed time.Time, at Instant, timing Timing) Finding {
	now := at.Steady
	ready := condition(node.Status.Conditions, corev1.NodeReady)
	health := observeHeartbeat(known, node, ready, now)
	if !renewed.IsZero() && !renewed.Equal(health.Renewed) { // upstream asks for a later time: it takes a clock that was set back for silence
		health.Probe, health.Renewed = now, renewed
	}
	grace, observed := timing.Grace, corev1.ConditionUnknown
	if ready == nil {
		grace = timing.Startup
	} else {
		observed = ready.Status
	}
	finding := Finding{Health: health, Observed: observed, Current: observed}
	if now.Sub(health.Probe) < grace {
		return finding
	}
	if conditions, changed := unknownConditions(node, at.Shown); changed {
		finding.Conditions, finding.Current = conditions, corev1.ConditionUnknown
		finding.Health.Ready = condition(conditions, corev1.NodeReady)
	}
	return finding
}

// observeHeartbeat records the node's status: a new heartbeat, or a condition Ready that appears or
// disappears, is a sign that the node is alive.
func observeHeartbeat(known *Health, node *corev1.Node, ready *corev1.NodeCondition, now time.Time) Health {
	switch {
	case known == nil && ready == nil:
		return Health{Probe: node.CreationTimestamp.Time}
	case known == nil:
		return Health{Probe: now, Ready: ready}
	}
	health := *known
	alive := (known.Ready == nil) != (ready == nil) ||
		ready != nil && !ready.LastHeartbeatTime.Equal(&known.Ready.LastHeartbeatTime)
	health.Ready = ready
	if alive {
		health.Probe = now
	}
	return health
}

// unknownConditions returns the conditions of a silent node.
func unknownConditions(node *corev1.Node, now time.Time) (conditions []corev1.NodeCondition, changed bool) {
	conditions = slices.Clone(node.Status.Conditions)
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		since := metav1.Unix(now.Unix(), 0)
		c := condition(conditions, kind)
		switch {
		case c == nil:
			conditions = append(conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message: "Kubelet never posted node status.", LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: since,
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = since
		default:
			continue
		}
		changed = true
	}
	return conditions, changed
}

func condition(conditions []corev1.NodeCondition, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// conditionTaint returns the key of the taint for a condition; empty if there is none.
func conditionTaint(kind corev1.NodeConditionType, status corev1.ConditionStatus) string {
	switch {
	case kind == corev1.NodeReady && status == corev1.ConditionFalse:
		return corev1.TaintNodeNotReady
	case kind == corev1.NodeReady && status == corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	case status != corev1.ConditionTrue:
		return ""
	case kind == corev1.NodeMemoryPressure:
		return corev1.TaintNodeMemoryPressure
	case kind == corev1.NodeDiskPressure:
		return corev1.TaintNodeDiskPressure
	case kind == corev1.NodePIDPressure:
		return corev1.TaintNodePIDPressure
	case kind == corev1.NodeNetworkUnavailable:
		return corev1.TaintNodeNetworkUnavailable
	}
	return ""
}

// isOwnTaint reports whether this controller sets a NoSchedule taint with the key.
func isOwnTaint(key string) bool {
	return slices.Contains([]string{
		corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable,
	}, key)
}

// NoScheduleTaints returns the node's taints with the NoSchedule ones that its conditions and its
// spec ask for, and no others of ours (doNoScheduleTaintingPass).
func NoScheduleTaints(node *corev1.Node, now time.Time) (taints []corev1.Taint, changed bool) {
	var wanted []string
	for _, c := range node.Status.Conditions {
		if key := conditionTaint(c.Type, c.Status); key != "" {
			wanted = append(wanted, key)
		}
	}
	if node.Spec.Unschedulable {
		wanted = append(wanted, corev1.TaintNodeUnschedulable)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule && isOwnTaint(taint.Key) && !slices.Contains(wanted, taint.Key) {
			changed = true
			continue
		}
		taints = append(taints, taint)
	}
	for _, key := range wanted {
		if !hasTaint(taints, key, corev1.TaintEffectNoSchedule) {
			taints, changed = append(taints, taintOf(key, corev1.TaintEffectNoSchedule, now)), true
		}
	}
	return taints, changed
}

// NoExecuteTaints returns the node's taints with the NoExecute one for a status of Ready in place
// of the other (SwapNodeControllerTaint). True has none.
func NoExecuteTaints(node *corev1.Node, status corev1.ConditionStatus, now time.Time) (taints []corev1.Taint, changed bool) {
	wanted := conditionTaint(corev1.NodeReady, status)
	for _, taint := range node.Spec.Taints {
		ours := taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
		if taint.Effect == corev1.TaintEffectNoExecute && ours && taint.Key != wanted {
			changed = true
			continue
		}
		taints = append(taints, taint)
	}
	if wanted != "" && !hasTaint(taints, wanted, corev1.TaintEffectNoExecute) {
		taints, changed = append(taints, taintOf(wanted, corev1.TaintEffectNoExecute, now)), true
	}
	return taints, changed
}

// HasNoExecuteTaint reports whether the node has a NoExecute taint of ours. Such a taint may be
// swapped at once, without waiting for the zone's rate.
func HasNoExecuteTaint(node *corev1.Node) bool {
	return hasTaint(node.Spec.Taints, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute) ||
		hasTaint(node.Spec.Taints, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
}

func hasTaint(taints []corev1.Taint, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func taintOf(key string, effect corev1.TaintEffect, now time.Time) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect, TimeAdded: new(metav1.Unix(now.Unix(), 0))}
}

// NotReadyCondition returns a pod's condition Ready as it should be once its node is silent. It is
// nil for a pod that has no such condition, or is not ready already (MarkPodsNotReady).
func NotReadyCondition(pod *corev1.Pod) *corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionFalse {
			c.Status = corev1.ConditionFalse
			return &c
		}
	}
	return nil
}
