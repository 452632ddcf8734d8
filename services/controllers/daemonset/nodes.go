package daemonset

import (
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/workload"
)

// ShouldRun returns whether a node should have a pod of the set, and whether an existing pod may
// stay there (NodeShouldRunDaemonPod).
func ShouldRun(set *appsv1.DaemonSet, node *corev1.Node) (should, mayStay bool) {
	pod := &corev1.Pod{Spec: *set.Spec.Template.Spec.DeepCopy()}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return false, false
	}
	addTolerations(&pod.Spec)
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !fits {
		return false, false
	}
	taints := slices.Clone(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if !hasUntolerated(taints, pod, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule) {
		return true, true
	}
	return false, !hasUntolerated(taints, pod, corev1.TaintEffectNoExecute)
}

// hasUntolerated reports whether the pod does not tolerate one of the taints with one of the
// effects.
func hasUntolerated(taints []corev1.Taint, pod *corev1.Pod, effects ...corev1.TaintEffect) bool {
	_, found := corev1helpers.FindMatchingUntoleratedTaint(logr.Discard(), taints, pod.Spec.Tolerations,
		func(taint *corev1.Taint) bool { return slices.Contains(effects, taint.Effect) }, false)
	return found
}

// addTolerations adds the tolerations of every pod of a DaemonSet
// (AddOrUpdateDaemonPodTolerations).
func addTolerations(spec *corev1.PodSpec) {
	added := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	}
	if spec.HostNetwork {
		added = append(added, corev1.Toleration{Key: corev1.TaintNodeNetworkUnavailable, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, toleration := range added {
		toleration.Operator = corev1.TolerationOpExists
		if !slices.Contains(spec.Tolerations, toleration) {
			spec.Tolerations = append(spec.Tolerations, toleration)
		}
	}
}

// NewPod returns a new pod of the set for a node. A node affinity sends it there, not a binding, so
// that the scheduler decides too.
func NewPod(set *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	pod := workload.NewPod(&set.Spec.Template, set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = hash
	if generation := set.Annotations[appsv1.DeprecatedTemplateGeneration]; generation != "" {
		pod.Labels["pod-template-generation"] = generation
	}
	addTolerations(&pod.Spec)
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	if pod.Spec.Affinity.NodeAffinity == nil {
		pod.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	byName := []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	}
	// What the template requires was asked when the node was chosen (upstream drops it too).
	required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{MatchFields: byName}}
	return pod
}

// TargetNode returns the node that a pod is bound to or meant for; empty if there is none
// (GetTargetNodeName).
func TargetNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// AffectsPlacement reports whether a change of a node can change where pods should run. old is nil
// for a new node, and now for one that is gone.
func AffectsPlacement(old, now *corev1.Node) bool {
	return old == nil || now == nil || !kinds.Equal(old.Labels, now.Labels) || !kinds.Equal(old.Spec, now.Spec)
}
