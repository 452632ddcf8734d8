package podworker

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// startError says why a container could not be started: the reason for which it waits, and the
// runtime's error.
type startError struct {
	reason, container string
	err               error
}

// Error returns the text of upstream's sync results.
func (e *startError) Error() string {
	return fmt.Sprintf("failed to \"StartContainer\" for %q with %s: %q", e.container, e.reason, messageOf(e.err))
}

func (e *startError) Unwrap() error { return e.err }

// messageOf returns an error's text for users: the bare message if it is a runtime's refusal.
func messageOf(err error) string {
	if refused, is := errors.AsType[*proto.RuntimeError](err); is && refused.Error() == err.Error() {
		return refused.Desc
	}
	return err.Error()
}

// recordStart remembers the result of the last attempt to start a container (upstream's
// ReasonCache). A success clears the reason.
func (w *worker) recordStart(container string, err error) {
	refused, is := errors.AsType[*startError](err)
	switch {
	case is:
		w.setWaiting(container, &corev1.ContainerStateWaiting{Reason: refused.reason, Message: messageOf(refused.err)})
	case err == nil:
		w.setWaiting(container, nil)
	}
}

// recordBackoffs remembers which containers wait in back-off after a crash, and sends events.
func (w *worker) recordBackoffs(pod *corev1.Pod, held map[string]corev1.ContainerStateWaiting) {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		w.cfg.Events.ContainerEvent(pod, name, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", name, pod.Name, pod.Namespace, pod.UID))
		w.setWaiting(name, new(held[name]))
	}
}

// setWaiting replaces the reason why a container waits; nil for none. Other goroutines read the old
// map, so the map is replaced by a changed copy.
func (w *worker) setWaiting(container string, reason *corev1.ContainerStateWaiting) {
	next := maps.Clone(w.waiting)
	if reason == nil {
		delete(next, container)
	} else {
		if next == nil {
			next = map[string]corev1.ContainerStateWaiting{}
		}
		next[container] = *reason
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = next
}
