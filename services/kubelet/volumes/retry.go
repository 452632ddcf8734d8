package volumes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Attempt is the last failure to mount a volume, and when it is retried. It is a value; the zero
// value has not failed.
type Attempt struct {
	Err   error
	Delay time.Duration
	Next  time.Time
}

// AfterFailure returns the attempt that follows a failure with err at now.
func (a Attempt) AfterFailure(err error, now time.Time, t Timing) Attempt {
	next := Attempt{Err: err, Delay: t.RetryFirst}
	switch {
	case errors.Is(err, errUnattached):
		next.Delay = t.AttachPoll
	case a.Err != nil:
		next.Delay = min(2*a.Delay, t.RetryMax)
	}
	next.Next = now.Add(next.Delay)
	return next
}

// NotReadyError says that not all of a pod's volumes are mounted.
type NotReadyError struct {
	// Unmounted are the missing volumes. Unattached are those of them that wait for the
	// attach/detach controller.
	Unmounted, Unattached []string
	// After is the time until the next attempt.
	After time.Duration
	err   error
}

// Error implements error in upstream's words.
func (e *NotReadyError) Error() string {
	return fmt.Sprintf("unmounted volumes=[%s], unattached volumes=[%s], failed to process volumes=[]: %v",
		strings.Join(e.Unmounted, " "), strings.Join(e.Unattached, " "), e.err)
}

func (e *NotReadyError) Unwrap() error { return e.err }

// FindMissing returns which volumes a pod lacks, or nil. Errs are the results in the order of the
// pod's spec.
func FindMissing(pod *corev1.Pod, errs []error, attempts map[string]Attempt, now time.Time) *NotReadyError {
	var missing NotReadyError
	for i, err := range errs {
		if err == nil {
			continue
		}
		name := pod.Spec.Volumes[i].Name
		missing.Unmounted = append(missing.Unmounted, name)
		if errors.Is(err, errUnattached) {
			missing.Unattached = append(missing.Unattached, name)
		}
		after := max(attempts[name].Next.Sub(now), time.Nanosecond)
		if missing.err == nil || after < missing.After {
			missing.After = after
		}
		missing.err = err
	}
	if missing.err == nil {
		return nil
	}
	slices.Sort(missing.Unmounted)
	return &missing
}

// LeftError is the error of a pod whose volumes are still mounted when the wait for unmounting is
// over.
func LeftError(left []string, err error) error {
	return fmt.Errorf("mounted volumes=[%s]: %w", strings.Join(left, " "), err)
}
