// Package trouble writes down what is broken on purpose, as f.begin and f.end of the
// history: faults and cuts as they come and go, changes of the clock, and processes that are
// down or paused. Checkers read it; no diagnosis does.
//
//	bus process, podfalltest ──> Log.Set            faults, cuts, the clock
//	supervisor, podfalltest  ──> Log.Begin, Log.End processes that are down or paused
//	every process            ──> Hit                 each time a fault strikes
package trouble

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/partition"
)

// State is what is wrong with a cluster at an instant; its zero value is a whole one, whose
// clock is not known.
type State struct {
	Clock clock.Schedule
	// Parties are all that a cut can be about.
	Parties []string
	Faults  []fault.Fault
	Cuts    []partition.Cut
}

// Changes are what ends and what begins when one state becomes another, in order. A jump of
// the clock, or another speed, does both at once.
func Changes(from, to State) (ends, begins []history.Trouble) {
	was, is := from.troubles(), to.troubles()
	for _, t := range was {
		if !slices.ContainsFunc(is, t.Equal) {
			ends = append(ends, t)
		}
	}
	for _, t := range is {
		if !slices.ContainsFunc(was, t.Equal) {
			begins = append(begins, t)
		}
	}
	if moved, ok := moves(from.Clock, to.Clock); ok {
		begins = append(begins, moved)
		if !to.paused() {
			ends = append(ends, moved)
		}
	}
	return ends, begins
}

// troubles are those of the state that last.
func (s State) troubles() []history.Trouble {
	var all []history.Trouble
	for _, f := range s.Faults {
		all = append(all, history.Trouble{Kind: history.TroubleFault, What: f.Name, Arguments: encoded(f)})
	}
	for _, c := range s.Cuts {
		c.Lease = nil // who holds a cut changes nothing about it
		all = append(all, history.Trouble{Kind: history.TroubleCut, What: c.Name, CutOff: c.Spec.CutOff(s.Parties), Arguments: encoded(c)})
	}
	if s.paused() {
		all = append(all, clockTrouble(s.Clock))
	}
	return all
}

func (s State) paused() bool { return len(s.Clock) > 0 && s.Clock[len(s.Clock)-1].Paused }

func clockTrouble(face clock.Schedule) history.Trouble {
	return history.Trouble{Kind: history.TroubleClock, What: "clock", Arguments: encoded(face[len(face)-1])}
}

// moves is the trouble of a clock that jumps, or runs at another speed. Pauses are told as
// states.
func moves(from, to clock.Schedule) (history.Trouble, bool) {
	if len(from) == 0 || len(to) == 0 || reflect.DeepEqual(from[len(from)-1], to[len(to)-1]) {
		return history.Trouble{}, false
	}
	last := to[len(to)-1]
	before := from.SegmentAt(last.Wall)
	jumped := !from.TimeAt(last.Wall).Equal(last.Reading)
	if last.Paused || !jumped && before.Speed == last.Speed {
		return history.Trouble{}, false
	}
	return clockTrouble(to), true
}

// encoded is the JSON of one of our own values, which always has one.
func encoded(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return data
}

// Log writes down what changes. A nil Log writes nothing. It is safe for concurrent use.
type Log struct {
	history *history.Recorder

	mu    sync.Mutex
	state State
}

// NewLog writes to the recorder, which stays the caller's, what becomes of these kinds of
// trouble; no kinds are all. Nothing is wrong yet.
func NewLog(recorder *history.Recorder, kinds ...history.TroubleKind) *Log {
	if len(kinds) == 0 {
		kinds = append(Board(), Processes()...)
	}
	recorder.Record("", history.FaultWatch{Kinds: kinds})
	return &Log{history: recorder}
}

// Board are the kinds that are on a cluster's board.
func Board() []history.TroubleKind {
	return []history.TroubleKind{history.TroubleFault, history.TroubleCut, history.TroubleClock}
}

// Processes are the kinds that a supervisor sees.
func Processes() []history.TroubleKind {
	return []history.TroubleKind{history.TroubleDown, history.TroublePaused}
}

// Began is the instant before a change, for the other methods.
func (l *Log) Began() history.MonoTime {
	if l == nil {
		return 0
	}
	return l.history.Now()
}

// Set writes down that the state is another now: the change has begun at the moment, and is
// in force.
func (l *Log) Set(began history.MonoTime, state State) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ends, begins := Changes(l.state, state)
	l.state = state
	for _, t := range begins {
		l.history.RecordSince(began, "", history.FaultBegin{Trouble: t})
	}
	for _, t := range ends {
		l.history.RecordSince(began, "", history.FaultEnd{Trouble: t})
	}
}

// Change is Set of what change makes of the state.
func (l *Log) Change(began history.MonoTime, change func(*State)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	next := l.state
	l.mu.Unlock()
	change(&next)
	l.Set(began, next)
}

// Begin writes down that a process is in trouble, since the moment at the earliest.
func (l *Log) Begin(began history.MonoTime, kind history.TroubleKind, process string) {
	if l != nil {
		l.history.RecordSince(began, "", history.FaultBegin{Trouble: history.Trouble{Kind: kind, What: process}})
	}
}

// End writes down that it is no longer. Of one that was down, the moment is when its start
// began, and now it is ready.
func (l *Log) End(began history.MonoTime, kind history.TroubleKind, process string) {
	if l != nil {
		l.history.RecordSince(began, "", history.FaultEnd{Trouble: history.Trouble{Kind: kind, What: process}})
	}
}

// Hit is a [fault.Config]'s: it writes down each time that a fault strikes.
func Hit(recorder *history.Recorder) func(fault.Fault, fault.Point, fault.Attributes) {
	return func(f fault.Fault, point fault.Point, about fault.Attributes) {
		recorder.Record("", history.FaultTrigger{Fault: f.Name, Point: string(point), About: encoded(about)})
	}
}
