package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Confirmation returns the options of the final delete: grace 0, and only the UID that this node
// has finished. A pod that took the name meanwhile stays untouched.
func Confirmation(pod *corev1.Pod) metav1.DeleteOptions {
	uid := pod.UID
	return metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      &metav1.Preconditions{UID: &uid},
	}
}

// handleConfirmed takes the answer to the final delete. The status is dropped even if a finalizer
// keeps the object (KBL-66), and even if the watch showed the delete's change before its answer:
// nothing is left to report about the pod.
func (d *Delivery) handleConfirmed(err error) {
	d.request = None
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		d.err = fmt.Errorf("delete pod %s: %w", podstate.Key(d.snapshot.live), err)
		return
	}
	if b := d.queue; b.entries[d.uid] == d.entry {
		delete(b.entries, d.uid)
	}
}
