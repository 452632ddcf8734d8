package sim

import "time"

// timers are what a process does at a time, by key.
type timers map[string]*timer

type timer struct {
	at time.Time
	do func(now time.Time, out Out)
}

// set has something done at a time, in place of what was to be done under that key. Who
// sets the same again costs nothing.
func (t timers) set(key string, at time.Time, do func(time.Time, Out), out Out) {
	if old := t[key]; old != nil && old.at.Equal(at) {
		old.do = do
		return
	}
	t[key] = &timer{at, do}
	out.Wake(key, at)
}

// soonest is set, unless something is to be done sooner under that key.
func (t timers) soonest(key string, at time.Time, do func(time.Time, Out), out Out) {
	if old := t[key]; old == nil || at.Before(old.at) {
		t.set(key, at, do, out)
	}
}

// stop takes a timer away.
func (t timers) stop(key string, out Out) {
	if t[key] != nil {
		delete(t, key)
		out.Wake(key, time.Time{})
	}
}

// fire does what is due.
func (t timers) fire(now time.Time, key string, out Out) {
	if due := t[key]; due != nil && !now.Before(due.at) {
		delete(t, key)
		due.do(now, out)
	}
}
