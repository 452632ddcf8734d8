package registry

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// daemonSetRules returns the rules of DaemonSets.
func daemonSetRules() rules[*appsv1.DaemonSet] {
	return rules[*appsv1.DaemonSet]{
		defaults: defaultDaemonSet,
		create:   func(ds *appsv1.DaemonSet) { setTemplateGeneration(ds, 1) },
		keep: func(ds, old *appsv1.DaemonSet) {
			defaultPodSpec(&ds.Spec.Template.Spec)
			count, _ := strconv.ParseInt(old.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
			if !kinds.Equal(ds.Spec.Template, old.Spec.Template) {
				count++
			}
			setTemplateGeneration(ds, count)
		},
		validate: validateDaemonSet,
		validateUpdate: func(ds, old *appsv1.DaemonSet) field.ErrorList {
			return validation.ValidateImmutableField(ds.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))
		},
		validateStatus: validateDaemonSetStatus,
	}
}

// setTemplateGeneration sets the count of a DaemonSet's templates, in the annotation that has
// replaced the field.
func setTemplateGeneration(ds *appsv1.DaemonSet, count int64) {
	if ds.Annotations == nil {
		ds.Annotations = map[string]string{}
	}
	ds.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(count, 10)
}

// defaultDaemonSet is upstream's SetDefaults_DaemonSet.
func defaultDaemonSet(ds *appsv1.DaemonSet) {
	fill(&ds.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		fillPointer(&ds.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		fillPointer(&ds.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		fillPointer(&ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	fillPointer(&ds.Spec.RevisionHistoryLimit, 10)
}

func validateDaemonSet(ds *appsv1.DaemonSet) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &ds.Spec
	f.checkSelector(at.Child("selector"), spec.Selector)
	templateAt := at.Child("template")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		f.checkTemplateSelected(templateAt, &spec.Template, selector)
	}
	if spec.Selector != nil && isEmptySelector(spec.Selector) {
		f.invalid(at.Child("selector"), spec.Selector, "empty selector is invalid for daemonset")
	}
	f.checkTemplate(templateAt, &spec.Template)
	f.checkRestartAlways(templateAt, &spec.Template, "DaemonSet")
	checkNotNegatives(f, at, number("minReadySeconds", spec.MinReadySeconds))
	f.checkDaemonSetUpdateStrategy(at.Child("updateStrategy"), &spec.UpdateStrategy)
	checkNotNegatives(f, at, namedNumber[int32]{"revisionHistoryLimit", spec.RevisionHistoryLimit})
	return f.errs
}

func (f *findings) checkDaemonSetUpdateStrategy(at *field.Path, strategy *appsv1.DaemonSetUpdateStrategy) {
	rolling := at.Child("rollingUpdate")
	switch strategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
	case appsv1.RollingUpdateDaemonSetStrategyType:
		if strategy.RollingUpdate == nil {
			f.required(rolling, "")
			return
		}
		unavailable, surge := strategy.RollingUpdate.MaxUnavailable, strategy.RollingUpdate.MaxSurge
		f.checkIntOrPercent(rolling.Child("maxUnavailable"), *unavailable)
		f.checkAtMost100(rolling.Child("maxUnavailable"), *unavailable)
		f.checkIntOrPercent(rolling.Child("maxSurge"), *surge)
		f.checkAtMost100(rolling.Child("maxSurge"), *surge)
		switch {
		case !isZero(unavailable) && !isZero(surge):
			f.invalid(rolling.Child("maxSurge"), *surge, "may not be set when maxUnavailable is non-zero")
		case isZero(unavailable) && isZero(surge):
			f.required(rolling.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
		}
	default:
		f.add(field.NotSupported(at.Child("type"), strategy.Type, []appsv1.DaemonSetUpdateStrategyType{
			appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
		}))
	}
}

func validateDaemonSetStatus(ds, old *appsv1.DaemonSet) field.ErrorList {
	f := &findings{}
	at, status := field.NewPath("status"), &ds.Status
	checkNotNegatives(f, at,
		number("currentNumberScheduled", status.CurrentNumberScheduled), number("numberMisscheduled", status.NumberMisscheduled),
		number("desiredNumberScheduled", status.DesiredNumberScheduled), number("numberReady", status.NumberReady))
	checkNotNegatives(f, at, number("observedGeneration", status.ObservedGeneration))
	checkNotNegatives(f, at, number("updatedNumberScheduled", status.UpdatedNumberScheduled),
		number("numberAvailable", status.NumberAvailable), number("numberUnavailable", status.NumberUnavailable))
	f.checkCollisionCount(at, status.CollisionCount, old.Status.CollisionCount)
	return f.errs
}
