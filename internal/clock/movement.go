package clock

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Driver holds the schedule of a process, changes it, and fires the timers of its clocks. It is
// safe for concurrent use.
type Movement struct {
	face atomic.Pointer[Face]
	// skew holds the skews set so far; nil if there was none.
	wrong atomic.Pointer[errs]

	mu sync.Mutex
	// changed is false while the schedule is still the one given to NewDriver.
	known  bool
	alarms alarms
	// added counts the alarms added. It orders alarms that are due at the same time.
	set uint64
	// timer fires when the first alarm is due; nil until there was an alarm.
	bell *time.Timer
}

// NewDriver returns a driver with a schedule. A schedule from elsewhere must have passed
// [Schedule.Check]. The initial schedule is provisional: only the first change may set the clock
// back.
func NewMovement(face Face) *Movement {
	m := &Movement{}
	pinned := face.pinned(nil, time.Now())
	m.face.Store(&pinned)
	return m
}

// Clock returns a clock that follows the driver's schedule and its later changes.
func (m *Movement) Clock() Clock { return Clock{m} }

// Schedule returns the current schedule.
func (m *Movement) Face() Face { return *m.face.Load() }

// Set replaces the schedule and rearms everything that waits. If this process learns of the
// schedule late and has read later times already, its clocks stand still until the schedule has
// caught up.
func (m *Movement) Set(face Face) {
	_ = m.Change(func(Face, time.Time) (Face, error) { return face, nil })
}

// Change calls change with the current schedule and wall time, and sets the schedule that it
// returns. If change fails, Change returns its error and sets nothing.
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

// withMonotonic returns the schedule with its wall times on this process' monotonic clock. Segments
// that old has too are taken from old. The others are placed relative to the wall clock now.
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

// equal reports whether both segments have the same serialized values.
func (s Segment) same(other Segment) bool {
	return s.Wall.Round(0).Equal(other.Wall.Round(0)) && s.Shows.Equal(other.Shows) && s.Speed == other.Speed && s.Paused == other.Paused
}

// alarm is a callback or channel send that is due at a cluster time. After the alarm is added, the
// driver's lock guards its fields.
type alarm struct {
	// due is the cluster time of the next firing.
	due time.Time
	// every is the interval of a ticker; zero fires once.
	every time.Duration
	// c receives the cluster time unless it is full; nil for none.
	c chan time.Time
	// callback is called without the driver's lock; nil for none.
	then func()

	order uint64
	index int // in the heap; -1 if not queued
}

func (m *Movement) add(a *alarm) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.push(a)
	if a.index == 0 {
		m.aim(time.Now())
	}
}

// remove cancels an alarm. It reports whether the alarm was pending or its firing unread.
func (m *Movement) remove(a *alarm) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drop(a)
}

// reset cancels an alarm and adds it again, due d from now. It reports what remove does.
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

// addLocked is add for callers that hold the lock.
func (m *Movement) push(a *alarm) {
	m.set++
	a.order = m.set
	heap.Push(&m.alarms, a)
}

// removeLocked is remove for callers that hold the lock.
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

// rearm sets the timer to when the first alarm is due. Callers hold the lock.
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

// fire runs all alarms that are due, in order.
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

// alarms is a heap with the earliest alarm on top.
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
