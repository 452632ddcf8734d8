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

// Clocked is a process that is the product's own so far down that it reads the bubble's
// clock, which for all others may be behind.
type Clocked interface {
	Process
	ReadsClock()
}

// Input is what can happen to a process.
//
//sumtype:decl
type Input interface{ isInput() }

type (
	// Boot is a process's first input.
	Boot struct {
		Boot proto.Boot
		// Disk is what an earlier incarnation has persisted, by key; empty at first.
		Disk Disk
		// Seed is the incarnation's own chance; a Boot's entropy is drawn from it.
		Seed uint64
		// Decoded is shared by all processes of the world.
		Decoded *Decoded
	}
	// Message is what another process has sent.
	Message struct {
		From string
		Body any
	}
	// Called is a request that wants an answer: out.Answer(Call, …), now or later.
	Called struct {
		From string
		// Call names the request among all that this process gets.
		Call CallID
		Body any
	}
	// Answered is what became of a request: its answer, or an error when none came in time.
	// Then nobody knows whether it was carried out.
	Answered struct {
		Call CallID
		Body any
		Err  error
	}
	// Alarm is a time that has come; see Out.Wake.
	Alarm struct{ Key string }
)

func (Boot) isInput()     {}
func (Message) isInput()  {}
func (Called) isInput()   {}
func (Answered) isInput() {}
func (Alarm) isInput()    {}

// CallID names a request.
type CallID uint64

// Disk is what a process has persisted: a record by its key. Records are values that
// nobody changes.
type Disk map[string]any

// Out is what a process can do while it is stepped. What it persists is on disk before
// anything that it says in the same step is sent (guarantees A1), unless the simulated
// disk is broken.
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
	// Answer answers a Called; the second answer to one is dropped.
	Answer(call CallID, body any, err error)
	Clocks
	// Persist puts a record on disk; a nil record takes it away.
	Persist(key string, record any)
	// Note writes an event into the history of the process.
	Note(cause string, fact history.Fact)
}

// Clocks are what a process has of the time.
type Clocks interface {
	// Wake sets the alarm of that key, in place of the one that there was; the zero time
	// takes it away.
	Wake(key string, at time.Time)
	// Shows is what the process' clock shows at a time, right or wrong: what goes into objects,
	// and is compared with what is in them. Waits go by the time itself.
	Shows(at time.Time) time.Time
	// Clock is that clock, for what asks one; it goes by the bubble's time.
	Clock() clock.Clock
}

// Lasted is what a process notes of what has taken time, such as a write to a disk.
type Lasted struct {
	history.Fact

	Began time.Time
}

// Subjects are what goes to whoever wants it.
type Subjects interface {
	// Publish sends a message to every process that has subscribed to a subject by the time
	// it is sent; about keys the network's decisions, as it does for Call.
	Publish(subject, about string, body any)
	// Subscribe has the messages of a subject come as Message from now on, until the end of
	// the process; doing so again changes nothing.
	Subscribe(subject string)
}
