package podapi

import (
	"hash/fnv"
	"sync"
	"time"
)

// rng is a seeded random number generator (SplitMix64).
type rng struct {
	seed  uint64
	mu    sync.Mutex
	state uint64
}

func newRNG(seed uint64) *rng { return &rng{seed: seed, state: seed} }

// derive returns an independent generator for one part, for example one copy. The order in which
// parts draw does not matter.
func (d *rng) derive(part string) *rng {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(part)) // never fails
	return newRNG(d.seed ^ sum.Sum64())
}

// fraction returns a number in [0, 1).
func (d *rng) fraction() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// durationBetween returns a duration in [low, high).
func (d *rng) durationBetween(low, high time.Duration) time.Duration {
	return low + time.Duration(d.fraction()*float64(high-low))
}
