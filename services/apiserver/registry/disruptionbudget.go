package registry

import (
	policyv1 "k8s.io/api/policy/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// disruptionBudgetRules returns the rules of PodDisruptionBudgets.
func disruptionBudgetRules() rules[*policyv1.PodDisruptionBudget] {
	return rules[*policyv1.PodDisruptionBudget]{
		validate:       validateDisruptionBudget,
		validateStatus: validateDisruptionBudgetStatus,
	}
}

func validateDisruptionBudget(budget *policyv1.PodDisruptionBudget) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &budget.Spec
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		f.invalid(at, *spec, "minAvailable and maxUnavailable cannot be both set")
	}
	for _, limit := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if limit.value != nil {
			f.checkIntOrPercent(at.Child(limit.name), *limit.value)
			f.checkAtMost100(at.Child(limit.name), *limit.value)
		}
	}
	f.checkSelector(at.Child("selector"), spec.Selector)
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil {
		checkOneOf(f, at.Child("unhealthyPodEvictionPolicy"), *policy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
	return f.errs
}

func validateDisruptionBudgetStatus(budget, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	f := &findings{}
	at, status := field.NewPath("status"), &budget.Status
	f.add(unversioned.ValidateConditions(status.Conditions, at.Child("conditions"))...)
	checkNotNegatives(f, at, number("disruptionsAllowed", status.DisruptionsAllowed), number("currentHealthy", status.CurrentHealthy),
		number("desiredHealthy", status.DesiredHealthy), number("expectedPods", status.ExpectedPods))
	return f.errs
}
