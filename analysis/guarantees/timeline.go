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
type timeline struct {
	// events holds all events in their order.
	events []*history.Event
	// byFact holds the events by the type of their fact.
	byFact map[reflect.Type][]*history.Event
	// boots holds the boots of each process, in the order of their first events.
	incarnations map[string][]*incarnation
	// completeFrom is the monotonic time before which old files may have been deleted. What began
	// before it is not judged.
	from int64
	// latest is the monotonic time at which the history ends.
	latest int64
}

// processBoot holds the events of one boot of a process.
type incarnation struct {
	boot   proto.Boot
	events []*history.Event
	// firstBegan and lastBegan are the monotonic times at which the first and the last event began.
	from, to int64
	// lastEnded is the monotonic time at which the last event ended.
	ended int64
}

func newTimeline(size int) timeline {
	return timeline{
		events: make([]*history.Event, 0, size),
		byFact: map[reflect.Type][]*history.Event{}, incarnations: map[string][]*incarnation{},
	}
}

// add indexes an event.
func (l *timeline) add(e *history.Event) {
	l.events = append(l.events, e)
	fact := reflect.TypeOf(e.Fact)
	l.byFact[fact] = append(l.byFact[fact], e)
	l.latest = max(l.latest, e.Ended)
	i := l.incarnation(e)
	if i == nil {
		i = &incarnation{boot: e.Boot, from: e.Began, to: e.Began}
		l.incarnations[e.Process] = append(l.incarnations[e.Process], i)
	}
	i.events = append(i.events, e)
	i.from, i.to, i.ended = min(i.from, e.Began), max(i.to, e.Began), max(i.ended, e.Ended)
}

// bootOf returns the boot that recorded an event; nil if it is not indexed yet.
func (l *timeline) incarnation(e *history.Event) *incarnation {
	for _, i := range slices.Backward(l.incarnations[e.Process]) {
		if i.boot == e.Boot {
			return i
		}
	}
	return nil
}

// factsOf visits the events with facts of type F, in their order.
func factsOf[F history.Fact](p *past) iter.Seq2[*history.Event, F] {
	return func(yield func(*history.Event, F) bool) {
		for _, e := range p.byFact[reflect.TypeFor[F]()] {
			if fact, is := e.Fact.(F); is && !yield(e, fact) {
				return
			}
		}
	}
}

// sharedResults holds what several checkers need. Each result is computed on first use.
type found struct {
	lives      func() []*pod
	effects    func() []effect
	record     func() record
	lookups    func() []*lookup
	namespaces func() []string
	streams    func() []*stream
	watched    func() (from int64, all bool)
	calms      func() []calm
	waits      func() []*wait
	asked      func() questions // about pods
}

// share returns the results that several checkers need, each computed on first use.
func (p *past) find() found {
	return found{
		lives:      sync.OnceValue(p.findLives),
		effects:    sync.OnceValue(p.findEffects),
		record:     sync.OnceValue(p.findRecord),
		lookups:    sync.OnceValue(p.findLookups),
		namespaces: sync.OnceValue(p.findNamespaces),
		streams:    sync.OnceValue(p.findStreams),
		watched:    sync.OnceValues(p.findWatched),
		calms:      sync.OnceValue(p.findCalms),
		waits:      sync.OnceValue(p.findWaits),
		asked:      sync.OnceValue(func() questions { return p.questions(podResource) }),
	}
}
