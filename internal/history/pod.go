package history

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Alive is how many containers of the pod were started and have not ended, as far as has
// been written down.
func (l Log) Alive(uid types.UID) int {
	alive := map[string]bool{}
	for _, event := range l.Events {
		switch fact := event.Fact.(type) {
		case Start:
			if fact.UID == string(uid) {
				alive[fact.Container] = true
			}
		case Exit:
			delete(alive, fact.Container)
		}
	}
	return len(alive)
}

// Signals are the events of the signals that were sent to the pod's containers.
func (l Log) Signals(uid types.UID) []Event {
	return slices.DeleteFunc(slices.Clone(l.Events), func(event Event) bool {
		signal, ok := event.Fact.(Signal)
		return !ok || signal.UID != string(uid)
	})
}
