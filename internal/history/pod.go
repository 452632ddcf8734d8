package history

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// CountRunning returns how many containers of the pod have a recorded start and no recorded exit.
func (l Log) CountRunning(uid types.UID) int {
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

// SignalsTo returns the events of signals sent to the pod's containers.
func (l Log) SignalsTo(uid types.UID) []Event {
	return slices.DeleteFunc(slices.Clone(l.Events), func(event Event) bool {
		signal, ok := event.Fact.(Signal)
		return !ok || signal.UID != string(uid)
	})
}
