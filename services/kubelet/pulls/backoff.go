package pulls

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Timing is how pulls that fail are held back: Initial, doubled to Max.
type Timing struct{ Initial, Max time.Duration }

// backoff is that of one image for one pod: so long after the pull that failed last.
type backoff struct {
	delay  time.Duration
	failed time.Time
	// why is the failure, for the message of those that are held back.
	why string
}

// left is how long after now the next pull has to wait; 0 when it need not.
func (b backoff) left(now time.Time) time.Duration { return max(b.delay-now.Sub(b.failed), 0) }

// next is the back-off after a pull that failed now. It begins anew when the image has not
// been asked for in twice the longest back-off.
func (b backoff) next(now time.Time, why string, t Timing) backoff {
	if b.delay == 0 || now.Sub(b.failed) > 2*t.Max {
		return backoff{t.Initial, now, why}
	}
	return backoff{min(2*b.delay, t.Max), now, why}
}

// pullsFirst reports whether an image has to be pulled before a container is made of it.
func pullsFirst(policy corev1.PullPolicy, present bool) bool {
	switch policy {
	case corev1.PullAlways:
		return true
	case corev1.PullNever:
		return false
	case corev1.PullIfNotPresent:
	}
	return !present
}
