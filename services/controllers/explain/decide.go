// Package explain tells what nobody else does: why a pod is still there that has been
// terminating for longer than its grace and 10 s, as an Event, and that two incarnations
// of one pod are alive, as events of the history. It changes nothing. It is podfall's
// own: upstream has no such controller.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// overdue is how much longer than its grace a pod may be terminating before it is
	// explained.
	overdue = 10 * time.Second
	// again is how often a pod is looked at that is still there, and repeat how often
	// the same is said of it.
	again, repeat = 15 * time.Second, 5 * time.Minute
)

// Said is what was last said of a pod.
type Said struct {
	// Looked is when it was last looked at, At when something was last said, both by a clock that
	// nobody sets wrong: no pod is passed over for a day because of one that was a day ahead.
	Looked, At time.Time
	Names      []string
}

// Due reports whether a pod is to be looked at, when a clock shows that, and the steady one now.
func Due(pod *corev1.Pod, said Said, shown, now time.Time) bool {
	return pod.DeletionTimestamp != nil && shown.Sub(pod.DeletionTimestamp.Time) > overdue && now.Sub(said.Looked) >= again
}

// News is what is to be said of a pod whose blockers have these names; empty when they
// have been said lately, or there are none. Now is the steady clock's.
func News(names, texts []string, said Said, now time.Time) (text string, next Said) {
	next = Said{Looked: now, At: said.At, Names: said.Names}
	if len(names) == 0 || slices.Equal(names, said.Names) && now.Sub(said.At) < repeat {
		return "", next
	}
	next.At, next.Names = now, names
	return fmt.Sprintf("Still terminating: %s; see podfall why", strings.Join(texts, "; ")), next
}
