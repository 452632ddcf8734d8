package podworker

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
)

// startError is a container that could not be started: the reason why it waits, and what
// the runtime said.
type startError struct {
	reason, container string
	err               error
}

// Error implements error in the words of upstream's sync results.
func (e *startError) Error() string {
	return fmt.Sprintf("failed to \"StartContainer\" for %q with %s: %q", e.container, e.reason, said(e.err))
}

func (e *startError) Unwrap() error { return e.err }

// said is what an error says to people: of a runtime's refusal, the message alone.
func said(err error) string {
	if refused, is := errors.AsType[*proto.RuntimeError](err); is && refused.Error() == err.Error() {
		return refused.Desc
	}
	return err.Error()
}

// note remembers what the last attempt to start a container has come to (upstream's
// ReasonCache): a success forgets the reason.
func (w *worker) note(container string, err error) {
	refused, is := errors.AsType[*startError](err)
	switch {
	case is:
		w.remember(container, &corev1.ContainerStateWaiting{Reason: refused.reason, Message: said(refused.err)})
	case err == nil:
		w.remember(container, nil)
	}
}

// hold remembers which containers are held back after a crash, and tells people.
func (w *worker) hold(pod *corev1.Pod, held map[string]corev1.ContainerStateWaiting) {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		w.cfg.Events.ContainerEvent(pod, name, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", name, pod.Name, pod.Namespace, pod.UID))
		w.remember(name, new(held[name]))
	}
}

// remember replaces the reason why a container waits; nil for none. Others read the map, so that
// it is never written.
func (w *worker) remember(container string, reason *corev1.ContainerStateWaiting) {
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
