package sim

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/daemonset"
	"github.com/podfall/podfall/services/controllers/workload"
)

// rightSets looks at how the sets have ended that only some lives have.
func rightSets(snapshot *store.Snapshot, now time.Time) []error {
	return slices.Concat(rightDaemons(snapshot), rightRollouts(snapshot), rightJobs(snapshot, now), rightBudgets(snapshot))
}

// rightBudgets wants every budget to count the pods that there are, and to allow no more
// than it can.
func rightBudgets(snapshot *store.Snapshot) (wrong []error) {
	pods := objectsOf[*corev1.Pod](snapshot, "pods")
	for _, budget := range objectsOf[*policyv1.PodDisruptionBudget](snapshot, "poddisruptionbudgets.policy") {
		guarded := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
			return pod.Namespace != budget.Namespace || pod.Labels[labelApp] != guardedBy(budget.Name)
		})
		if reason := wrongBudget(budget, guarded); reason != "" {
			wrong = append(wrong, fmt.Errorf("%w: budget %s %s", ErrReplicas, budget.Name, reason))
		}
	}
	return wrong
}

// wrongBudget is what is wrong with how a budget counts the pods that it guards, at the end of a life.
func wrongBudget(budget *policyv1.PodDisruptionBudget, guarded []*corev1.Pod) string {
	var there, healthy int32
	for _, pod := range guarded {
		if budget.Spec.MinAvailable != nil || metav1.GetControllerOf(pod) != nil { // upstream counts no others (getExpectedScale)
			there++
		}
		if workload.IsReady(pod) {
			healthy++
		}
	}
	least := there - 1
	if budget.Spec.MinAvailable != nil {
		least = budget.Spec.MinAvailable.IntVal
	}
	status := budget.Status
	if status.CurrentHealthy == healthy && status.ExpectedPods == there &&
		status.DisruptionsAllowed == allowedOf(there, healthy, least) && len(status.DisruptedPods) == 0 {
		return ""
	}
	return fmt.Sprintf("has %d pods, of which %d are ready, and counts %d and %d, allows %d and waits for %v",
		there, healthy, status.ExpectedPods, status.CurrentHealthy, status.DisruptionsAllowed, status.DisruptedPods)
}

// allowedOf is how many of the pods that are healthy may be disrupted when so many are to be there, and
// this many of them at least healthy.
func allowedOf(there, healthy, least int32) int32 {
	if there == 0 {
		return 0
	}
	return max(healthy-max(least, 0), 0)
}

// rightDaemons wants one pod of a DaemonSet, which is ready, on each node that is to have
// one, and none anywhere else.
func rightDaemons(snapshot *store.Snapshot) (wrong []error) {
	pods, nodes := objectsOf[*corev1.Pod](snapshot, "pods"), objectsOf[*corev1.Node](snapshot, "nodes")
	for _, set := range objectsOf[*appsv1.DaemonSet](snapshot, "daemonsets.apps") {
		var wanted, there []string
		for _, node := range nodes {
			if should, _ := daemonset.ShouldRun(set, node); should {
				wanted = append(wanted, node.Name)
			}
		}
		for _, pod := range pods {
			if metav1.IsControlledBy(pod, set) && workload.IsReady(pod) {
				there = append(there, pod.Spec.NodeName)
			} else if metav1.IsControlledBy(pod, set) {
				there = append(there, pod.Spec.NodeName+" (not ready)")
			}
		}
		slices.Sort(wanted)
		slices.Sort(there)
		if !slices.Equal(wanted, there) {
			wrong = append(wrong, fmt.Errorf("%w: daemonset %s has pods on %v, and wants them on %v", ErrReplicas, set.Name, there, wanted))
		}
	}
	return wrong
}

// objectsOf are all objects of a resource.
func objectsOf[T any](snapshot *store.Snapshot, resource string) (all []T) {
	for record := range snapshot.Scan(resource, "", "") {
		if obj, ok := record.Object.(T); ok {
			all = append(all, obj)
		}
	}
	return all
}
