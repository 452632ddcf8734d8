package podapi

import "time"

// backoff computes how long a copy waits before it lists again (WCH-31): 0.8 s, doubled up to 30 s,
// each jittered up to twice its length. After two minutes without a failure it starts over. It is
// pure: time and random number are parameters.
type backoff struct {
	next time.Duration
	last time.Time
}

const (
	backoffFirst = 800 * time.Millisecond
	backoffMax   = 30 * time.Second
	backoffReset = 2 * time.Minute
)

// advance returns the wait that begins now, and the backoff after it. The random number chance is
// in [0, 1).
func (b backoff) advance(now time.Time, chance float64) (time.Duration, backoff) {
	if b.next == 0 || now.Sub(b.last) > backoffReset {
		b.next = backoffFirst
	}
	wait := b.next + time.Duration(chance*float64(b.next))
	return wait, backoff{next: min(2*b.next, backoffMax), last: now}
}
