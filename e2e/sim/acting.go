package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
)

// acting is what one incarnation of a process does while it is stepped.
type acting struct {
	world   *World
	process *process
	number  uint64
}

// ErrTimeout is what becomes of a call that nobody answers in time.
var ErrTimeout = errors.New("no answer in time")

func (a *acting) Send(to string, body any) {
	a.world.carry(Link{a.process.name, to}, "message", kindOf(body), Message{From: a.process.name, Body: body})
}

// kindOf names what a message is about when nobody says.
func kindOf(body any) string {
	if named, ok := body.(interface{ About() string }); ok {
		return named.About()
	}
	return "message"
}

func (a *acting) Publish(subject, about string, body any) {
	var in Input = Message{From: a.process.name, Body: body}
	for _, to := range a.world.wires.subscribers[subject] {
		a.world.carry(Link{a.process.name, to}, "frame", about, in)
	}
}

func (a *acting) Subscribe(subject string) {
	names := a.world.wires.subscribers[subject]
	if !slices.Contains(names, a.process.name) {
		a.world.wires.subscribers[subject] = append(names, a.process.name)
	}
}

func (a *acting) Call(to, about string, body any, timeout time.Duration) CallID {
	w := a.world
	w.wires.lastCall++
	id := w.wires.lastCall
	w.carry(Link{a.process.name, to}, "call", about, Called{From: a.process.name, Call: id, Body: body})
	c := &call{to: to, timeout: event{
		at: w.Now() + timeout, to: a.process.name, number: a.number, about: about,
		input: Answered{Call: id, Err: ErrTimeout},
	}}
	w.push(&c.timeout)
	w.wires.calls[id] = c
	return id
}

func (a *acting) Answer(id CallID, body any, err error) {
	c := a.world.wires.calls[id]
	if c == nil || c.to != a.process.name {
		return
	}
	a.world.answer(c, Answered{Call: id, Body: body, Err: err})
}

func (a *acting) Wake(key string, at time.Time) {
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

func (a *acting) Persist(key string, record any) {
	if record == nil {
		delete(a.process.disk, key)
		return
	}
	a.process.disk[key] = record
}

func (a *acting) Note(cause string, fact history.Fact) {
	began := a.world.now
	if lasted, is := fact.(Lasted); is {
		began, fact = lasted.Began, lasted.Fact
	}
	p := a.process
	p.noted++
	a.world.note(history.Event{
		Sequence: p.noted, Process: toldAs(p.name), Boot: p.boot, Began: began.UnixNano(), Cause: cause, Fact: fact,
	}, p.clock)
}

func (a *acting) Shows(at time.Time) time.Time { return a.process.clock.ApplySkew(at) }

func (a *acting) Clock() clock.Clock { return a.process.clock }

// carry takes something over a link, as the network decides.
func (w *World) carry(link Link, kind, about string, in Input) {
	ordered, road := kind != "call", w.net.road(link)
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

// duplicateAfter is how much later a message comes for the second time.
const duplicateAfter = 7 * time.Millisecond

// answer takes an answer back.
func (w *World) answer(c *call, in Answered) {
	silence := &c.timeout // goes where the answer does
	fate := w.net.fate(w.Now(), w.net.road(Link{c.to, silence.to}), "answer", silence.about)
	if fate.Copies == 0 {
		return
	}
	w.push(&event{at: w.Now() + fate.Delay, to: silence.to, number: silence.number, input: in, about: silence.about})
}

// noOut does nothing: what a process is left with that has crashed.
type noOut struct{}

func (noOut) Send(string, any) {}

func (noOut) Publish(string, string, any) {}

func (noOut) Subscribe(string) {}

func (noOut) Call(string, string, any, time.Duration) CallID { return 0 }

func (noOut) Answer(CallID, any, error) {}

func (noOut) Wake(string, time.Time) {}

func (noOut) Shows(at time.Time) time.Time { return at }

func (noOut) Clock() clock.Clock { return clock.Clock{} }

func (noOut) Persist(string, any) {}

func (noOut) Note(string, history.Fact) {}
