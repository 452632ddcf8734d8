package partition

import (
	"slices"
	"strconv"
	"time"

	"github.com/podfall/podfall/internal/fault"
)

// Condition is what a link does; its zero value is a whole link.
type Condition struct {
	FromNode, ToNode Way
}

// Way is what a link does in one direction.
type Way struct {
	// Manner is Carry when empty.
	Manner Manner
	// Latency and up to Jitter more is how long bytes take, in the cluster's time; the
	// Seed decides.
	Latency, Jitter time.Duration
	Seed            uint64
	// Bandwidth is in bytes a second of the cluster; 0 means no limit.
	Bandwidth int64
}

// Whole reports whether everything is carried at once.
func (c Condition) Whole() bool { return c == Condition{} }

// Held is a link that holds everything, both ways.
func Held() Condition { return Condition{FromNode: Way{Manner: Hold}, ToNode: Way{Manner: Hold}} }

// Broken is a link that resets everything.
func Broken() Condition { return Condition{FromNode: Way{Manner: Reset}, ToNode: Way{Manner: Reset}} }

// Manner is what becomes of something that is about to cross the link: a connection is one
// thing, and cannot be broken in one direction only.
func (c Condition) Manner(way Direction) Manner {
	if c.FromNode.Manner == Reset || c.ToNode.Manner == Reset {
		return Reset
	}
	if manner := c.Way(way).Manner; manner != "" {
		return manner
	}
	return Carry
}

// Way is what the link does in one direction.
func (c Condition) Way(way Direction) Way {
	if way == FromNode {
		return c.FromNode
	}
	return c.ToNode
}

// Delay is how long the nth piece of a party's takes.
func (w Way) Delay(party string, nth uint64) time.Duration {
	if w.Jitter <= 0 {
		return w.Latency
	}
	return w.Latency + time.Duration(fault.Chance(w.Seed, party, strconv.FormatUint(nth, 10))*float64(w.Jitter))
}

// Takes is how long so many bytes take to pass a narrow link.
func (w Way) Takes(bytes int64) time.Duration {
	if w.Bandwidth <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(w.Bandwidth) * float64(time.Second))
}

// Slow reports whether what is carried takes its time.
func (w Way) Slow() bool { return w.Latency > 0 || w.Jitter > 0 || w.Bandwidth > 0 }

// Of is what the cuts together do to the link of a party at an instant of the cluster, and
// the next instant at which they do something else by themselves; zero when they do not.
// Cuts that are over, or that hold up kinds of message alone, do nothing to a link.
func Of(cuts []Cut, party string, parties []string, now time.Time) (c Condition, next time.Time) {
	for _, cut := range cuts {
		over := !cut.Until.IsZero() && !now.Before(cut.Until)
		if over || len(cut.Spec.Only) > 0 || !slices.Contains(cut.Spec.Off(parties), party) {
			continue
		}
		way, turn := cut.at(now)
		if cut.Spec.Direction != ToNode {
			c.FromNode = c.FromNode.and(way)
		}
		if cut.Spec.Direction != FromNode {
			c.ToNode = c.ToNode.and(way)
		}
		next = sooner(sooner(next, cut.Until), turn)
	}
	return c, next
}

// at is what a cut does at an instant, and when that changes because it flaps.
func (c Cut) at(now time.Time) (way Way, turn time.Time) {
	way = c.Spec.way()
	if c.Spec.Flap == (Flap{}) {
		return way, turn
	}
	down, turn := c.Spec.Flap.at(now.Sub(c.Since), now)
	if !down {
		way.Manner = ""
	}
	return way, turn
}

// sooner is the first of two instants; a zero one never comes.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// way is what the cut does while it does it.
func (s Spec) way() Way {
	way := Way{
		Manner: s.Manner, Latency: s.Latency.Duration, Jitter: s.Jitter.Duration, Seed: s.Seed, Bandwidth: s.Bandwidth,
	}
	switch {
	case way.Manner == Carry, way.Manner == "" && way.Slow():
		way.Manner = ""
	case way.Manner == "":
		way.Manner = Hold
	}
	return way
}

// and is both: the harder manner, both latencies, the narrower band.
func (w Way) and(v Way) Way {
	both := Way{Manner: w.Manner, Latency: w.Latency + v.Latency, Jitter: w.Jitter + v.Jitter, Seed: w.Seed ^ v.Seed, Bandwidth: w.Bandwidth}
	if v.Manner == Reset || w.Manner == "" {
		both.Manner = v.Manner
	}
	if v.Bandwidth > 0 && (both.Bandwidth == 0 || v.Bandwidth < both.Bandwidth) {
		both.Bandwidth = v.Bandwidth
	}
	return both
}

// at reports whether the link is down, a time after it has begun to flap, and when that
// changes.
func (f Flap) at(since time.Duration, now time.Time) (down bool, turn time.Time) {
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
