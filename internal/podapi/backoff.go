package podapi

import "time"

// backoff is how long a copy waits before it lists again (WCH-31): 0.8 s, doubled up
// to 30 s, each spread over up to twice its length, and from the start after two
// minutes of peace. It is pure: time and chance are given to it.
type backoff struct {
	next time.Duration
	last time.Time
}

const (
	backoffFirst = 800 * time.Millisecond
	backoffMost  = 30 * time.Second
	backoffReset = 2 * time.Minute
)

// after is the wait that begins now, and the backoff from then on; chance is from 0 up
// to 1.
func (b backoff) after(now time.Time, chance float64) (time.Duration, backoff) {
	if b.next == 0 || now.Sub(b.last) > backoffReset {
		b.next = backoffFirst
	}
	wait := b.next + time.Duration(chance*float64(b.next))
	return wait, backoff{next: min(2*b.next, backoffMost), last: now}
}
