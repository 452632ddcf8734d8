package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// Pods creates and deletes pods for an owner, and writes events about the owner (RealPodControl).
type Pods struct {
	Resource[*corev1.Pod]
	Events Recorder
}

// The reasons of a pod's coming and going.
const (
	ReasonFailedCreate     = "FailedCreate"
	ReasonSuccessfulCreate = "SuccessfulCreate"
	ReasonFailedDelete     = "FailedDelete"
	ReasonSuccessfulDelete = "SuccessfulDelete"
)

// CreateFor creates a pod for its owner.
func (p Pods) CreateFor(ctx context.Context, owner kinds.Object, pod *corev1.Pod) (*corev1.Pod, error) {
	made, err := p.Create(ctx, pod)
	switch {
	case err == nil:
		p.Events.Event(owner, corev1.EventTypeNormal, ReasonSuccessfulCreate, "Created pod: "+made.Name)
	case !IsNamespaceTerminating(err):
		p.Events.Event(owner, corev1.EventTypeWarning, ReasonFailedCreate, fmt.Sprintf("Error creating: %v", err))
	}
	return made, err
}

// DeleteFor deletes a pod of its owner. If the pod is gone, DeleteFor returns an error.
func (p Pods) DeleteFor(ctx context.Context, owner kinds.Object, pod *corev1.Pod) error {
	err := p.Delete(ctx, pod, metav1.DeleteOptions{})
	switch {
	case err == nil:
		p.Events.Event(owner, corev1.EventTypeNormal, ReasonSuccessfulDelete, "Deleted pod: "+pod.Name)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return apierrors.NewNotFound(p.Kind().GroupResource(), pod.Name)
	default:
		p.Events.Event(owner, corev1.EventTypeWarning, ReasonFailedDelete, fmt.Sprintf("Error deleting: %v", err))
	}
	return err
}

// IsNamespaceTerminating reports whether err says that nothing can be created because the namespace
// is being deleted.
func IsNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// SlowStart calls fn for 0 to n-1: first once, then for twice as many in parallel each time all
// succeed. It stops after a batch with a failure, so that a request that is refused is not sent a
// thousand times. It returns the number of successes (slowStartBatch).
func SlowStart(n int, fn func(i int) error) (int, error) {
	done, good := 0, 0
	for size := min(1, n); size > 0; size = min(2*size, n-done) {
		err := Parallel(size, func(i int) error { return fn(done + i) }, func() { good++ })
		if err != nil {
			return good, err
		}
		done += size
	}
	return good, nil
}

// Parallel calls fn for 0 to n-1 in parallel, and well after each success, one at a time. It
// returns the first error.
func Parallel(n int, fn func(i int) error, well func()) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for i := range n {
		all.Go(func() {
			err := fn(i)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				well()
			case failed == nil:
				failed = err
			}
		})
	}
	all.Wait()
	return failed
}

// IsGone reports whether err says that an object is gone or was replaced.
func IsGone(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && (apierrors.IsNotFound(err) || apierrors.IsConflict(err))
}
