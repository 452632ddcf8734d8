package gateway

import (
	"math"
	"testing"
	"time"
)

// TestSecondsBefore: more seconds are never later, also beyond the longest duration.
func TestSecondsBefore(t *testing.T) {
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
