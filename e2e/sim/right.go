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

// An end of a life that is not as it should be, long after all trouble.
var (
	ErrStuck    = errors.New("in the end a pod is still terminating")
	ErrReplicas = errors.New("in the end a set has not what it asks for")
	ErrRollouts = errors.New("in the end a deployment is not rolled out")
	ErrJobs     = errors.New("in the end a job is not what it should be")
	ErrCronJobs = errors.New("in the end a cronjob has not made the jobs that it should have")
	ErrOrphans  = errors.New("in the end nodes do not run what the API says")
	ErrRestless = errors.New("in the end something is still changed")
	ErrLeft     = errors.New("in the end something is there whose owner is gone")
	ErrNowhere  = errors.New("in the end something is there whose namespace is gone")
	ErrHeld     = errors.New("in the end something is still being deleted")
)

// calmFor is how long before the end nothing may change any more.
const calmFor = time.Minute

// right looks at the end of a life whose trouble has been over for long: nothing is on its
// way out, the sets have what they ask for, each node runs what the API says and nothing
// else, and nobody changes anything.
func (c *cluster) right() error {
	kept, _ := c.Kept(APIServer, diskStore).(stored)
	snapshot := store.NewMemory(kept.image, keptChanges, nil).Snapshot()
	ready, runs, wrong := podsOf(snapshot)
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
	wrong = append(append(wrong, rightSets(snapshot, c.now)...), c.rightDisks(snapshot)...)
	wrong = append(wrong, c.rightCronJobs(snapshot, kept.log)...)
	for _, node := range c.script.NodeNames() {
		if alive := len(c.kernels[node].Alive(c.now)); alive != runs[node] {
			wrong = append(wrong, fmt.Errorf("%w: %d containers run on %s, and the API has pods of %d there", ErrOrphans, alive, node, runs[node]))
		}
	}
	wrong = append(wrong, left(snapshot, c.script.resources())...)
	return errors.Join(append(wrong, restless(kept.log, c.now.Add(-calmFor))...)...)
}

// left are the objects of resources whose owners or namespaces are gone, and those that are no pods
// and are still on their way out.
func left(snapshot *store.Snapshot, resources []string) (wrong []error) {
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
				wrong = append(wrong, fmt.Errorf("%w: %s", ErrLeft, what))
			}
			if !within[obj.GetNamespace()] {
				wrong = append(wrong, fmt.Errorf("%w: %s", ErrNowhere, what))
			}
			if resource != "pods" && obj.GetDeletionTimestamp() != nil {
				wrong = append(wrong, fmt.Errorf("%w: %s, with the finalizers %v", ErrHeld, what, obj.GetFinalizers()))
			}
		}
	}
	return wrong
}

// podsOf counts the pods that are ready by the UID of their set, and the containers of
// those that run by their node.
func podsOf(snapshot *store.Snapshot) (ready map[types.UID]int32, runs map[string]int, wrong []error) {
	ready, runs = map[types.UID]int32{}, map[string]int{}
	held := heldBack(snapshot)
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
			if podstate.Sidecar(&pod.Spec.InitContainers[i]) {
				runs[pod.Spec.NodeName]++
			}
		}
		if workload.IsReady(pod) && len(pod.OwnerReferences) > 0 {
			ready[pod.OwnerReferences[0].UID]++
		}
	}
	return ready, runs, wrong
}

// asJSON is how a status is told: no addresses, and what is not set left out.
func asJSON(status any) string {
	data, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// restless are the changes that somebody still makes, beside heartbeats.
func restless(log []history.Event, since time.Time) []error {
	for i := len(log) - 1; i >= 0 && log[i].Wall.After(since); i-- {
		fact, _ := log[i].Fact.(history.Commit)
		if fact.Resource != "leases.coordination.k8s.io" && fact.Resource != "nodes" {
			return []error{fmt.Errorf("%w: %s %s is %s", ErrRestless, fact.Resource, fact.Key, fact.Op)}
		}
	}
	return nil
}
