package pulls

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Timing is the back-off of failed pulls: Initial, doubled up to Max.
type Timing struct{ Initial, Max time.Duration }

// backoff is the back-off of one image for one pod: delay after the last failed pull.
type backoff struct {
	delay  time.Duration
	failed time.Time
	// lastErr is the failure, for the message of later pulls.
	lastErr string
}

// remaining returns how long after now the next pull must wait; 0 if it need not.
func (b backoff) remaining(now time.Time) time.Duration { return max(b.delay-now.Sub(b.failed), 0) }

// next returns the back-off after a pull that failed now. It starts anew if the last failure is
// older than twice the longest back-off.
func (b backoff) next(now time.Time, why string, t Timing) backoff {
	if b.delay == 0 || now.Sub(b.failed) > 2*t.Max {
		return backoff{t.Initial, now, why}
	}
	return backoff{min(2*b.delay, t.Max), now, why}
}

// mustPull reports whether an image must be pulled before a container is created.
func mustPull(policy corev1.PullPolicy, present bool) bool {
	switch policy {
	case corev1.PullAlways:
		return true
	case corev1.PullNever:
		return false
	case corev1.PullIfNotPresent:
	}
	return !present
}
