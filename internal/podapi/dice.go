package podapi

import (
	"hash/fnv"
	"sync"
	"time"
)

// dice draws numbers that its seed decides (SplitMix64).
type dice struct {
	seed  uint64
	mu    sync.Mutex
	state uint64
}

func newDice(seed uint64) *dice { return &dice{seed: seed, state: seed} }

// of is the dice of one part of what d is for, such as one copy: which of the parts draws
// first changes nothing for the others.
func (d *dice) of(part string) *dice {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(part)) // never fails
	return newDice(d.seed ^ sum.Sum64())
}

// fraction is a number from 0 up to, but not including, 1.
func (d *dice) fraction() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// between is a duration from low up to high.
func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.fraction()*float64(high-low))
}
