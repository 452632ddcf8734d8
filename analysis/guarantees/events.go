package guarantees

import (
	"iter"
	"reflect"
	"slices"
	"sync"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// eventIndex holds the events of a history, by process and by fact type.
type eventIndex struct {
	// events holds all events in their order.
	events []*history.Event
	// byFact holds the events by the type of their fact.
	byFact map[reflect.Type][]*history.Event
	// boots holds the boots of each process, in the order of their first events.
	boots map[string][]*processBoot
	// completeFrom is the monotonic time before which old files may have been deleted. What began
	// before it is not judged.
	completeFrom int64
	// latest is the monotonic time at which the history ends.
	latest int64
}

// processBoot holds the events of one boot of a process.
type processBoot struct {
	boot   proto.Boot
	events []*history.Event
	// firstBegan and lastBegan are the monotonic times at which the first and the last event began.
	firstBegan, lastBegan int64
	// lastEnded is the monotonic time at which the last event ended.
	lastEnded int64
}

func newEventIndex(size int) eventIndex {
	return eventIndex{
		events: make([]*history.Event, 0, size),
		byFact: map[reflect.Type][]*history.Event{}, boots: map[string][]*processBoot{},
	}
}

// add indexes an event.
func (l *eventIndex) add(e *history.Event) {
	l.events = append(l.events, e)
	fact := reflect.TypeOf(e.Fact)
	l.byFact[fact] = append(l.byFact[fact], e)
	l.latest = max(l.latest, e.Ended)
	i := l.bootOf(e)
	if i == nil {
		i = &processBoot{boot: e.Boot, firstBegan: e.Began, lastBegan: e.Began}
		l.boots[e.Process] = append(l.boots[e.Process], i)
	}
	i.events = append(i.events, e)
	i.firstBegan, i.lastBegan, i.lastEnded = min(i.firstBegan, e.Began), max(i.lastBegan, e.Began), max(i.lastEnded, e.Ended)
}

// bootOf returns the boot that recorded an event; nil if it is not indexed yet.
func (l *eventIndex) bootOf(e *history.Event) *processBoot {
	for _, i := range slices.Backward(l.boots[e.Process]) {
		if i.boot == e.Boot {
			return i
		}
	}
	return nil
}

// factsOf visits the events with facts of type F, in their order.
func factsOf[F history.Fact](h *clusterHistory) iter.Seq2[*history.Event, F] {
	return func(yield func(*history.Event, F) bool) {
		for _, e := range h.byFact[reflect.TypeFor[F]()] {
			if fact, is := e.Fact.(F); is && !yield(e, fact) {
				return
			}
		}
	}
}

// sharedResults holds what several checkers need. Each result is computed on first use.
type sharedResults struct {
	completePods    func() []*podHistory
	effects         func() []effect
	commitLog       func() commitLog
	lookups         func() []*lookup
	namespaces      func() []string
	streams         func() []*stream
	troubleCoverage func() (from int64, all bool)
	calmPeriods     func() []calmPeriod
	removalWaits    func() []*removalWait
	podListings     func() listings // about pods
}

// share returns the results that several checkers need, each computed on first use.
func (h *clusterHistory) share() sharedResults {
	return sharedResults{
		completePods:    sync.OnceValue(h.findCompletePods),
		effects:         sync.OnceValue(h.findEffects),
		commitLog:       sync.OnceValue(h.findCommitLog),
		lookups:         sync.OnceValue(h.findLookups),
		namespaces:      sync.OnceValue(h.findNamespaces),
		streams:         sync.OnceValue(h.findStreams),
		troubleCoverage: sync.OnceValues(h.findTroubleCoverage),
		calmPeriods:     sync.OnceValue(h.findCalmPeriods),
		removalWaits:    sync.OnceValue(h.findRemovalWaits),
		podListings:     sync.OnceValue(func() listings { return h.listingsOf(podResource) }),
	}
}
