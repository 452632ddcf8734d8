package sim

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sets that users delete.
const (
	DeleteReplicas What = "delete replicaset"
	DeleteStateful What = "delete statefulset"
)

// policies are the ways in which what depends on an object goes with it, or stays.
func policies() []metav1.DeletionPropagation {
	return []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
}

const (
	// cascadePause is between two deletes of sets.
	cascadePause = 6 * time.Minute
	// lastCascade is how long before the end, or the calm, the last of them is.
	lastCascade = 3 * time.Minute
)

// cascades are the sets that users of two lives of three delete, with what depends on them or
// without, and make again under their names. It draws from dice of its own.
func cascades(seed uint64, until time.Duration) []Deed {
	if diceOf(seed, "cascades", 0).one(3) {
		return nil
	}
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "cascade", n)
		at := 2*time.Minute + time.Duration(n)*cascadePause + d.between(0, cascadePause)
		if at > until-lastCascade {
			return all
		}
		gone := Deed{At: at, Do: DeleteReplicas, Name: replicaName, Policy: pick(d, policies()...)}
		made := Deed{Do: CreateReplicas, Name: replicaName, Count: int32(1 + d.below(3)), Grace: grace(d), App: app(d), Shape: setShape(d)}
		if d.one(2) {
			gone.Do, gone.Name, made.Do, made.Name = DeleteStateful, statefulName, CreateStateful, statefulName
		}
		made.At = at + pick(d, d.between(0, 500*time.Millisecond), d.between(0, 15*time.Second), d.between(15*time.Second, 90*time.Second))
		all = append(all, gone, made)
	}
}
