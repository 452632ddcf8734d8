package gateway

import (
	"math"
	"testing"
	"time"
)

// TestAgo: the more seconds, the longer ago, also where a duration has no room for them.
func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	last := now
	for _, seconds := range []int64{1, 3600, 9_000_000_000, 9_300_000_000, math.MaxInt64} {
		at := secondsBefore(now, seconds)
		if !at.Before(now) || at.After(last) {
			t.Errorf("%d s ago is %v, and less was %v", seconds, at, last)
		}
		last = at
	}
	if at := secondsBefore(now, 90); !at.Equal(now.Add(-90 * time.Second)) {
		t.Errorf("90 s before %v is %v", now, at)
	}
}
