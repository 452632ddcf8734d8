package faults

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The phases of an object that stands for something on the board.
const (
	// Active says that it is on the board.
	Active = "Active"
	// Ended says that it was, and is over or was ended by somebody.
	Ended = "Ended"
	// Refused says that the board did not take it, and the message why.
	Refused = "Refused"
)

// Object is a Fault or a Partition, as far as it matters here.
type Object struct {
	Name       string
	UID        types.UID
	Generation int64
	// Leaving says that it is being deleted.
	Leaving bool
	// Phase is what its status says about the generation Observed.
	Phase    string
	Observed int64
	// Unsaid says that Phase and Observed are what has become of it, and its status does not
	// tell yet: what was put on the board may be just what keeps the status from being written.
	Unsaid bool
}

// known is the object with what has become of its generation, which its status may not tell
// yet; a generation of 0 is none.
func (o Object) known(generation int64, phase string) Object {
	if generation == o.Generation && o.Observed != generation {
		o.Observed, o.Phase, o.Unsaid = generation, phase, true
	}
	return o
}

// Entry is a fault or a cut on the board.
type Entry struct {
	Name string
	// Owner is the UID of the object that it stands for; empty for somebody else's.
	Owner types.UID
	// Since and Until are its time; a zero Until is no end.
	Since, Until time.Time
}

// Plan is what to do, in this order.
type Plan struct {
	// Remove are the names of entries whose objects have gone.
	Remove []string
	// Place are the objects to put on the board, in the place of what stands for them.
	Place []Object
	// End are the objects whose entries are over.
	End []Object
	// Say are the objects whose status is still to be written.
	Say []Object
}

// Decide compares the objects with the board. An object is put there once for each of its
// generations: what is over by then, or was ended by somebody, does not come back.
func Decide(objects []Object, board []Entry) Plan {
	var plan Plan
	for _, entry := range board {
		if entry.Owner != "" && !slices.ContainsFunc(objects, func(o Object) bool { return o.UID == entry.Owner && !o.Leaving }) {
			plan.Remove = append(plan.Remove, entry.Name)
		}
	}
	for _, object := range objects {
		there := slices.ContainsFunc(board, func(e Entry) bool { return e.Owner == object.UID })
		switch {
		case object.Leaving:
		case object.Observed != object.Generation:
			plan.Place = append(plan.Place, object)
		case object.Phase == Active && !there:
			plan.End = append(plan.End, object)
		case object.Unsaid:
			plan.Say = append(plan.Say, object)
		}
	}
	return plan
}
