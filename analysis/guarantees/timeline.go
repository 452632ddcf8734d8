package guarantees

import (
	"iter"
	"reflect"
	"slices"
	"sync"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// timeline is the events of a history, by what checkers ask for.
type timeline struct {
	// events are all, in their order.
	events []*history.Event
	// byFact are those that tell facts of each type.
	byFact map[reflect.Type][]*history.Event
	// incarnations are those of each process, in the order of their first events.
	incarnations map[string][]*incarnation
	// from is the monotonic time before which old files may have been let go; what began
	// before it is not judged.
	from int64
	// latest is when the history ends.
	latest int64
}

// incarnation is what one boot of a process has told.
type incarnation struct {
	boot   proto.Boot
	events []*history.Event
	// from and to are when the first of them began, and the last, in monotonic time.
	from, to int64
	// ended is when the last of them was over.
	ended int64
}

func newTimeline(size int) timeline {
	return timeline{
		events: make([]*history.Event, 0, size),
		byFact: map[reflect.Type][]*history.Event{}, incarnations: map[string][]*incarnation{},
	}
}

// add adds an event.
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

// incarnation is the one that has told of an event; nil when it has told of nothing yet.
func (l *timeline) incarnation(e *history.Event) *incarnation {
	for _, i := range slices.Backward(l.incarnations[e.Process]) {
		if i.boot == e.Boot {
			return i
		}
	}
	return nil
}

// factsOf visits the events that tell facts of one type, in their order.
func factsOf[F history.Fact](p *past) iter.Seq2[*history.Event, F] {
	return func(yield func(*history.Event, F) bool) {
		for _, e := range p.byFact[reflect.TypeFor[F]()] {
			if fact, is := e.Fact.(F); is && !yield(e, fact) {
				return
			}
		}
	}
}

// found is what several checkers ask for. It is found out when the first does.
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
