package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// confirm is the final delete: grace 0, and only of the UID that this node has finished,
// so that a pod which took the name meanwhile stays untouched. When it is answered, the
// status is dropped, even if a finalizer keeps the object (KBL-66).
func (r *Reporter) confirm(ctx context.Context, pod *corev1.Pod, e *entry, version uint64) error {
	uid := pod.UID
	_, err := r.cfg.API.Delete(ctx, r.target(pod, ""), metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      &metav1.Preconditions{UID: &uid},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete pod %s: %w", podstate.Key(pod), err)
	}
	r.cfg.Log.DebugContext(ctx, "confirmed that nothing of the pod is left", "pod", podstate.Key(pod), "uid", uid, "round", 3)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[uid] == e && e.version == version {
		delete(r.entries, uid)
	}
	return nil
}
