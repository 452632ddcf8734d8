package faults

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The phases of a Fault or Partition.
const (
	// Active: the fault state has the object.
	Active = "Active"
	// Ended: the entry expired or was removed by another client.
	Ended = "Ended"
	// Refused: the fault state rejected the object; the message says why.
	Refused = "Refused"
)

// Object has the fields of a Fault or a Partition that decisions use.
type Object struct {
	Name       string
	UID        types.UID
	Generation int64
	// Deleting is whether the object has a deletionTimestamp.
	Deleting bool
	// Phase is the status's phase for the generation Observed.
	Phase    string
	Observed int64
	// Unwritten means that the status lacks Phase and Observed so far: the placed fault may itself
	// block the write.
	Unwritten bool
}

// withOutcome returns the object with the outcome of its generation, which its status may lack;
// generation 0 means none.
func (o Object) withOutcome(generation int64, phase string) Object {
	if generation == o.Generation && o.Observed != generation {
		o.Observed, o.Phase, o.Unwritten = generation, phase, true
	}
	return o
}

// Entry is a fault or a cut in the fault state.
type Entry struct {
	Name string
	// Owner is the UID of the entry's object; empty for entries of other clients.
	Owner types.UID
	// Since and Until bound the entry's time; a zero Until is no end.
	Since, Until time.Time
}

// Plan is what to do, in this order.
type Plan struct {
	// Remove are the names of entries whose objects are gone.
	Remove []string
	// Place are the objects to put into the fault state, replacing their entries.
	Place []Object
	// End are the objects whose entries are over.
	End []Object
	// WriteStatus are the objects whose status is still to be written.
	WriteStatus []Object
}

// Decide compares the objects with the fault state. Each generation of an object is placed once: an
// entry that expired or was removed does not come back.
func Decide(objects []Object, entries []Entry) Plan {
	var plan Plan
	for _, entry := range entries {
		if entry.Owner != "" && !slices.ContainsFunc(objects, func(o Object) bool { return o.UID == entry.Owner && !o.Deleting }) {
			plan.Remove = append(plan.Remove, entry.Name)
		}
	}
	for _, object := range objects {
		exists := slices.ContainsFunc(entries, func(e Entry) bool { return e.Owner == object.UID })
		switch {
		case object.Deleting:
		case object.Observed != object.Generation:
			plan.Place = append(plan.Place, object)
		case object.Phase == Active && !exists:
			plan.End = append(plan.End, object)
		case object.Unwritten:
			plan.WriteStatus = append(plan.WriteStatus, object)
		}
	}
	return plan
}
