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
	for _, budget := range objectsOf[*policyv1.PodDisruptionBudget](snapshot, "poddisruptionbudgets.policy") {
		var there, healthy int32
		for _, pod := range objectsOf[*corev1.Pod](snapshot, "pods") {
			if pod.Namespace != budget.Namespace || pod.Labels[labelApp] != guardedBy(budget.Name) {
				continue
			}
			if there++; workload.Ready(pod) {
				healthy++
			}
		}
		least := there - 1
		if budget.Spec.MinAvailable != nil {
			least = budget.Spec.MinAvailable.IntVal
		}
		if status := budget.Status; status.CurrentHealthy != healthy || status.ExpectedPods != there ||
			status.DisruptionsAllowed != max(healthy-max(least, 0), 0) || len(status.DisruptedPods) > 0 {
			wrong = append(wrong, fmt.Errorf("%w: budget %s has %d pods, of which %d are ready, and counts %d and %d, allows %d and waits for %v",
				ErrReplicas, budget.Name, there, healthy, status.ExpectedPods, status.CurrentHealthy, status.DisruptionsAllowed, status.DisruptedPods))
		}
	}
	return wrong
}

// rightDaemons wants one pod of a DaemonSet, which is ready, on each node that is to have
// one, and none anywhere else.
func rightDaemons(snapshot *store.Snapshot) (wrong []error) {
	pods, nodes := objectsOf[*corev1.Pod](snapshot, "pods"), objectsOf[*corev1.Node](snapshot, "nodes")
	for _, set := range objectsOf[*appsv1.DaemonSet](snapshot, "daemonsets.apps") {
		var wanted, there []string
		for _, node := range nodes {
			if should, _ := daemonset.Wanted(set, node); should {
				wanted = append(wanted, node.Name)
			}
		}
		for _, pod := range pods {
			if metav1.IsControlledBy(pod, set) && workload.Ready(pod) {
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
