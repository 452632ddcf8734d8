package partition

import (
	"slices"
	"strconv"
	"time"

	"github.com/podfall/podfall/internal/fault"
)

// Condition is the state of a link; the zero value is a healthy link.
type Condition struct {
	FromNode, ToNode OneWay
}

// OneWay is the state of a link in one direction.
type OneWay struct {
	// Manner defaults to Carry.
	Manner Manner
	// Latency and up to Jitter more is the delay of bytes in cluster time. The Seed determines the
	// jitter.
	Latency, Jitter time.Duration
	Seed            uint64
	// Bandwidth is in bytes a second of cluster time; 0 means no limit.
	Bandwidth int64
}

// IsHealthy reports whether the link carries everything without delay.
func (c Condition) IsHealthy() bool { return c == Condition{} }

// HoldBoth returns the condition of a link that holds everything in both directions.
func HoldBoth() Condition {
	return Condition{FromNode: OneWay{Manner: Hold}, ToNode: OneWay{Manner: Hold}}
}

// ResetBoth returns the condition of a link that resets everything.
func ResetBoth() Condition {
	return Condition{FromNode: OneWay{Manner: Reset}, ToNode: OneWay{Manner: Reset}}
}

// Manner returns what happens to traffic in a direction. A reset applies to both directions,
// because it breaks the whole connection.
func (c Condition) Manner(direction Direction) Manner {
	if c.FromNode.Manner == Reset || c.ToNode.Manner == Reset {
		return Reset
	}
	if manner := c.In(direction).Manner; manner != "" {
		return manner
	}
	return Carry
}

// In returns the state of the link in one direction.
func (c Condition) In(direction Direction) OneWay {
	if direction == FromNode {
		return c.FromNode
	}
	return c.ToNode
}

// Delay returns the delay of the nth chunk of a member.
func (w OneWay) Delay(member string, nth uint64) time.Duration {
	if w.Jitter <= 0 {
		return w.Latency
	}
	return w.Latency + time.Duration(fault.Chance(w.Seed, member, strconv.FormatUint(nth, 10))*float64(w.Jitter))
}

// TransmitTime returns how long so many bytes take at the link's bandwidth.
func (w OneWay) TransmitTime(bytes int64) time.Duration {
	if w.Bandwidth <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(w.Bandwidth) * float64(time.Second))
}

// IsSlow reports whether the link delays what it carries.
func (w OneWay) IsSlow() bool { return w.Latency > 0 || w.Jitter > 0 || w.Bandwidth > 0 }

// ConditionOf combines the cuts into the condition of a member's link at a cluster time. It also
// returns when the condition changes next by itself; zero if never. Expired cuts, and cuts of
// single kinds of message, do not affect the link.
func ConditionOf(cuts []Cut, member string, members []string, now time.Time) (c Condition, next time.Time) {
	for _, cut := range cuts {
		over := !cut.Until.IsZero() && !now.Before(cut.Until)
		if over || len(cut.Spec.Only) > 0 || !slices.Contains(cut.Spec.CutOff(members), member) {
			continue
		}
		state, change := cut.stateAt(now)
		if cut.Spec.Direction != ToNode {
			c.FromNode = c.FromNode.combine(state)
		}
		if cut.Spec.Direction != FromNode {
			c.ToNode = c.ToNode.combine(state)
		}
		next = earlier(earlier(next, cut.Until), change)
	}
	return c, next
}

// stateAt returns the state that a cut imposes at an instant, and when flapping changes it.
func (c Cut) stateAt(now time.Time) (state OneWay, change time.Time) {
	state = c.Spec.oneWay()
	if c.Spec.Flap == (Flap{}) {
		return state, change
	}
	down, change := c.Spec.Flap.stateAt(now.Sub(c.Since), now)
	if !down {
		state.Manner = ""
	}
	return state, change
}

// earlier returns the earlier of two instants; a zero instant means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// oneWay returns the state that the cut imposes while it is in force.
func (s Spec) oneWay() OneWay {
	way := OneWay{
		Manner: s.Manner, Latency: s.Latency.Duration, Jitter: s.Jitter.Duration, Seed: s.Seed, Bandwidth: s.Bandwidth,
	}
	switch {
	case way.Manner == Carry, way.Manner == "" && way.IsSlow():
		way.Manner = ""
	case way.Manner == "":
		way.Manner = Hold
	}
	return way
}

// combine returns both together: the harder manner, both latencies, the smaller bandwidth.
func (w OneWay) combine(v OneWay) OneWay {
	both := OneWay{Manner: w.Manner, Latency: w.Latency + v.Latency, Jitter: w.Jitter + v.Jitter, Seed: w.Seed ^ v.Seed, Bandwidth: w.Bandwidth}
	if v.Manner == Reset || w.Manner == "" {
		both.Manner = v.Manner
	}
	if v.Bandwidth > 0 && (both.Bandwidth == 0 || v.Bandwidth < both.Bandwidth) {
		both.Bandwidth = v.Bandwidth
	}
	return both
}

// stateAt reports whether the link is down at a time since the flapping began, and when that
// changes.
func (f Flap) stateAt(since time.Duration, now time.Time) (down bool, change time.Time) {
	period := f.Down.Duration + f.Up.Duration
	into := since % period
	if into < 0 {
		into += period
	}
	if into < f.Down.Duration {
		return true, now.Add(f.Down.Duration - into)
	}
	return false, now.Add(period - into)
}
