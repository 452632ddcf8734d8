package registry

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// deploymentStrategy is the strategy of Deployments. Their generation also counts changes of
// annotations, and a status update leaves the labels unchanged.
type deploymentStrategy struct {
	ruleStrategy[*appsv1.Deployment]
}

func newDeploymentStrategy(common generic) deploymentStrategy {
	return deploymentStrategy{ruleStrategy[*appsv1.Deployment]{common, rules[*appsv1.Deployment]{
		defaults: defaultDeployment,
		validate: validateDeployment,
		validateUpdate: func(obj, old *appsv1.Deployment) field.ErrorList {
			return validation.ValidateImmutableField(obj.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
		},
		validateStatus: validateDeploymentStatus,
	}}}
}

func (s deploymentStrategy) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	s.ruleStrategy.PrepareForUpdate(obj, old, subresource)
	switch {
	case subresource == statusSubresource:
		obj.SetLabels(old.GetLabels())
	case !kinds.Equal(obj.GetAnnotations(), old.GetAnnotations()):
		obj.SetGeneration(old.GetGeneration() + 1)
	}
}

// defaultDeployment is upstream's SetDefaults_Deployment.
func defaultDeployment(d *appsv1.Deployment) {
	fillPointer(&d.Spec.Replicas, 1)
	fill(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		fillPointer(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		fillPointer(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		fillPointer(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	fillPointer(&d.Spec.RevisionHistoryLimit, 10)
	fillPointer(&d.Spec.ProgressDeadlineSeconds, 600)
}

func validateDeployment(d *appsv1.Deployment) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &d.Spec
	checkNotNegatives(f, at, namedNumber[int32]{"replicas", spec.Replicas})
	f.checkSelectorAndTemplate(at, spec.Selector, &spec.Template)
	f.checkDeploymentStrategy(at.Child("strategy"), &spec.Strategy)
	checkNotNegatives(f, at, number("minReadySeconds", spec.MinReadySeconds),
		namedNumber[int32]{"revisionHistoryLimit", spec.RevisionHistoryLimit},
		namedNumber[int32]{"progressDeadlineSeconds", spec.ProgressDeadlineSeconds})
	if deadline := spec.ProgressDeadlineSeconds; deadline != nil && *deadline <= spec.MinReadySeconds {
		f.invalid(at.Child("progressDeadlineSeconds"), *deadline, "must be greater than minReadySeconds")
	}
	return f.errs
}

func (f *findings) checkDeploymentStrategy(at *field.Path, strategy *appsv1.DeploymentStrategy) {
	rolling := at.Child("rollingUpdate")
	switch strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if strategy.RollingUpdate != nil {
			f.forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		if strategy.RollingUpdate == nil {
			f.required(rolling, "this should be defaulted and never be nil")
			return
		}
		unavailable, surge := strategy.RollingUpdate.MaxUnavailable, strategy.RollingUpdate.MaxSurge
		f.checkIntOrPercent(rolling.Child("maxUnavailable"), *unavailable)
		f.checkIntOrPercent(rolling.Child("maxSurge"), *surge)
		if isZero(unavailable) && isZero(surge) {
			f.invalid(rolling.Child("maxUnavailable"), *unavailable, "may not be 0 when `maxSurge` is 0")
		}
		f.checkAtMost100(rolling.Child("maxUnavailable"), *unavailable)
	default:
		f.add(field.NotSupported(at.Child("type"), strategy.Type, []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
		}))
	}
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	f := &findings{}
	at, status := field.NewPath("status"), &d.Status
	checkNotNegatives(f, at, number("observedGeneration", status.ObservedGeneration))
	checkNotNegatives(f, at,
		number("replicas", status.Replicas), number("updatedReplicas", status.UpdatedReplicas),
		number("readyReplicas", status.ReadyReplicas), number("availableReplicas", status.AvailableReplicas),
		number("unavailableReplicas", status.UnavailableReplicas),
		namedNumber[int32]{"terminatingReplicas", status.TerminatingReplicas},
		namedNumber[int32]{"collisionCount", status.CollisionCount})
	f.checkAtMost(at, status.Replicas, "status.replicas", number("updatedReplicas", status.UpdatedReplicas),
		number("readyReplicas", status.ReadyReplicas), number("availableReplicas", status.AvailableReplicas))
	f.checkAtMost(at, status.ReadyReplicas, "readyReplicas", number("availableReplicas", status.AvailableReplicas))
	f.checkCollisionCount(at, status.CollisionCount, old.Status.CollisionCount)
	return f.errs
}

// checkCollisionCount refuses a smaller count of name collisions.
func (f *findings) checkCollisionCount(at *field.Path, now, was *int32) {
	var count int32
	if now != nil {
		count = *now
	}
	if was != nil && count < *was {
		f.invalid(at.Child("collisionCount"), count, "cannot be decremented")
	}
}
