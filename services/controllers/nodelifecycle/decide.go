// Package nodelifecycle notices nodes that have gone silent, says so in their conditions
// and in their pods', and taints them (CTL-01 to CTL-03). decide.go judges one node,
// zones.go says how fast nodes may be given up; controller.go looks every 5 s.
package nodelifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Timing is how patient the controller is.
type Timing struct {
	// Period is the time between two looks.
	Period time.Duration
	// Grace is how long a node may be silent; Startup is the same for one that has
	// never said anything.
	Grace, Startup time.Duration
}

// Default is upstream's timing (CTL-01).
func Default() Timing {
	return Timing{Period: 5 * time.Second, Grace: 50 * time.Second, Startup: time.Minute}
}

// Health is what has been heard of a node.
type Health struct {
	// Probe is when it was last heard of, by the steady clock of whoever listens.
	Probe time.Time
	// Ready is its condition Ready as last seen, nil when it had none.
	Ready *corev1.NodeCondition
	// Renewed is its lease's time as last seen.
	Renewed time.Time
}

// Finding is what one look at a node brings.
type Finding struct {
	Health Health
	// Observed is the status of Ready as the node had it, Current as it has it after
	// Conditions are written.
	Observed, Current corev1.ConditionStatus
	// Conditions are the node's whole new conditions; nil when they stay.
	Conditions []corev1.NodeCondition
}

// BecameNotReady reports whether this look is the first that finds the node silent.
func (f Finding) BecameNotReady() bool {
	return f.Observed == corev1.ConditionTrue && f.Current != corev1.ConditionTrue
}

// Instant is one moment on both faces of a clock: Steady is what silences are measured by, and
// Shown, which is wrong when the clock is, is what is written into objects.
type Instant struct{ Steady, Shown time.Time }

// Look judges a node by its status and its lease's renewal, zero when it has none; known
// is what the last look left, nil at the first (tryUpdateNodeHealth). A silence of
// exactly the grace is too long: upstream's looks come a little later than every 5 s.
func Look(known *Health, node *corev1.Node, renewed time.Time, at Instant, timing Timing) Finding {
	now := at.Steady
	ready := condition(node.Status.Conditions, corev1.NodeReady)
	health := heard(known, node, ready, now)
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
	if conditions, changed := silent(node, at.Shown); changed {
		finding.Conditions, finding.Current = conditions, corev1.ConditionUnknown
		finding.Health.Ready = condition(conditions, corev1.NodeReady)
	}
	return finding
}

// heard takes in the node's status: a new heartbeat, or a Ready that comes or goes, is a
// sign of life.
func heard(known *Health, node *corev1.Node, ready *corev1.NodeCondition, now time.Time) Health {
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

// silent is the conditions of a node that is not heard of any more.
func silent(node *corev1.Node, now time.Time) (conditions []corev1.NodeCondition, changed bool) {
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

// conditionTaints are the keys of the taints that say what a condition says.
func conditionTaints(kind corev1.NodeConditionType, status corev1.ConditionStatus) string {
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

// own are the keys of the NoSchedule taints that this controller sets.
func own(key string) bool {
	return slices.Contains([]string{
		corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable,
	}, key)
}

// Unschedulable is the node's taints with the NoSchedule ones that its conditions and its
// spec ask for, and no others of ours (doNoScheduleTaintingPass).
func Unschedulable(node *corev1.Node, now time.Time) (taints []corev1.Taint, changed bool) {
	var wanted []string
	for _, c := range node.Status.Conditions {
		if key := conditionTaints(c.Type, c.Status); key != "" {
			wanted = append(wanted, key)
		}
	}
	if node.Spec.Unschedulable {
		wanted = append(wanted, corev1.TaintNodeUnschedulable)
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule && own(taint.Key) && !slices.Contains(wanted, taint.Key) {
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

// Evicting is the node's taints with the NoExecute one that a Ready of this status asks
// for in the place of the other (SwapNodeControllerTaint); True asks for neither.
func Evicting(node *corev1.Node, status corev1.ConditionStatus, now time.Time) (taints []corev1.Taint, changed bool) {
	wanted := conditionTaints(corev1.NodeReady, status)
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

// Evicted reports whether the node has a NoExecute taint of ours already: then another
// may take its place at once, without waiting for the zone's turn.
func Evicted(node *corev1.Node) bool {
	return hasTaint(node.Spec.Taints, corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute) ||
		hasTaint(node.Spec.Taints, corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)
}

func hasTaint(taints []corev1.Taint, key string, effect corev1.TaintEffect) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect })
}

func taintOf(key string, effect corev1.TaintEffect, now time.Time) corev1.Taint {
	return corev1.Taint{Key: key, Effect: effect, TimeAdded: new(metav1.Unix(now.Unix(), 0))}
}

// NotReady is the pods' condition Ready as it is to be once their node is silent; nil for
// a pod that has none, or says so already (MarkPodsNotReady).
func NotReady(pod *corev1.Pod) *corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionFalse {
			c.Status = corev1.ConditionFalse
			return &c
		}
	}
	return nil
}
