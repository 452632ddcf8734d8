package registry

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// statefulSetRules returns the rules of StatefulSets.
func statefulSetRules() rules[*appsv1.StatefulSet] {
	return rules[*appsv1.StatefulSet]{
		defaults:       defaultStatefulSet,
		validate:       validateStatefulSet,
		validateUpdate: validateStatefulSetUpdate,
		validateStatus: validateStatefulSetStatus,
	}
}

// defaultStatefulSet is upstream's SetDefaults_StatefulSet.
func defaultStatefulSet(set *appsv1.StatefulSet) {
	spec := &set.Spec
	fill(&spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if spec.UpdateStrategy.Type == "" {
		spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		fillPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil && spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		fillPointer(&rolling.Partition, 0)
		fillPointer(&rolling.MaxUnavailable, intstr.FromInt32(1))
	}
	fillPointer(&spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fill(&spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	fillPointer(&spec.Replicas, 1)
	fillPointer(&spec.RevisionHistoryLimit, 10)
	for i := range spec.VolumeClaimTemplates {
		claim := &spec.VolumeClaimTemplates[i]
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		defaultClaim(claim)
		fill(&claim.Status.Phase, corev1.ClaimPending)
	}
}

// validateStatefulSet checks the labels of the template and not its containers, because their
// volumes are added later.
func validateStatefulSet(set *appsv1.StatefulSet) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &set.Spec
	switch policy := spec.PodManagementPolicy; policy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		f.invalid(at.Child("podManagementPolicy"), policy, "must be 'OrderedReady' or 'Parallel'")
	}
	f.checkStatefulSetUpdateStrategy(at.Child("updateStrategy"), &spec.UpdateStrategy)
	f.checkClaimRetention(at.Child("persistentVolumeClaimRetentionPolicy"), spec.PersistentVolumeClaimRetentionPolicy)
	checkNotNegatives(f, at, namedNumber[int32]{"replicas", spec.Replicas}, number("minReadySeconds", spec.MinReadySeconds))
	if spec.Ordinals != nil {
		checkNotNegatives(f, at.Child("ordinals"), number("start", spec.Ordinals.Start))
	}
	if spec.Selector == nil {
		f.required(at.Child("selector"), "")
	} else {
		f.checkSelector(at.Child("selector"), spec.Selector)
		if isEmptySelector(spec.Selector) {
			f.invalid(at.Child("selector"), spec.Selector, "empty selector is invalid for statefulset")
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		f.invalid(at.Child("selector"), spec.Selector, "")
		return f.errs
	}
	templateAt := at.Child("template")
	if !selector.Empty() {
		f.checkTemplateSelected(templateAt, &spec.Template, selector)
	}
	f.checkTemplateMeta(templateAt, &spec.Template)
	f.checkRestartAlways(templateAt, &spec.Template, "StatefulSet")
	return f.errs
}

func (f *findings) checkStatefulSetUpdateStrategy(at *field.Path, strategy *appsv1.StatefulSetUpdateStrategy) {
	switch strategy.Type {
	case "":
		f.required(at, "")
	case appsv1.OnDeleteStatefulSetStrategyType:
		if strategy.RollingUpdate != nil {
			f.invalid(at.Child("rollingUpdate"), strategy.RollingUpdate, "only allowed for updateStrategy 'RollingUpdate'")
		}
	case appsv1.RollingUpdateStatefulSetStrategyType:
		if rolling := strategy.RollingUpdate; rolling != nil {
			checkNotNegatives(f, at.Child("rollingUpdate"), namedNumber[int32]{"partition", rolling.Partition})
			if rolling.MaxUnavailable != nil {
				unavailable := at.Child("rollingUpdate", "maxUnavailable")
				f.checkIntOrPercent(unavailable, *rolling.MaxUnavailable)
				if isZero(rolling.MaxUnavailable) {
					f.invalid(unavailable, *rolling.MaxUnavailable, "cannot be 0")
				}
				f.checkAtMost100(unavailable, *rolling.MaxUnavailable)
			}
		}
	case appsv1.RecreateStatefulSetStrategyType: // behind a gate that is off
		fallthrough
	default:
		f.invalid(at, *strategy, "must be 'RollingUpdate' or 'OnDelete'")
	}
}

func (f *findings) checkClaimRetention(at *field.Path, policy *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) {
	if policy == nil {
		return
	}
	supported := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	checkOneOf(f, at.Child("whenDeleted"), policy.WhenDeleted, supported...)
	checkOneOf(f, at.Child("whenScaled"), policy.WhenScaled, supported...)
}

// validateStatefulSetUpdate allows only a few fields to change: existing claims do not follow their
// templates.
func validateStatefulSetUpdate(set, old *appsv1.StatefulSet) field.ErrorList {
	rest := set.Spec.DeepCopy()
	rest.Replicas = old.Spec.Replicas
	rest.Template = old.Spec.Template
	rest.UpdateStrategy = old.Spec.UpdateStrategy
	rest.MinReadySeconds = old.Spec.MinReadySeconds
	rest.Ordinals = old.Spec.Ordinals
	rest.RevisionHistoryLimit = old.Spec.RevisionHistoryLimit
	rest.PersistentVolumeClaimRetentionPolicy = old.Spec.PersistentVolumeClaimRetentionPolicy
	if kinds.Equal(*rest, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), "updates to statefulset spec for fields other than "+
		"'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "+
		"'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")}
}

func validateStatefulSetStatus(set, old *appsv1.StatefulSet) field.ErrorList {
	f := &findings{}
	at, status := field.NewPath("status"), &set.Status
	ready, current := number("readyReplicas", status.ReadyReplicas), number("currentReplicas", status.CurrentReplicas)
	updated, available := number("updatedReplicas", status.UpdatedReplicas), number("availableReplicas", status.AvailableReplicas)
	checkNotNegatives(f, at, number("replicas", status.Replicas), ready, current, updated, available)
	checkNotNegatives(f, at, number("observedGeneration", status.ObservedGeneration))
	f.checkAtMost(at, status.Replicas, "status.replicas", ready, current, updated, available)
	f.checkAtMost(at, status.ReadyReplicas, "status.readyReplicas", available)
	f.checkCollisionCount(at, status.CollisionCount, old.Status.CollisionCount)
	return f.errs
}
