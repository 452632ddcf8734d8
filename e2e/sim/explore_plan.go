package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// chooser replaces the world's queue: it decides which event happens next.
type chooser struct {
	world *World
	// faults is how many there have been, of most.
	faults, most int
	// last is the process that was stepped last, when that may have changed it.
	last string
	// held are messages that a fault has made late: they come at their time.
	held map[*event]bool
	// logs digests what each process was given, and notes what it recorded. noted is how many
	// records are in notes.
	logs    map[string]trail
	notes   map[string]trail
	noted   int
	numbers map[string]uint64
	// met are the messages that a fault could have hit already.
	met map[*event]bool
}

// trail is what a process was given, or has recorded: in order, except within one instant. The
// process's output shows the order within an instant.
type trail struct {
	before digest
	at     time.Duration
	now    [2]uint64
}

type digest [16]byte

// choiceKind is what can happen at a choice.
type choiceKind int

const (
	deliverMessage choiceKind = iota
	loseMessage
	duplicateMessage
	delayMessage
	crashProcess
	// passTime lets time pass without a delivery.
	passTime
)

// option is one thing that can happen next.
type option struct {
	kind    choiceKind
	event   *event
	process string
}

// lateBy is how late a delayed message is, and downFor how long a crashed process is down.
const (
	lateBy  = 12 * time.Second
	downFor = 3 * time.Second
)

func (o option) String() string {
	var what string
	switch o.kind {
	case crashProcess:
		return o.process + " crashes"
	case passTime:
		return "nothing comes"
	case deliverMessage:
		what = "first comes"
	case loseMessage:
		what = "is lost:"
	case duplicateMessage:
		what = "comes twice:"
	case delayMessage:
		what = "is late:"
	}
	kind := strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o.event.input), "sim."))
	return fmt.Sprintf("%s %s %s to %s", what, kind, o.event.about, o.event.to)
}

func newChooser(w *World, most int) *chooser {
	return &chooser{
		world: w, most: most, held: map[*event]bool{}, met: map[*event]bool{},
		logs: map[string]trail{}, notes: map[string]trail{}, numbers: map[string]uint64{},
	}
}

// advance lets time pass until the next choice; false if there is none.
func (s *chooser) advance(lasts time.Duration) bool {
	for {
		s.dropVoid()
		if len(s.world.coming) == 0 {
			return false
		}
		if s.faults < s.most && s.last != "" || len(s.pending()) > 0 {
			return true
		}
		if s.world.coming[0].at > lasts {
			return false
		}
		s.runNext()
	}
}

// runNext runs the next due event.
func (s *chooser) runNext() {
	var due *event
	for _, e := range s.world.coming {
		if s.isTimed(e) && (due == nil || e.before(due)) {
			due = e
		}
	}
	if due == nil {
		return
	}
	s.world.advance(due.at)
	s.world.catchUp()
	s.runEvent(due)
}

// isTimed reports whether an event has its own time, instead of one that the explorer chooses.
func (s *chooser) isTimed(e *event) bool {
	switch in := e.input.(type) {
	case Alarm:
		return true
	case Answered:
		return s.held[e] || errors.Is(in.Err, ErrTimeout)
	case Boot, Message, Called:
		return s.held[e]
	}
	return e.do != nil
}

// dropVoid removes events that have become void.
func (s *chooser) dropVoid() {
	w := s.world
	var void []*event
	for _, e := range w.coming {
		if e.do != nil {
			continue
		}
		p := w.processes[e.to]
		gone := p == nil || p.running == nil && !s.isTimed(e) || e.number != 0 && (p.running == nil || e.number != p.number)
		switch in := e.input.(type) {
		case Alarm:
			gone = gone || p.alarms[in.Key] != e
		case Answered:
			gone = gone || w.wires.calls[in.Call] == nil
		case Boot, Message, Called:
		}
		if gone {
			void = append(void, e)
		}
	}
	for _, e := range void {
		s.drop(e)
	}
}

func (s *chooser) drop(e *event) {
	s.world.coming.remove(e)
	delete(s.held, e)
}

// runEvent takes an event from the queue and runs it.
func (s *chooser) runEvent(e *event) {
	s.drop(e)
	if e.do != nil {
		e.do()
		for name, p := range s.world.processes { // each by itself
			if p.number != s.numbers[name] {
				s.numbers[name] = p.number
				s.extendTrail(s.logs, name, func(w io.Writer) { _, _ = io.WriteString(w, "boot") })
			}
		}
		return
	}
	s.extendTrail(s.logs, e.to, func(w io.Writer) { traceEvent(w, e) })
	s.last = ""
	if isRelevant(e) {
		s.last = e.to
	}
	s.world.Steps++
	s.world.runEvent(e)
	s.digestRecords()
}

// isRelevant reports whether an event is more than a heartbeat.
func isRelevant(e *event) bool {
	switch in := e.input.(type) {
	case Alarm:
		return in.Key != wakeBeat && !strings.HasSuffix(in.Key, "/beat") && !strings.HasSuffix(in.Key, "/renew")
	case Message:
		frame, is := in.Body.(Frame)
		return !is || len(frame.GetEvents()) > 0
	case Called, Answered:
		return !strings.Contains(e.about, "/renew")
	case Boot:
	}
	return true
}

// digestRecords adds what processes have recorded to their digests.
func (s *chooser) digestRecords() {
	for ; s.noted < len(s.world.record.events); s.noted++ {
		e := s.world.record.events[s.noted]
		s.extendTrail(s.notes, e.Process, func(w io.Writer) { traceFact(w, e.Fact) })
	}
}

// pending returns the messages that can arrive now; of ordered messages the first. Messages within
// a machine come first.
func (s *chooser) pending() []*event {
	var all []*event
	for _, e := range s.world.coming {
		if !s.isTimed(e) {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *event) int { return cmp.Compare(a.order, b.order) })
	var pending []*event
	queued := map[Link]bool{}
	for _, e := range all {
		link := s.link(e)
		if sameNode(link) {
			return []*event{e}
		}
		if _, ordered := e.input.(Message); ordered {
			if queued[link] {
				continue
			}
			queued[link] = true
		}
		pending = append(pending, e)
	}
	return pending
}

func (s *chooser) link(e *event) Link {
	switch in := e.input.(type) {
	case Message:
		return Link{in.From, e.to}
	case Called:
		return Link{in.From, e.to}
	case Answered:
		if c := s.world.wires.calls[in.Call]; c != nil {
			return Link{c.to, e.to}
		}
	case Boot, Alarm:
	}
	return Link{e.to, e.to}
}

// options returns what can happen now; the first is the default.
func (s *chooser) options() []option {
	pending := s.pending()
	options := make([]option, 0, 4*len(pending)+1)
	for _, e := range pending {
		options = append(options, option{kind: deliverMessage, event: e})
	}
	if len(options) == 0 {
		options = append(options, option{kind: passTime})
	}
	if s.faults == s.most {
		return options
	}
	for _, e := range pending {
		if sameNode(s.link(e)) || !isRelevant(e) || s.met[e] {
			continue
		}
		s.met[e] = true // what happens to it later is the same: no time passes before it comes
		options = append(options, option{kind: loseMessage, event: e})
		if _, call := e.input.(Called); call {
			options = append(options, option{kind: duplicateMessage, event: e}, option{kind: delayMessage, event: e})
		}
	}
	if p := s.world.processes[s.last]; p != nil && p.running != nil && s.last != User {
		options = append(options, option{kind: crashProcess, process: s.last})
	}
	return options
}

// apply makes an option happen.
func (s *chooser) apply(o option) {
	w := s.world
	s.last = "" // it may crash here, or not; not later, before it is stepped again
	if o.kind != deliverMessage && o.kind != passTime {
		s.faults++
	}
	switch o.kind {
	case deliverMessage:
		s.runEvent(o.event)
	case passTime:
	case loseMessage:
		s.drop(o.event)
	case duplicateMessage:
		again := *o.event
		w.push(&again)
	case delayMessage:
		late := *o.event
		late.at = w.Now() + lateBy
		s.drop(o.event)
		w.push(&late)
		s.held[&late] = true
	case crashProcess:
		w.Crash(o.process)
		if len(w.processes[o.process].disk) == 0 { // all that is left of it is what it has said
			s.logs[o.process] = s.notes[o.process]
		}
		s.extendTrail(s.logs, o.process, func(w io.Writer) { _, _ = io.WriteString(w, "crash") })
		w.push(&event{at: w.Now() + downFor, do: func() { w.Start(o.process) }})
	}
}

// extendTrail adds to a process's trail.
func (s *chooser) extendTrail(tales map[string]trail, name string, write func(io.Writer)) {
	l, one := tales[name], s.chain(digest{}, write)
	if now := s.world.Now(); now != l.at {
		was := l
		l = trail{at: now, before: s.chain(was.before, func(w io.Writer) { _, _ = fmt.Fprint(w, was.at, was.now) })}
	}
	l.now[0] += binary.BigEndian.Uint64(one[:8])
	l.now[1] += binary.BigEndian.Uint64(one[8:])
	tales[name] = l
}

// chain returns the digest of the earlier digest, the time and what is new.
func (s *chooser) chain(before digest, write func(io.Writer)) digest {
	h := sha256.New()
	h.Write(before[:])
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(s.world.Now())))
	write(h)
	return digest(h.Sum(nil)[:16])
}

// traceEvent writes what an event is, without the numbers of calls.
func traceEvent(w io.Writer, e *event) {
	_, _ = io.WriteString(w, e.to+" "+e.about)
	switch in := e.input.(type) {
	case Alarm:
		_, _ = io.WriteString(w, "alarm "+in.Key)
	case Message:
		traceBody(w, in.Body)
	case Called:
		_, _ = io.WriteString(w, "call")
		traceBody(w, in.Body)
	case Answered:
		_, _ = fmt.Fprint(w, "answer", in.Err)
		traceBody(w, in.Body)
	case Boot:
	}
}

// digest identifies the state: each process's inputs, the events under way and the number of
// faults. A process's state follows from its inputs.
func (s *chooser) digest() digest {
	w := s.world
	var parts []string
	for name, log := range s.logs { // sorted below
		held := ""
		if keeper, is := w.processes[name].running.(interface{ StateSummary() string }); is {
			held = keeper.StateSummary()
		}
		parts = append(parts, fmt.Sprint(name, log, s.notes[name], held))
	}
	for _, e := range w.coming {
		one := s.chain(digest{}, func(w io.Writer) {
			traceEvent(w, e)
			if s.isTimed(e) {
				_, _ = fmt.Fprint(w, e.at, e.do != nil)
			}
		})
		parts = append(parts, string(one[:]))
	}
	slices.Sort(parts)
	return s.chain(digest{}, func(w io.Writer) {
		_, _ = fmt.Fprint(w, s.faults, s.last)
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
		}
	})
}
