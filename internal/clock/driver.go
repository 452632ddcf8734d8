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
type Driver struct {
	schedule atomic.Pointer[Schedule]
	// skew holds the skews set so far; nil if there was none.
	skew atomic.Pointer[skews]

	mu sync.Mutex
	// changed is false while the schedule is still the one given to NewDriver.
	changed bool
	alarms  alarms
	// added counts the alarms added. It orders alarms that are due at the same time.
	added uint64
	// timer fires when the first alarm is due; nil until there was an alarm.
	timer *time.Timer
}

// NewDriver returns a driver with a schedule. A schedule from elsewhere must have passed
// [Schedule.Check]. The initial schedule is provisional: only the first change may set the clock
// back.
func NewDriver(schedule Schedule) *Driver {
	m := &Driver{}
	pinned := schedule.withMonotonic(nil, time.Now())
	m.schedule.Store(&pinned)
	return m
}

// Clock returns a clock that follows the driver's schedule and its later changes.
func (m *Driver) Clock() Clock { return Clock{m} }

// Schedule returns the current schedule.
func (m *Driver) Schedule() Schedule { return *m.schedule.Load() }

// Set replaces the schedule and rearms everything that waits. If this process learns of the
// schedule late and has read later times already, its clocks stand still until the schedule has
// caught up.
func (m *Driver) Set(schedule Schedule) {
	_ = m.Change(func(Schedule, time.Time) (Schedule, error) { return schedule, nil })
}

// Change calls change with the current schedule and wall time, and sets the schedule that it
// returns. If change fails, Change returns its error and sets nothing.
func (m *Driver) Change(change func(schedule Schedule, now time.Time) (Schedule, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, old := time.Now(), m.Schedule()
	schedule, err := change(old, now)
	if err != nil {
		return err
	}
	next := schedule.withMonotonic(old, now)
	if m.changed {
		next = next.KeepMonotonic(old, now)
	}
	m.changed = true
	if !slices.EqualFunc(next, old, Segment.equal) {
		m.schedule.Store(&next)
		m.rearm(now)
	}
	return nil
}

// withMonotonic returns the schedule with its wall times on this process' monotonic clock. Segments
// that old has too are taken from old. The others are placed relative to the wall clock now.
func (f Schedule) withMonotonic(old Schedule, now time.Time) Schedule {
	pinned := slices.Clone(f)
	for i, segment := range pinned {
		known := slices.IndexFunc(old, segment.equal)
		if known >= 0 {
			pinned[i] = old[known]
			continue
		}
		pinned[i].Wall = now.Add(segment.Wall.Round(0).Sub(now.Round(0)))
		pinned[i].Reading = segment.Reading.Round(0)
	}
	return pinned
}

// equal reports whether both segments have the same serialized values.
func (s Segment) equal(other Segment) bool {
	return s.Wall.Round(0).Equal(other.Wall.Round(0)) && s.Reading.Equal(other.Reading) && s.Speed == other.Speed && s.Paused == other.Paused
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
	callback func()

	order uint64
	index int // in the heap; -1 if not queued
}

func (m *Driver) add(a *alarm) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(a)
	if a.index == 0 {
		m.rearm(time.Now())
	}
}

// remove cancels an alarm. It reports whether the alarm was pending or its firing unread.
func (m *Driver) remove(a *alarm) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removeLocked(a)
}

// reset cancels an alarm and adds it again, due d from now. It reports what remove does.
func (m *Driver) reset(a *alarm, d time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := m.removeLocked(a)
	now := time.Now()
	a.due = m.Schedule().TimeAt(now).Add(d)
	m.addLocked(a)
	if a.index == 0 {
		m.rearm(now)
	}
	return dropped
}

// addLocked is add for callers that hold the lock.
func (m *Driver) addLocked(a *alarm) {
	m.added++
	a.order = m.added
	heap.Push(&m.alarms, a)
}

// removeLocked is remove for callers that hold the lock.
func (m *Driver) removeLocked(a *alarm) bool {
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
func (m *Driver) rearm(now time.Time) {
	if len(m.alarms) == 0 {
		return
	}
	when, ok := m.Schedule().WallTime(m.alarms[0].due, now)
	switch {
	case !ok && m.timer != nil:
		m.timer.Stop()
	case !ok:
	case m.timer == nil:
		m.timer = time.AfterFunc(when.Sub(now), m.fire)
	default:
		m.timer.Reset(when.Sub(now))
	}
}

// fire runs all alarms that are due, in order.
func (m *Driver) fire() {
	for {
		m.mu.Lock()
		now := time.Now()
		reading := m.Schedule().TimeAt(now)
		if len(m.alarms) == 0 || m.alarms[0].due.After(reading) {
			m.rearm(now)
			m.mu.Unlock()
			return
		}
		a := m.alarms[0]
		heap.Pop(&m.alarms)
		if a.every > 0 {
			a.due = reading.Add(a.every - reading.Sub(a.due)%a.every) // a step skips ticks
			m.addLocked(a)
		}
		select {
		case a.c <- reading:
		default:
		}
		m.mu.Unlock()
		if a.callback != nil {
			a.callback()
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
