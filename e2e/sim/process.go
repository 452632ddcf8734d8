package sim

import (
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// Process is one process of a simulated cluster: the product's pure cores and the little
// that drives them. It is stepped by one goroutine, with one input at a time, and acts
// through the [Out] that comes with it. Step never blocks, starts no goroutine, reads no
// clock but the time it is given and no chance but its own seed, and ranges over no map.
//
// A crash is the end of a Process: the next one of its name is made anew, and gets what
// its disk has kept with [Boot].
type Process interface {
	Step(now time.Time, in Input, out Out)
}

// Clocked is a process of the product's own code that reads the bubble's clock, which may be behind
// for other processes.
type Clocked interface {
	Process
	ReadsClock()
}

// Input is an input of a process.
//
//sumtype:decl
type Input interface{ isInput() }

type (
	// Boot is a process's first input.
	Boot struct {
		Boot proto.Boot
		// Disk holds what earlier incarnations have persisted, by key; empty at first.
		Disk Disk
		// Seed is the incarnation's own source of randomness; the Boot's random id comes from it.
		Seed uint64
		// Decoded is shared by all processes of the world.
		Decoded *Decoded
	}
	// Message is a message from another process.
	Message struct {
		From string
		Body any
	}
	// Called is a request that wants an answer by out.Answer, now or later.
	Called struct {
		From string
		// Call names the request among all that this process gets.
		Call CallID
		Body any
	}
	// Answered is the result of a request: its answer, or an error on timeout. After a timeout it
	// is unknown whether the request was carried out.
	Answered struct {
		Call CallID
		Body any
		Err  error
	}
	// Alarm is an alarm that is due; see Out.Wake.
	Alarm struct{ Key string }
)

func (Boot) isInput()     {}
func (Message) isInput()  {}
func (Called) isInput()   {}
func (Answered) isInput() {}
func (Alarm) isInput()    {}

// CallID names a request.
type CallID uint64

// Disk holds what a process has persisted, by key. Records are never changed.
type Disk map[string]any

// Out is what a process can do during a step. What it persists is on disk before any output of the
// same step is sent (guarantees A1), unless the simulated disk is broken.
type Out interface {
	// Send sends a message without an answer. What goes from one process to one other
	// arrives in order, or not at all.
	Send(to string, body any)
	Subjects
	// Call sends a request; what it is about ("patch pods/status default/web", without
	// UIDs and counters) keys the network's decisions. An answer or an error comes as
	// Answered with the same CallID within timeout. The process that is called may get
	// the request late, twice or never, and in another order than it was sent.
	Call(to, about string, body any, timeout time.Duration) CallID
	// Answer answers a Called; a second answer is dropped.
	Answer(call CallID, body any, err error)
	Clocks
	// Persist writes a record to disk; nil deletes it.
	Persist(key string, record any)
	// Note records an event in the process's history.
	Note(cause string, fact history.Fact)
}

// Clocks give a process its timers and its clock.
type Clocks interface {
	// Wake sets the alarm of the key, and replaces an earlier one; the zero time removes it.
	Wake(key string, at time.Time)
	// ClockTime returns the reading of the process's clock, possibly skewed, at a time. Use it for
	// timestamps of objects. Timeouts use the simulated time itself.
	ClockTime(at time.Time) time.Time
	// Clock returns the process's clock for code that asks one; it follows the bubble's time.
	Clock() clock.Clock
}

// TimedFact is a fact about something that took time, for example a write to a disk.
type TimedFact struct {
	history.Fact

	Began time.Time
}

// Subjects publish and subscribe.
type Subjects interface {
	// Publish sends a message to every process that has subscribed to a subject by the time
	// it is sent; about keys the network's decisions, as it does for Call.
	Publish(subject, about string, body any)
	// Subscribe has the messages of a subject come as Message from now on, until the end of
	// the process; doing so again changes nothing.
	Subscribe(subject string)
}
