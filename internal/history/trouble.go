package history

import (
	"bytes"
	"encoding/json"
)

// TroubleKind says what sort of thing is broken on purpose.
type TroubleKind string

// The kinds of trouble.
const (
	// TroubleFault is a fault: its arguments are a fault.Fault.
	TroubleFault TroubleKind = "fault"
	// TroubleCut is a cut: its arguments are a partition.Cut, without who holds it.
	TroubleCut TroubleKind = "cut"
	// TroubleClock is a clock that jumps, is paused, or runs at another speed: its arguments
	// are the clock.Segment that begins.
	TroubleClock TroubleKind = "clock"
	// TroubleDown is a process that does not run, and TroublePaused one that is stopped.
	TroubleDown   TroubleKind = "down"
	TroublePaused TroubleKind = "paused"
)

// Trouble is something that is broken on purpose.
type Trouble struct {
	Kind TroubleKind `json:"kind"`
	// What is the name of the fault or the cut, or the process.
	What string `json:"fault"`
	// Off are the parties that a cut cuts off.
	Off []string `json:"off,omitempty"`
	// Arguments are all that was said of it, as JSON.
	Arguments json.RawMessage `json:"args,omitempty"`
}

// Is reports whether the two are the same.
func (t Trouble) Is(other Trouble) bool {
	return t.Kind == other.Kind && t.What == other.What && bytes.Equal(t.Arguments, other.Arguments)
}

// What was broken on purpose. No diagnosis reads these.
type (
	// FaultBegin is trouble that begins. It is in force when the event ends, and was not
	// before the event began.
	FaultBegin struct{ Trouble }

	// FaultEnd is trouble that is over. It was in force until the event began, and is not
	// when the event ends: of a process that was down, its start began and it was ready.
	FaultEnd struct{ Trouble }

	// FaultWatch says that from now on trouble of these kinds is written down, by this boot;
	// what earlier ones have begun is over, or begins anew behind it.
	FaultWatch struct {
		Kinds []TroubleKind `json:"kinds"`
	}

	// FaultHit is a fault that strikes.
	FaultHit struct {
		// Fault is its name, and Point where it strikes.
		Fault string `json:"fault"`
		Point string `json:"point"`
		// About is what it strikes, a fault.About as JSON.
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
func (FaultHit) Name() Name { return NameFaultHit }
