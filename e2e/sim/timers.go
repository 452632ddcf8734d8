package sim

import "time"

// timers holds the functions that a process runs at a time, by key.
type timers map[string]*timer

type timer struct {
	at time.Time
	do func(now time.Time, out Out)
}

// set runs a function at a time, in place of an earlier one of that key. Setting the same again
// costs nothing.
func (t timers) set(key string, at time.Time, do func(time.Time, Out), out Out) {
	if old := t[key]; old != nil && old.at.Equal(at) {
		old.do = do
		return
	}
	t[key] = &timer{at, do}
	out.Wake(key, at)
}

// soonest is like set, unless the key has an earlier time.
func (t timers) soonest(key string, at time.Time, do func(time.Time, Out), out Out) {
	if old := t[key]; old == nil || at.Before(old.at) {
		t.set(key, at, do, out)
	}
}

// stop removes a timer.
func (t timers) stop(key string, out Out) {
	if t[key] != nil {
		delete(t, key)
		out.Wake(key, time.Time{})
	}
}

// fire runs a due timer.
func (t timers) fire(now time.Time, key string, out Out) {
	if due := t[key]; due != nil && !now.Before(due.at) {
		delete(t, key)
		due.do(now, out)
	}
}
