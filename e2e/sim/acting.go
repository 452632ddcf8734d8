package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
)

// liveOut implements Out for one incarnation of a process.
type liveOut struct {
	world   *World
	process *process
	number  uint64
}

// ErrTimeout is the error of a call that is not answered in time.
var ErrTimeout = errors.New("no answer in time")

func (a *liveOut) Send(to string, body any) {
	a.world.deliver(Link{a.process.name, to}, "message", messageKind(body), Message{From: a.process.name, Body: body})
}

// messageKind names a message by its type, if it has no About.
func messageKind(body any) string {
	if named, ok := body.(interface{ About() string }); ok {
		return named.About()
	}
	return "message"
}

func (a *liveOut) Publish(subject, about string, body any) {
	var in Input = Message{From: a.process.name, Body: body}
	for _, to := range a.world.wires.subscribers[subject] {
		a.world.deliver(Link{a.process.name, to}, "frame", about, in)
	}
}

func (a *liveOut) Subscribe(subject string) {
	names := a.world.wires.subscribers[subject]
	if !slices.Contains(names, a.process.name) {
		a.world.wires.subscribers[subject] = append(names, a.process.name)
	}
}

func (a *liveOut) Call(to, about string, body any, timeout time.Duration) CallID {
	w := a.world
	w.wires.lastCall++
	id := w.wires.lastCall
	w.deliver(Link{a.process.name, to}, "call", about, Called{From: a.process.name, Call: id, Body: body})
	c := &call{to: to, timeout: event{
		at: w.Now() + timeout, to: a.process.name, number: a.number, about: about,
		input: Answered{Call: id, Err: ErrTimeout},
	}}
	w.push(&c.timeout)
	w.wires.calls[id] = c
	return id
}

func (a *liveOut) Answer(id CallID, body any, err error) {
	c := a.world.wires.calls[id]
	if c == nil || c.to != a.process.name {
		return
	}
	a.world.answer(c, Answered{Call: id, Body: body, Err: err})
}

func (a *liveOut) Wake(key string, at time.Time) {
	if before := a.process.alarms[key]; before != nil {
		a.world.coming.remove(before)
		delete(a.process.alarms, key)
	}
	if at.IsZero() {
		return
	}
	alarm := &event{
		at: max(at.Sub(a.world.start), a.world.Now()), to: a.process.name, number: a.number, input: Alarm{Key: key},
	}
	a.world.push(alarm)
	a.process.alarms[key] = alarm
}

func (a *liveOut) Persist(key string, record any) {
	if record == nil {
		delete(a.process.disk, key)
		return
	}
	a.process.disk[key] = record
}

func (a *liveOut) Note(cause string, fact history.Fact) {
	began := a.world.now
	if lasted, is := fact.(TimedFact); is {
		began, fact = lasted.Began, lasted.Fact
	}
	p := a.process
	p.noted++
	a.world.note(history.Event{
		Sequence: p.noted, Process: historyName(p.name), Boot: p.boot, Began: began.UnixNano(), Cause: cause, Fact: fact,
	}, p.clock)
}

func (a *liveOut) ClockTime(at time.Time) time.Time { return a.process.clock.ApplySkew(at) }

func (a *liveOut) Clock() clock.Clock { return a.process.clock }

// deliver sends an input over a link, as the network decides.
func (w *World) deliver(link Link, kind, about string, in Input) {
	ordered, road := kind != "call", w.net.state(link)
	fate := w.net.fate(w.Now(), road, kind, about)
	for i := range fate.Copies {
		at := w.Now() + fate.Delay + time.Duration(i)*duplicateAfter
		if ordered && i == 0 {
			at = max(at, road.arrives)
			road.arrives = at
		}
		w.push(&event{at: at, to: link.To, input: in, about: about})
	}
}

// duplicateAfter is the delay between a message and its duplicate.
const duplicateAfter = 7 * time.Millisecond

// answer sends an answer back.
func (w *World) answer(c *call, in Answered) {
	silence := &c.timeout // goes where the answer does
	fate := w.net.fate(w.Now(), w.net.state(Link{c.to, silence.to}), "answer", silence.about)
	if fate.Copies == 0 {
		return
	}
	w.push(&event{at: w.Now() + fate.Delay, to: silence.to, number: silence.number, input: in, about: silence.about})
}

// deadOut implements Out for a crashed process: it does nothing.
type deadOut struct{}

func (deadOut) Send(string, any) {}

func (deadOut) Publish(string, string, any) {}

func (deadOut) Subscribe(string) {}

func (deadOut) Call(string, string, any, time.Duration) CallID { return 0 }

func (deadOut) Answer(CallID, any, error) {}

func (deadOut) Wake(string, time.Time) {}

func (deadOut) ClockTime(at time.Time) time.Time { return at }

func (deadOut) Clock() clock.Clock { return clock.Clock{} }

func (deadOut) Persist(string, any) {}

func (deadOut) Note(string, history.Fact) {}
