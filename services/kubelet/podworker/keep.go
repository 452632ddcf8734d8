package podworker

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/status"
)

// Heeds reports whether a pod's worker has to be told of what the API shows: not of a pod
// that the node has rejected (KBL-08), and of a status only that somebody else has ended a
// pod that runs (KBL-11), or has said something that its readiness gates wait for (upstream's
// HandlePodReconcile). State is the worker's, if there is one.
func Heeds(op podset.Op, state State, worked, rejected bool) bool {
	switch op.Verb {
	case podset.Remove, podset.Add:
		return true
	case podset.Update, podset.Delete:
		return !rejected
	case podset.Reconcile:
		return worked && !rejected && (state == Syncing && podstate.Terminal(op.Pod) || status.NeedsReadiness(op.Pod))
	}
	return false
}

// Keep is what housekeeping does about workers: those to forget, whose UID has left the API
// or begins anew after its end, and those to be told again that theirs has left (KBL-21).
func Keep(workers []View, pods map[types.UID]*corev1.Pod) (forget, again []types.UID) {
	for _, w := range workers {
		gone := pods[w.UID] == nil
		switch {
		case w.State == Confirming && (gone || w.Restart):
			forget = append(forget, w.UID)
		case gone:
			again = append(again, w.UID)
		}
	}
	return forget, again
}

// Strays are the pods that only the runtime has (KBL-73), of those that it holds: what
// runs, has no worker, and is not about to get one because the API shows it.
func Strays(held []podstate.Pod, worked, expected func(types.UID) bool) []podstate.Pod {
	var strays []podstate.Pod
	for _, seen := range held {
		if !seen.Idle() && !worked(seen.UID) && !expected(seen.UID) {
			strays = append(strays, seen)
		}
	}
	return strays
}

// Synthesise is a pod as far as a runtime can tell: names and images.
func Synthesise(seen podstate.Pod) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID}}
	for _, c := range seen.Containers {
		last := len(pod.Spec.Containers) - 1
		if last < 0 || pod.Spec.Containers[last].Name != c.GetName() {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.GetName(), Image: c.GetImage()})
		}
	}
	return pod
}
