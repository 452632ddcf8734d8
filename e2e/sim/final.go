package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/workload"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Errors of a wrong final state, long after the end of all faults.
var (
	ErrStuck         = errors.New("in the end a pod is still terminating")
	ErrReplicas      = errors.New("in the end a set has not what it asks for")
	ErrRollouts      = errors.New("in the end a deployment is not rolled out")
	ErrJobs          = errors.New("in the end a job is not what it should be")
	ErrCronJobs      = errors.New("in the end a cronjob has not made the jobs that it should have")
	ErrOrphans       = errors.New("in the end nodes do not run what the API says")
	ErrStillChanging = errors.New("in the end something is still changed")
	ErrOwnerGone     = errors.New("in the end something is there whose owner is gone")
	ErrNamespaceGone = errors.New("in the end something is there whose namespace is gone")
	ErrStillDeleting = errors.New("in the end something is still being deleted")
)

// noChangesFor is how long before the end nothing may change any more.
const noChangesFor = time.Minute

// checkFinalState checks the final state long after the end of all faults. Nothing may be
// terminating. Sets must have what they ask for. Each node must run what the API says and nothing
// else. Nothing may change any more.
func (c *cluster) checkFinalState() error {
	kept, _ := c.Persisted(APIServer, diskStore).(stored)
	snapshot := store.NewMemory(kept.image, keptChanges, nil).Snapshot()
	ready, runs, wrong := countPods(snapshot)
	for record := range snapshot.Scan("replicasets.apps", "", "") {
		if set, ok := record.Object.(*appsv1.ReplicaSet); ok && ready[set.UID] != *set.Spec.Replicas {
			wrong = append(wrong, fmt.Errorf("%w: replicaset %s has %d ready pods of %d", ErrReplicas, set.Name, ready[set.UID], *set.Spec.Replicas))
		}
	}
	for record := range snapshot.Scan("statefulsets.apps", "", "") {
		if set, ok := record.Object.(*appsv1.StatefulSet); ok && ready[set.UID] != *set.Spec.Replicas {
			wrong = append(wrong, fmt.Errorf("%w: statefulset %s has %d ready pods of %d", ErrReplicas, set.Name, ready[set.UID], *set.Spec.Replicas))
		}
	}
	wrong = append(append(wrong, checkSets(snapshot, c.now)...), c.checkDisks(snapshot)...)
	wrong = append(wrong, c.checkCronJobs(snapshot, kept.log)...)
	for _, node := range c.script.NodeNames() {
		if alive := len(c.kernels[node].Alive(c.now)); alive != runs[node] {
			wrong = append(wrong, fmt.Errorf("%w: %d containers run on %s, and the API has pods of %d there", ErrOrphans, alive, node, runs[node]))
		}
	}
	wrong = append(wrong, leftovers(snapshot, c.script.followedResources())...)
	return errors.Join(append(wrong, lateChanges(kept.log, c.now.Add(-noChangesFor))...)...)
}

// leftovers returns the objects whose owners or namespaces are gone, and those other than pods that
// are still being deleted.
func leftovers(snapshot *store.Snapshot, resources []string) (wrong []error) {
	owners, within := map[types.UID]bool{}, map[string]bool{"": true}
	for _, resource := range resources {
		for record := range snapshot.Scan(resource, "", "") {
			owners[record.Object.GetUID()] = true
			if resource == "namespaces" {
				within[record.Object.GetName()] = true
			}
		}
	}
	for _, resource := range resources {
		for record := range snapshot.Scan(resource, "", "") {
			obj := record.Object
			what := fmt.Sprintf("%s %s/%s", resource, obj.GetNamespace(), obj.GetName())
			if slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return !owners[ref.UID] }) {
				wrong = append(wrong, fmt.Errorf("%w: %s", ErrOwnerGone, what))
			}
			if !within[obj.GetNamespace()] {
				wrong = append(wrong, fmt.Errorf("%w: %s", ErrNamespaceGone, what))
			}
			if resource != "pods" && obj.GetDeletionTimestamp() != nil {
				wrong = append(wrong, fmt.Errorf("%w: %s, with the finalizers %v", ErrStillDeleting, what, obj.GetFinalizers()))
			}
		}
	}
	return wrong
}

// countPods counts ready pods by the UID of their set, and containers of running pods by their
// node.
func countPods(snapshot *store.Snapshot) (ready map[types.UID]int32, runs map[string]int, wrong []error) {
	ready, runs = map[types.UID]int32{}, map[string]int{}
	held := podsAwaitingSuccessor(snapshot)
	for record := range snapshot.Scan("pods", "", "") {
		pod, ok := record.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if pod.DeletionTimestamp != nil && !held[pod.UID] {
			wrong = append(wrong, fmt.Errorf("%w: %s", ErrStuck, pod.Name))
		}
		if !workload.IsActive(pod) {
			continue
		}
		runs[pod.Spec.NodeName] += len(pod.Spec.Containers)
		for i := range pod.Spec.InitContainers {
			if podstate.IsSidecar(&pod.Spec.InitContainers[i]) {
				runs[pod.Spec.NodeName]++
			}
		}
		if workload.IsReady(pod) && len(pod.OwnerReferences) > 0 {
			ready[pod.OwnerReferences[0].UID]++
		}
	}
	return ready, runs, wrong
}

// formatStatus formats a status as JSON, without addresses and unset fields.
func formatStatus(status any) string {
	data, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// lateChanges returns the changes after since, except heartbeats.
func lateChanges(log []history.Event, since time.Time) []error {
	for i := len(log) - 1; i >= 0 && log[i].Wall.After(since); i-- {
		fact, _ := log[i].Fact.(history.Commit)
		if fact.Resource != "leases.coordination.k8s.io" && fact.Resource != "nodes" {
			return []error{fmt.Errorf("%w: %s %s is %s", ErrStillChanging, fact.Resource, fact.Key, fact.Op)}
		}
	}
	return nil
}
