package clock

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Movement drives the clocks of a process: they show its face, and whoever has the Movement
// may change that. It is safe for concurrent use.
type Movement struct {
	face atomic.Pointer[Face]
	// wrong is how wrong its clocks read; nil for never.
	wrong atomic.Pointer[errs]

	mu sync.Mutex
	// known says that the face is not only what it was made with.
	known  bool
	alarms alarms
	// set counts the alarms, for the order of those that are due at the same time.
	set uint64
	// bell goes off when the first alarm is due; nil until there has been one.
	bell *time.Timer
}

// NewMovement shows a face, which has passed [Face.Check] if it comes from elsewhere. Until
// the first change it is what is known for want of a better: that alone may go back behind
// it.
func NewMovement(face Face) *Movement {
	m := &Movement{}
	pinned := face.pinned(nil, time.Now())
	m.face.Store(&pinned)
	return m
}

// Clock is a clock that shows the movement's face, whatever that is by then.
func (m *Movement) Clock() Clock { return Clock{m} }

// Face is what the movement shows.
func (m *Movement) Face() Face { return *m.face.Load() }

// Set gives the movement another face, and aims anew whatever waits. If the face shows
// less than has been shown by now, because this process has heard of it late, its clocks
// stand still until it has caught up.
func (m *Movement) Set(face Face) {
	_ = m.Change(func(Face, time.Time) (Face, error) { return face, nil })
}

// Change is Set with what change makes of the present face, now, unless that is an error.
func (m *Movement) Change(change func(face Face, now time.Time) (Face, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, old := time.Now(), m.Face()
	face, err := change(old, now)
	if err != nil {
		return err
	}
	next := face.pinned(old, now)
	if m.known {
		next = next.After(old, now)
	}
	m.known = true
	if !slices.EqualFunc(next, old, Segment.same) {
		m.face.Store(&next)
		m.aim(now)
	}
	return nil
}

// pinned is the face with its instants on this process' monotonic clock: those that old
// has too as they are there, others as the wall has them now.
func (f Face) pinned(old Face, now time.Time) Face {
	pinned := slices.Clone(f)
	for i, segment := range pinned {
		known := slices.IndexFunc(old, segment.same)
		if known >= 0 {
			pinned[i] = old[known]
			continue
		}
		pinned[i].Wall = now.Add(segment.Wall.Round(0).Sub(now.Round(0)))
		pinned[i].Shows = segment.Shows.Round(0)
	}
	return pinned
}

// same reports whether both are one segment, as written down.
func (s Segment) same(other Segment) bool {
	return s.Wall.Round(0).Equal(other.Wall.Round(0)) && s.Shows.Equal(other.Shows) && s.Speed == other.Speed && s.Paused == other.Paused
}

// alarm is something that is due at a time of the cluster. Its fields are the movement's
// once it is set.
type alarm struct {
	// due is when it rings next.
	due time.Time
	// every is the time to the next of a ticker's; zero rings once.
	every time.Duration
	// c is told the time, unless it is full; nil for none.
	c chan time.Time
	// then is called, without the movement's lock; nil for nothing.
	then func()

	order uint64
	index int // among the alarms; -1 when it is not one
}

// add sets an alarm.
func (m *Movement) add(a *alarm) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.push(a)
	if a.index == 0 {
		m.aim(time.Now())
	}
}

// remove takes an alarm back, and reports whether it has not rung or nobody has heard it.
func (m *Movement) remove(a *alarm) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drop(a)
}

// reset takes an alarm back and sets it anew, to ring d later than now.
func (m *Movement) reset(a *alarm, d time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := m.drop(a)
	now := time.Now()
	a.due = m.Face().Of(now).Add(d)
	m.push(a)
	if a.index == 0 {
		m.aim(now)
	}
	return dropped
}

// push is add for one who has the lock.
func (m *Movement) push(a *alarm) {
	m.set++
	a.order = m.set
	heap.Push(&m.alarms, a)
}

// drop is remove for one who has the lock.
func (m *Movement) drop(a *alarm) bool {
	if a.index >= 0 {
		heap.Remove(&m.alarms, a.index)
		return true
	}
	select {
	case <-a.c:
		return true
	default:
		return false
	}
}

// aim sets the bell to when the first alarm is due. It is called under the lock.
func (m *Movement) aim(now time.Time) {
	if len(m.alarms) == 0 {
		return
	}
	when, ok := m.Face().When(m.alarms[0].due, now)
	switch {
	case !ok && m.bell != nil:
		m.bell.Stop()
	case !ok:
	case m.bell == nil:
		m.bell = time.AfterFunc(when.Sub(now), m.strike)
	default:
		m.bell.Reset(when.Sub(now))
	}
}

// strike rings all alarms that are due, in order.
func (m *Movement) strike() {
	for {
		m.mu.Lock()
		now := time.Now()
		shows := m.Face().Of(now)
		if len(m.alarms) == 0 || m.alarms[0].due.After(shows) {
			m.aim(now)
			m.mu.Unlock()
			return
		}
		a := m.alarms[0]
		heap.Pop(&m.alarms)
		if a.every > 0 {
			a.due = shows.Add(a.every - shows.Sub(a.due)%a.every) // a step passes over ticks
			m.push(a)
		}
		select {
		case a.c <- shows:
		default:
		}
		m.mu.Unlock()
		if a.then != nil {
			a.then()
		}
	}
}

// alarms is a heap, the first that is due on top.
type alarms []*alarm

func (q alarms) Len() int { return len(q) }

func (q alarms) Less(i, j int) bool {
	if order := q[i].due.Compare(q[j].due); order != 0 {
		return order < 0
	}
	return q[i].order < q[j].order
}

func (q alarms) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *alarms) Push(x any) {
	a, _ := x.(*alarm)
	a.index = len(*q)
	*q = append(*q, a)
}

// Pop implements heap.Interface.
func (q *alarms) Pop() any {
	last := len(*q) - 1
	a := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	a.index = -1
	return a
}
