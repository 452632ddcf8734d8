package deletion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// Round 1: the mark. deletionTimestamp is a deadline, not the time of the request, and
// deletionGracePeriodSeconds is the grace in force. A mark changes these two, the finalizers and, the
// first time, the generation.

// markFirst handles the first DELETE of a live object.
func markFirst(obj kinds.Object, policy Policy, opts metav1.DeleteOptions, now time.Time) Decision {
	if policy.Graceful == nil {
		return removeOrHold(obj, policy, opts, now)
	}
	seconds, graceful := policy.Graceful(obj, opts.GracePeriodSeconds) // API-11
	if !graceful {
		return removeOrHold(obj, policy, opts, now)
	}
	if seconds < 0 {
		seconds = 1
	}
	marked := copyOf(obj)
	setDeadline(marked, now.Add(time.Duration(seconds)*time.Second), seconds)
	raiseGeneration(marked)
	return finishMark(marked, policy, withGrace(opts, &seconds))
}

// shorten moves the deadline nearer; grace only shrinks (API-24). A deadline that would lie in the
// past becomes now. If it does, and the request is not for grace 0, one second stays in force, so
// that the kubelet finishes the deletion (API-25).
func shorten(obj kinds.Object, policy Policy, opts metav1.DeleteOptions, now time.Time) Decision {
	asked, inForce := *opts.GracePeriodSeconds, *obj.GetDeletionGracePeriodSeconds()
	begun := obj.GetDeletionTimestamp().Add(-time.Duration(inForce) * time.Second)
	deadline, seconds := begun.Add(time.Duration(asked)*time.Second), asked
	if deadline.Before(now) && !policy.DeadlineMayPass {
		deadline, seconds = now, min(asked, 1)
	}
	marked := copyOf(obj)
	setDeadline(marked, deadline, seconds)
	return finishMark(marked, policy, opts)
}

// finishMark sets the finalizers of a marked object, and decides whether the object stays. While a
// finalizer or the requested grace holds it, the outcome is Marked. Otherwise it is
// MarkedAndRemoved, in one commit (API-40).
func finishMark(marked kinds.Object, policy Policy, opts metav1.DeleteOptions) Decision {
	if finalizers, changed := finalizersAfter(marked, policy, opts); changed {
		marked.SetFinalizers(finalizers)
	}
	decision := Decision{Outcome: MarkedAndRemoved, Object: marked, Grace: opts.GracePeriodSeconds}
	if len(marked.GetFinalizers()) > 0 || *opts.GracePeriodSeconds > 0 {
		decision.Outcome = Marked
	}
	return decision
}

// markHeld marks an object that a finalizer keeps, and that is past grace or never had any
// (API-42).
func markHeld(obj kinds.Object, finalizers []string, now time.Time) kinds.Object {
	marked := copyOf(obj)
	if marked.GetDeletionTimestamp() == nil {
		raiseGeneration(marked)
	}
	deadline := now
	if set := marked.GetDeletionTimestamp(); set != nil && !set.After(now) {
		deadline = set.Time
	}
	setDeadline(marked, deadline, 0)
	marked.SetFinalizers(finalizers)
	return marked
}

// setDeadline sets deletionTimestamp in whole seconds, as on the wire, and the grace.
func setDeadline(obj kinds.Object, deadline time.Time, seconds int64) {
	obj.SetDeletionTimestamp(new(metav1.Unix(deadline.Unix(), 0)))
	obj.SetDeletionGracePeriodSeconds(&seconds)
}

// raiseGeneration tells the object's controllers that its wanted state has changed. Kinds without
// generations keep 0 (API-12).
func raiseGeneration(obj kinds.Object) {
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
}
