package podworker

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/status"
)

// MustSend reports whether a pod's worker must be sent what the API shows. Changes of a pod that
// the node rejected are not sent (KBL-08). A status change is sent only if a running pod was ended
// by others (KBL-11), or if its readiness gates need it (upstream's HandlePodReconcile). State is
// the worker's; worked says whether there is one.
func MustSend(op podset.Op, state State, worked, rejected bool) bool {
	switch op.Verb {
	case podset.Remove, podset.Add:
		return true
	case podset.Update, podset.Delete:
		return !rejected
	case podset.Reconcile:
		return worked && !rejected && (state == Syncing && podstate.IsTerminal(op.Pod) || status.NeedsReadiness(op.Pod))
	}
	return false
}

// Housekeep returns the workers that need housekeeping, by UID. Forget has the finished workers: the
// UID has left the API, or starts anew. Resend has the unfinished workers whose UID has left the
// API: the removal is sent to them once more (KBL-21).
func Housekeep(workers []View, pods map[types.UID]*corev1.Pod) (forget, resend []types.UID) {
	for _, w := range workers {
		removed := pods[w.UID] == nil
		switch {
		case w.State == Confirming && (removed || w.Restart):
			forget = append(forget, w.UID)
		case removed:
			resend = append(resend, w.UID)
		}
	}
	return forget, resend
}

// FindOrphans returns the pods of held that only the runtime has (KBL-73): pods that run, have no
// worker, and will not get one from the API.
func FindOrphans(held []podstate.Pod, worked, expected func(types.UID) bool) []podstate.Pod {
	var strays []podstate.Pod
	for _, seen := range held {
		if !seen.IsIdle() && !worked(seen.UID) && !expected(seen.UID) {
			strays = append(strays, seen)
		}
	}
	return strays
}

// PodFromRuntime builds a pod from what a runtime knows: names and images.
func PodFromRuntime(seen podstate.Pod) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name, UID: seen.UID}}
	for _, c := range seen.Containers {
		last := len(pod.Spec.Containers) - 1
		if last < 0 || pod.Spec.Containers[last].Name != c.GetName() {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.GetName(), Image: c.GetImage()})
		}
	}
	return pod
}
