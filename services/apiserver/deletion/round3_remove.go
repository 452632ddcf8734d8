package deletion

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// Round 3: the removal. There are three ways out of the store: a DELETE with grace 0, usually the
// kubelet's (finishMark, in round1_mark.go); a DELETE of an object that is past grace or never had
// any (removeOrHold); and the update that removes the last finalizer ([RemovedByUpdate]).

// removeOrHold removes an object that is past grace or never had any, unless a finalizer holds it.
// The garbage collector's finalizers still follow the request here (API-51).
func removeOrHold(obj kinds.Object, policy Policy, opts metav1.DeleteOptions, now time.Time) Decision {
	finalizers, _ := finalizersAfter(obj, policy, opts)
	if len(finalizers) == 0 {
		return Decision{Outcome: Removed, Object: obj, Grace: opts.GracePeriodSeconds}
	}
	return Decision{Outcome: Marked, Object: markHeld(obj, finalizers, now), Grace: opts.GracePeriodSeconds}
}

// RemovedByUpdate reports whether an update of stored to updated removes the object: no finalizer
// is left, and deletion is past grace (API-53). While grace is in force the object is only updated,
// and the kubelet's DELETE removes it (API-54).
func RemovedByUpdate(updated, stored kinds.Object) bool {
	if stored.GetDeletionTimestamp() == nil || len(updated.GetFinalizers()) > 0 {
		return false
	}
	if namespace, ok := updated.(*corev1.Namespace); ok && len(namespace.Spec.Finalizers) > 0 {
		return false
	}
	grace := stored.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// decideNamespace marks a namespace at the first DELETE. It removes the namespace once the
// namespace controller has taken away the finalizers in its spec.
func decideNamespace(
	obj *corev1.Namespace, policy Policy, opts metav1.DeleteOptions, now time.Time,
) Decision {
	if obj.DeletionTimestamp == nil {
		marked := obj.DeepCopy()
		marked.DeletionTimestamp = new(metav1.Unix(now.Unix(), 0))
		marked.Status.Phase = corev1.NamespaceTerminating
		marked.Finalizers, _ = finalizersAfter(obj, policy, opts)
		return Decision{Outcome: Marked, Object: marked, Grace: opts.GracePeriodSeconds}
	}
	if len(obj.Spec.Finalizers) > 0 {
		return Decision{Outcome: Unchanged, Object: obj, Grace: opts.GracePeriodSeconds}
	}
	return removeOrHold(obj, policy, opts, now)
}
