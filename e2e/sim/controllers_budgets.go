package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/controllers/disruption"
)

const (
	budgetController = "disruption-controller"
	lookBudget       = "budget"
	// lookDisrupted is the key of a pod whose disruption may not have happened.
	lookDisrupted = "disrupted"
)

func (c *controllers) newBudgets() *copyOf[*policyv1.PodDisruptionBudget] {
	return newCopy(func(_, now *policyv1.PodDisruptionBudget) {
		if now != nil {
			c.enqueue(lookBudget, nameOf(now))
		}
	})
}

// disruptedPodChanged has the budgets looked at that a pod is or was about, and the pod
// itself when its time is up.
func (c *controllers) disruptedPodChanged(old, now *corev1.Pod) {
	for _, budget := range c.budgets.all() {
		if isSelected(budget, old) || isSelected(budget, now) {
			c.enqueue(lookBudget, nameOf(budget))
		}
	}
	if now == nil {
		return
	}
	if due := disruption.StaleAt(now); !due.IsZero() {
		c.enqueueAfter(lookDisrupted, nameOf(now), min(max(due.Sub(c.clockTime()), 0), disruption.StaleTimeout))
	}
}

// isSelected reports whether a budget selects a pod, which may be nil.
func isSelected(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	return pod != nil && pod.Namespace == budget.Namespace && disruption.Selects(budget, pod)
}

func (c *controllers) syncBudget(key string, of name) {
	budget, known := c.budgets.get(of)
	if !known {
		return
	}
	decision := disruption.Decide(c.budgetView(budget), c.clockTime())
	if !decision.RecheckAt.IsZero() {
		c.enqueueAfter(lookBudget, of, min(max(decision.RecheckAt.Sub(c.clockTime()), 0), disruption.DeletionTimeout)+time.Nanosecond)
	}
	done := c.start(key)
	if !decision.Changed {
		done(decision.Err)
		return
	}
	changed := budget.DeepCopy()
	changed.Status = decision.Status
	c.write(budgetController, updateOf("poddisruptionbudgets.policy", changed, "status"), budget, func(got Outcome) {
		if err := ignoreIf(apierrors.IsNotFound, got.Err); err != nil {
			done(err)
			return
		}
		done(decision.Err)
	})
}

// budgetView returns the pods that a budget selects, and their scales.
func (c *controllers) budgetView(budget *policyv1.PodDisruptionBudget) disruption.View {
	seen := disruption.View{Budget: budget, Scales: map[types.UID]disruption.Scale{}}
	for _, pod := range c.pods.all() {
		if !isSelected(budget, pod) {
			continue
		}
		seen.Pods = append(seen.Pods, pod)
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			continue
		}
		if scale, found := c.scaleOf(pod.Namespace, owner); found {
			seen.Scales[pod.UID] = scale
		} else {
			seen.Unknown = append(seen.Unknown, pod.Name)
		}
	}
	return seen
}

// scaleOf returns the scale of a pod's controller.
func (c *controllers) scaleOf(namespace string, owner *metav1.OwnerReference) (disruption.Scale, bool) {
	of := name{namespace, owner.Name}
	if set, known := c.replicas.get(of); known && set.UID == owner.UID {
		above := metav1.GetControllerOfNoCopy(set)
		if above == nil {
			return disruption.Scale{Controller: owner.UID, Replicas: *set.Spec.Replicas}, true
		}
		its, known := c.rollouts.get(name{namespace, above.Name})
		if !known || its.UID != above.UID {
			return disruption.Scale{}, false
		}
		return disruption.Scale{Controller: above.UID, Replicas: *its.Spec.Replicas}, true
	}
	if set, known := c.stateful.get(of); known && set.UID == owner.UID {
		return disruption.Scale{Controller: owner.UID, Replicas: *set.Spec.Replicas}, true
	}
	return disruption.Scale{}, false
}

// syncDisrupted removes a disrupted pod that was not deleted.
func (c *controllers) syncDisrupted(key string, of name) {
	pod, known := c.pods.get(of)
	if !known {
		return
	}
	due := disruption.StaleAt(pod)
	if due.IsZero() {
		return
	}
	if wait := due.Sub(c.clockTime()); wait > 0 {
		c.enqueueAfter(lookDisrupted, of, min(wait, disruption.StaleTimeout))
		return
	}
	done := c.start(key)
	over := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}
	c.patchPod(budgetController, pod, "", &over, func(err error) { done(ignoreIf(apierrors.IsNotFound, err)) })
}
