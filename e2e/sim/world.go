package sim

import (
	"encoding/binary"
	"errors"
	"maps"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// World holds the processes of one run, the messages under way, and the time. One goroutine steps
// it inside a testing/synctest bubble. The bubble's clock follows the world's, so that code that
// asks clock.Clock{} gets virtual time. The event queue alone decides what happens next.
type World struct {
	times
	order     uint64
	coming    queue
	processes map[string]*process
	net       *Net
	wires     connections
	trace     *trace
	record    record
	decoded   Decoded
	stop      error
	// Steps counts what processes were given.
	Steps int
}

// times are those of a world.
type times struct {
	start, now time.Time
	elapsed    time.Duration // from start to now
}

// connections holds calls and subscriptions.
type connections struct {
	calls       map[CallID]*call
	lastCall    CallID
	subscribers map[string][]string
}

// record holds the events that the processes have recorded.
type record struct {
	events []history.Event
	noted  map[string]uint64 // so many by each that is no process of the world
}

// process holds the incarnations of one name.
type process struct {
	name  string
	begin func() Process
	disk  Disk
	// running is nil while it is down; hands are its own.
	running Process
	hands   *liveOut
	processClock
	number uint64 // of incarnations so far
	boot   proto.Boot
	noted  uint64            // so many events by the boot
	alarms map[string]*event // by key
	paused bool
	held   []*event // what comes while it is paused
}

// processClock is a process's clock, and whether the process reads the bubble's clock directly.
type processClock struct {
	clock   clock.Clock
	clocked bool
}

// call is a request under way.
type call struct {
	to string
	// timeout is the caller's input if there is no answer.
	timeout event
}

// NewWorld is an empty world at the bubble's time.
func NewWorld(net *Net) *World {
	now := clock.Clock{}.Now()
	return &World{
		times: times{start: now, now: now}, processes: map[string]*process{}, net: net,
		wires:  connections{calls: map[CallID]*call{}, subscribers: map[string][]string{}},
		record: record{noted: map[string]uint64{}},
	}
}

// Add adds a process, and starts it at the given time after the start.
func (w *World) Add(name string, begin func() Process, after time.Duration) {
	w.processes[name] = &process{name: name, begin: begin, disk: Disk{}}
	w.At(after, func() { w.Start(name) })
}

// At runs a function at a time after the start.
func (w *World) At(after time.Duration, do func()) {
	w.push(&event{at: after, do: do})
}

// Now is the time since the beginning.
func (w *World) Now() time.Duration { return w.elapsed }

// Stop ends Run with an error.
func (w *World) Stop(err error) { w.stop = errors.Join(w.stop, err) }

// Running reports whether a process is up.
func (w *World) Running(name string) bool {
	p := w.processes[name]
	return p != nil && p.running != nil
}

// Run lets time pass until that much after the start. The error is the one given to [World.Stop].
func (w *World) Run(until time.Duration) error {
	for len(w.coming) > 0 && w.stop == nil && w.coming[0].at <= until {
		next := w.coming[0]
		w.coming.remove(next)
		w.advance(next.at)
		if next.do != nil {
			w.catchUp()
			next.do()
			continue
		}
		w.runEvent(next)
	}
	return w.stop
}

// advance lets time pass until that much after the start.
func (w *World) advance(at time.Duration) {
	if at > w.elapsed {
		w.now, w.elapsed = w.start.Add(at), at
	}
}

// catchUp advances the bubble's clock to the world's time for code that reads it. It costs more
// than most steps.
func (w *World) catchUp() {
	if ahead := (clock.Clock{}).Until(w.now); ahead > 0 {
		time.Sleep(ahead) //nolint:forbidigo // it is the world that has the bubble's time pass
	}
}

func (w *World) push(e *event) {
	w.order++
	e.order = w.order
	w.coming.push(e)
}

// runEvent runs an event, unless it has become void.
func (w *World) runEvent(e *event) {
	p := w.processes[e.to]
	if p == nil || p.running == nil || e.number != 0 && e.number != p.number {
		return
	}
	if p.paused {
		p.held = append(p.held, e)
		return
	}
	switch in := e.input.(type) {
	case Alarm:
		if p.alarms[in.Key] != e {
			return
		}
		delete(p.alarms, in.Key)
	case Answered:
		c := w.wires.calls[in.Call]
		if c == nil {
			return
		}
		w.coming.remove(&c.timeout)
		delete(w.wires.calls, in.Call)
	case Boot, Message, Called:
	}
	w.step(p, e.input, e.about)
}

func (w *World) step(p *process, in Input, about string) {
	w.Steps++
	w.trace.step(w.Now(), p.name, about, in)
	if p.clocked {
		w.catchUp()
	}
	p.running.Step(w.now, in, p.hands)
}

// Start begins the next incarnation of a process, unless one is running.
func (w *World) Start(name string) {
	p := w.processes[name]
	if p == nil || p.running != nil {
		return
	}
	p.number++
	seed := mix(w.net.seed, name, "boot", uint64(w.Now()/time.Second))
	if boot := proto.NewBoot(w.now, [4]byte(binary.BigEndian.AppendUint64(nil, seed)[:4])); boot != p.boot {
		p.boot, p.noted = boot, 0
	}
	p.running, p.alarms, p.paused, p.held = p.begin(), map[string]*event{}, false, nil
	p.hands = &liveOut{world: w, process: p, number: p.number}
	_, p.clocked = p.running.(Clocked)
	w.step(p, Boot{Boot: p.boot, Disk: maps.Clone(p.disk), Seed: seed, Decoded: &w.decoded}, "")
}

// Crash ends a process and its output. If it has an End method, End is called for what its machine
// sees of the crash.
func (w *World) Crash(name string) {
	p := w.processes[name]
	if p == nil || p.running == nil {
		return
	}
	if ends, ok := p.running.(interface{ End() }); ok {
		ends.End()
	}
	p.running, p.held, p.paused, p.alarms = nil, nil, false, map[string]*event{}
	for subject, names := range w.wires.subscribers { // independent of each other
		w.wires.subscribers[subject] = without(names, name)
	}
}

// End crashes all processes and stops time. The history stays readable.
func (w *World) End() {
	for name := range w.processes { // none can do anything to another
		w.Crash(name)
	}
}

func without(names []string, name string) []string {
	kept := make([]string, 0, len(names))
	for _, each := range names {
		if each != name {
			kept = append(kept, each)
		}
	}
	return kept
}

// Pause pauses a process: its inputs wait.
func (w *World) Pause(name string) {
	if p := w.processes[name]; p != nil && p.running != nil {
		p.paused = true
	}
}

// Resume resumes a process with all inputs that have waited.
func (w *World) Resume(name string) {
	p := w.processes[name]
	if p == nil || !p.paused {
		return
	}
	p.paused = false
	held := p.held
	p.held = nil
	for _, e := range held {
		e.at = w.Now()
		w.push(e)
	}
}

// Persisted returns a process's record on disk; nil for none.
func (w *World) Persisted(name, key string) any {
	if p := w.processes[name]; p != nil {
		return p.disk[key]
	}
	return nil
}

// Note records an event of a process that the world does not run, for example the nemesis.
func (w *World) Note(name string, fact history.Fact) {
	w.record.noted[name]++
	w.note(history.Event{
		Sequence: w.record.noted[name], Process: name, Boot: "world", Began: w.now.UnixNano(), Fact: fact,
	}, clock.Clock{})
}

// note writes an event that ends now, of a process whose clock that is.
func (w *World) note(e history.Event, by clock.Clock) {
	e.Ended, e.Wall = w.now.UnixNano(), by.ApplySkew(w.now).UTC()
	w.record.events = append(w.record.events, e)
	w.trace.note(e.Process, e.Cause, e.Fact)
}

// History returns all recorded events, in order.
func (w *World) History() history.Log { return history.Log{Events: w.record.events} }
