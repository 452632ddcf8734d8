package store

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto/kinds"
)

// contentOf returns what the cluster's history records of an object besides its deletion.
func contentOf(obj kinds.Object) history.Content {
	content := history.Content{Finalizers: obj.GetFinalizers(), Generation: obj.GetGeneration(), Labels: obj.GetLabels()}
	if created := obj.GetCreationTimestamp(); !created.IsZero() {
		content.Created = created.Unix()
	}
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		content.Owner = string(owner.UID)
	}
	for _, ref := range obj.GetOwnerReferences() {
		if ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
			content.Blocks = append(content.Blocks, string(ref.UID))
		}
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		content.SpecGrace = obj.Spec.TerminationGracePeriodSeconds
		content.Ready, content.PodSpec = isReady(obj), podSpecOf(&obj.Spec)
	case *corev1.Node:
		content.Ready = slices.ContainsFunc(obj.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		for _, taint := range obj.Spec.Taints {
			if taint.Effect == corev1.TaintEffectNoExecute {
				content.NoExecuteTaints = append(content.NoExecuteTaints, taint.Key+"="+taint.Value)
			}
		}
	case *appsv1.ReplicaSet:
		content.Replicas = obj.Spec.Replicas
	case *batchv1.Job:
		counted := obj.Status.Succeeded + obj.Status.Failed
		if waiting := obj.Status.UncountedTerminatedPods; waiting != nil {
			counted += int32(len(waiting.Succeeded) + len(waiting.Failed))
		}
		content.Counted = &counted
	case *appsv1.StatefulSet:
		content.Replicas, content.InOrder = obj.Spec.Replicas, obj.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	case *policyv1.PodDisruptionBudget:
		content.Budget = budgetOf(obj)
	}
	content.Attachments = disksOf(obj)
	return content
}

// podSpecOf returns what the cluster's history records of a pod's spec.
func podSpecOf(spec *corev1.PodSpec) history.PodSpec {
	recorded := history.PodSpec{
		Tolerations: noExecuteTolerations(spec.Tolerations),
		RestartsAll: mayRestartAll(spec.InitContainers) || mayRestartAll(spec.Containers),
	}
	for i := range spec.InitContainers {
		if policy := spec.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			recorded.Sidecars = append(recorded.Sidecars, spec.InitContainers[i].Name)
		}
	}
	if len(recorded.Sidecars) == 0 {
		return recorded
	}
	for i := range spec.Containers {
		recorded.Regular = append(recorded.Regular, spec.Containers[i].Name)
	}
	return recorded
}

// mayRestartAll reports whether the end of one of the containers can restart all containers of
// their pod.
func mayRestartAll(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
			return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// budgetOf returns the fields of a disruption budget that decide about an eviction.
func budgetOf(obj *policyv1.PodDisruptionBudget) *history.Budget {
	budget := &history.Budget{
		Observed: obj.Status.ObservedGeneration, Allowed: obj.Status.DisruptionsAllowed,
		Healthy: obj.Status.CurrentHealthy, Desired: obj.Status.DesiredHealthy,
	}
	if policy := obj.Spec.UnhealthyPodEvictionPolicy; policy != nil {
		budget.AlwaysAllow = *policy == policyv1.AlwaysAllow
	}
	if selector, err := metav1.LabelSelectorAsSelector(obj.Spec.Selector); err == nil {
		budget.Selector, budget.All = selector.String(), obj.Spec.Selector != nil && selector.Empty()
	}
	return budget
}

// disksOf returns what the cluster's history records of volumes that have to be attached.
func disksOf(obj kinds.Object) (disks history.Attachments) {
	switch obj := obj.(type) {
	case *corev1.PersistentVolume:
		if obj.Spec.CSI != nil {
			disks.Device = string(storage.DeviceName(obj.Spec.CSI))
			disks.Shared = storage.IsShared(obj)
		}
	case *storagev1.VolumeAttachment:
		disks.Host, disks.Attached = obj.Spec.NodeName, obj.Status.Attached
		if volume := obj.Spec.Source.PersistentVolumeName; volume != nil {
			disks.Volume = *volume
		}
	case *corev1.Node:
		for _, device := range obj.Status.VolumesInUse {
			disks.InUse = append(disks.InUse, string(device))
		}
		disks.OutOfService = slices.ContainsFunc(obj.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	}
	return disks
}

func isReady(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// noExecuteTolerations returns the tolerations of NoExecute taints, in the form of history.Content.
func noExecuteTolerations(all []corev1.Toleration) (list []string) {
	for _, t := range all {
		if t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		text := t.Key
		if t.Operator == corev1.TolerationOpEqual || t.Operator == "" {
			text += "=" + t.Value
		}
		text += ":"
		if t.TolerationSeconds != nil {
			text += strconv.FormatInt(*t.TolerationSeconds, 10)
		}
		list = append(list, text)
	}
	return list
}
