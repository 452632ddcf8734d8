// Package trouble records injected trouble as f.begin and f.end of the history: faults and cuts,
// clock changes, and processes that are down or paused. Checkers read these events; diagnoses do
// not.
//
//	bus process, podfalltest ──> Log.Set            faults, cuts, the clock
//	supervisor, podfalltest  ──> Log.Begin, Log.End processes that are down or paused
//	every process            ──> RecordTriggers     each time a fault takes effect
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

// State is the injected trouble at an instant. The zero value is a healthy cluster with an unknown
// clock.
type State struct {
	Clock clock.Schedule
	// Members are all members that a cut can affect.
	Members []string
	Faults  []fault.Fault
	Cuts    []partition.Cut
}

// Diff returns which trouble ends and begins between two states, in order. A step or speed change
// of the clock begins and ends at once.
func Diff(from, to State) (ends, begins []history.Trouble) {
	was, is := from.listTrouble(), to.listTrouble()
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
	if changed, ok := clockChange(from.Clock, to.Clock); ok {
		begins = append(begins, changed)
		if !to.isPaused() {
			ends = append(ends, changed)
		}
	}
	return ends, begins
}

// listTrouble returns the trouble that persists in the state.
func (s State) listTrouble() []history.Trouble {
	var all []history.Trouble
	for _, f := range s.Faults {
		all = append(all, history.Trouble{Kind: history.TroubleFault, What: f.Name, Arguments: encodeJSON(f)})
	}
	for _, c := range s.Cuts {
		c.Lease = nil // the holder of a cut does not change its effect
		all = append(all, history.Trouble{Kind: history.TroubleCut, What: c.Name, CutOff: c.Spec.CutOff(s.Members), Arguments: encodeJSON(c)})
	}
	if s.isPaused() {
		all = append(all, clockTrouble(s.Clock))
	}
	return all
}

func (s State) isPaused() bool { return len(s.Clock) > 0 && s.Clock[len(s.Clock)-1].Paused }

func clockTrouble(schedule clock.Schedule) history.Trouble {
	return history.Trouble{Kind: history.TroubleClock, What: "clock", Arguments: encodeJSON(schedule[len(schedule)-1])}
}

// clockChange returns the trouble of a step or speed change of the clock. Pauses are part of the
// state instead.
func clockChange(from, to clock.Schedule) (history.Trouble, bool) {
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

// encodeJSON encodes one of our own values, which always succeeds.
func encodeJSON(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return data
}

// Log records changes of trouble. A nil Log records nothing. It is safe for concurrent use.
type Log struct {
	history *history.Recorder

	mu    sync.Mutex
	state State
}

// NewLog returns a log that records these kinds of trouble with the recorder; no kinds means all.
// The caller keeps ownership of the recorder. The log begins with a healthy state.
func NewLog(recorder *history.Recorder, kinds ...history.TroubleKind) *Log {
	if len(kinds) == 0 {
		kinds = append(FaultStateKinds(), ProcessKinds()...)
	}
	recorder.Record("", history.FaultWatch{Kinds: kinds})
	return &Log{history: recorder}
}

// FaultStateKinds are the kinds of trouble in a cluster's fault state.
func FaultStateKinds() []history.TroubleKind {
	return []history.TroubleKind{history.TroubleFault, history.TroubleCut, history.TroubleClock}
}

// ProcessKinds are the kinds of trouble that a supervisor sees.
func ProcessKinds() []history.TroubleKind {
	return []history.TroubleKind{history.TroubleDown, history.TroublePaused}
}

// Now returns the monotonic time, to pass to the other methods after a change.
func (l *Log) Now() history.MonoTime {
	if l == nil {
		return 0
	}
	return l.history.Now()
}

// Set records that the state has changed. The change began at the given time and is in force now.
func (l *Log) Set(began history.MonoTime, state State) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ends, begins := Diff(l.state, state)
	l.state = state
	for _, t := range begins {
		l.history.RecordSince(began, "", history.FaultBegin{Trouble: t})
	}
	for _, t := range ends {
		l.history.RecordSince(began, "", history.FaultEnd{Trouble: t})
	}
}

// Update calls Set with the state that change makes.
func (l *Log) Update(began history.MonoTime, change func(*State)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	next := l.state
	l.mu.Unlock()
	change(&next)
	l.Set(began, next)
}

// Begin records trouble of a process that began at the given time at the earliest.
func (l *Log) Begin(began history.MonoTime, kind history.TroubleKind, process string) {
	if l != nil {
		l.history.RecordSince(began, "", history.FaultBegin{Trouble: history.Trouble{Kind: kind, What: process}})
	}
}

// End records the end of a process's trouble. For a process that was down, the given time is when
// its start began, and now it is ready.
func (l *Log) End(began history.MonoTime, kind history.TroubleKind, process string) {
	if l != nil {
		l.history.RecordSince(began, "", history.FaultEnd{Trouble: history.Trouble{Kind: kind, What: process}})
	}
}

// RecordTriggers returns a [fault.Config] callback that records each time a fault takes effect.
func RecordTriggers(recorder *history.Recorder) func(fault.Fault, fault.Point, fault.Attributes) {
	return func(f fault.Fault, point fault.Point, about fault.Attributes) {
		recorder.Record("", history.FaultTrigger{Fault: f.Name, Point: string(point), About: encodeJSON(about)})
	}
}
