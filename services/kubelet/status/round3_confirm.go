package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Confirmation is the final delete: grace 0, and only of the UID that this node has
// finished, so that a pod which took the name meanwhile stays untouched.
func Confirmation(pod *corev1.Pod) metav1.DeleteOptions {
	uid := pod.UID
	return metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      &metav1.Preconditions{UID: &uid},
	}
}

// confirmed takes the answer to the final delete. The status is dropped, even if a
// finalizer keeps the object (KBL-66), and even if the watch has shown what the delete
// changed before its answer came: nothing is left to be said about the pod.
func (d *Delivery) confirmed(err error) {
	d.request = None
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		d.err = fmt.Errorf("delete pod %s: %w", podstate.Key(d.taken.answer), err)
		return
	}
	if b := d.book; b.entries[d.uid] == d.entry {
		delete(b.entries, d.uid)
	}
}
