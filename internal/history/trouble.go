package history

import (
	"bytes"
	"encoding/json"
)

// TroubleKind is a kind of injected trouble.
type TroubleKind string

// The kinds of trouble.
const (
	// TroubleFault is a fault. Its arguments are a fault.Fault.
	TroubleFault TroubleKind = "fault"
	// TroubleCut is a network cut. Its arguments are a partition.Cut without its holder.
	TroubleCut TroubleKind = "cut"
	// TroubleClock is a step, a pause or a speed change of the clock. Its arguments are the new
	// clock.Segment.
	TroubleClock TroubleKind = "clock"
	// TroubleDown is a process that does not run, and TroublePaused a process that is suspended.
	TroubleDown   TroubleKind = "down"
	TroublePaused TroubleKind = "paused"
)

// Trouble is something injected: a fault, a cut, a clock change or a process outage.
type Trouble struct {
	Kind TroubleKind `json:"kind"`
	// What names the fault, the cut or the process.
	What string `json:"fault"`
	// CutOff are the members that a cut isolates.
	CutOff []string `json:"off,omitempty"`
	// Arguments are all parameters, as JSON.
	Arguments json.RawMessage `json:"args,omitempty"`
}

// Equal reports whether both are the same trouble.
func (t Trouble) Equal(other Trouble) bool {
	return t.Kind == other.Kind && t.What == other.What && bytes.Equal(t.Arguments, other.Arguments)
}

// Injected trouble. Diagnoses do not read these events.
type (
	// FaultBegin is the beginning of trouble. The trouble takes effect during this event.
	FaultBegin struct{ Trouble }

	// FaultEnd is the end of trouble. The trouble ceases during this event. For a process outage,
	// the event lasts from the start of the process until it is ready.
	FaultEnd struct{ Trouble }

	// FaultWatch says that this boot records trouble of these kinds from now on. Trouble recorded
	// by earlier boots is over, or begins again after this event.
	FaultWatch struct {
		Kinds []TroubleKind `json:"kinds"`
	}

	// FaultTrigger is a fault that took effect.
	FaultTrigger struct {
		// Fault is the name of the fault, and Point where it took effect.
		Fault string `json:"fault"`
		Point string `json:"point"`
		// About is what was affected: a fault.Attributes as JSON.
		About json.RawMessage `json:"about,omitempty"`
	}
)

// Name implements Fact.
func (FaultBegin) Name() Name { return NameFaultBegin }

// Name implements Fact.
func (FaultEnd) Name() Name { return NameFaultEnd }

// Name implements Fact.
func (FaultWatch) Name() Name { return NameFaultWatch }

// Name implements Fact.
func (FaultTrigger) Name() Name { return NameFaultTrigger }
