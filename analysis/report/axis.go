package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// percent is a position or a width on the page's axis, 0 to 100.
type percent float64

// String returns the number as SVG takes it, without the sign.
func (p percent) String() string { return strconv.FormatFloat(float64(p), 'f', 3, 64) }

// axis maps instants of the monotonic clock to positions and to cluster times.
type axis struct {
	knots   []knot
	samples []sample
}

// knot is the position of an instant. Between two knots time passes evenly.
type knot struct {
	at int64
	x  float64
	// idle says that nothing happens until the next knot, which is drawn nearer.
	idle bool
}

// sample is a reading of the cluster's clock.
type sample struct {
	at      int64
	cluster time.Time
}

const (
	// idleFrom is the share of the whole from which a stretch is idle, and idleAs the share it is
	// drawn as.
	idleFrom, idleAs = 0.08, 0.03
	// margin is left empty on both sides.
	margin = 0.01
	// maxNanos limits durations to what fits into an int64, in nanoseconds.
	maxNanos = float64(1 << 62)
)

// newAxis returns the axis for some instants.
func newAxis(events []history.Event, instants []int64) axis {
	instants = slices.Compact(slices.Sorted(slices.Values(instants)))
	first, last := instants[0], instants[len(instants)-1]
	whole := max(nanosBetween(first, last), 1)
	type stretch struct {
		from, to int64
		weight   float64
		idle     bool
	}
	var stretches []stretch
	from := first
	for i, at := range instants[1:] {
		before := instants[i]
		if nanosBetween(before, at) < idleFrom*whole {
			continue
		}
		if before > from {
			stretches = append(stretches, stretch{from, before, nanosBetween(from, before), false})
		}
		stretches = append(stretches, stretch{before, at, idleAs * whole, true})
		from = at
	}
	if last > from || len(stretches) == 0 {
		stretches = append(stretches, stretch{from, max(last, from+1), max(nanosBetween(from, last), 1), false})
	}
	total := 0.0
	for _, s := range stretches {
		total += s.weight
	}
	a := axis{samples: sampleClock(events, first, last, skewedProcesses(events))}
	if len(a.samples) == 0 { // no clock was right: use what they showed
		a.samples = sampleClock(events, first, last, func(string) bool { return false })
	}
	x := margin
	for _, s := range stretches {
		a.knots = append(a.knots, knot{s.from, x, s.idle})
		x += s.weight / total * (1 - 2*margin)
	}
	a.knots = append(a.knots, knot{stretches[len(stretches)-1].to, 1 - margin, false})
	return a
}

// nanosBetween returns the nanoseconds from an instant to a later one. In a damaged history that
// may be more than an int64 holds.
func nanosBetween(from, to int64) float64 {
	if between := to - from; between >= 0 {
		return float64(between)
	}
	return float64(to) - float64(from)
}

// position returns the position of an instant. Instants before or after the axis are at its ends.
func (a axis) position(at int64) percent {
	i, _ := slices.BinarySearchFunc(a.knots, at, func(k knot, at int64) int { return cmp.Compare(k.at, at) })
	switch {
	case i == 0:
		return percent(100 * a.knots[0].x)
	case i == len(a.knots):
		return percent(100 * a.knots[i-1].x)
	}
	from, to := a.knots[i-1], a.knots[i]
	share := nanosBetween(from.at, at) / nanosBetween(from.at, to.at)
	return percent(100 * (from.x + share*(to.x-from.x)))
}

// span returns the position and width of a stretch, which is never too narrow to be seen.
func (a axis) span(from, to int64) (x, width percent) {
	x = a.position(from)
	return x, max(a.position(to)-x, 0.04)
}

// sampleClock returns readings of the cluster's clock over time: the median of the processes,
// without those whose clocks were set wrong.
func sampleClock(events []history.Event, first, last int64, wrong func(process string) bool) []sample {
	const buckets = 240
	latest := make([]map[string]sample, buckets+1)
	for _, e := range events {
		if e.Ended < first || e.Ended > last || e.Process == "" || wrong(e.Process) {
			continue
		}
		i := int(nanosBetween(first, e.Ended) / max(nanosBetween(first, last), 1) * buckets)
		if latest[i] == nil {
			latest[i] = map[string]sample{}
		}
		if _, before := latest[i][e.Process]; i > 0 || !before { // the first bucket keeps its first reading, so that the beginning is known
			latest[i][e.Process] = sample{e.Ended, e.Wall}
		}
	}
	var all []sample
	for _, bucket := range latest {
		if len(bucket) == 0 {
			continue
		}
		var votes []sample
		for _, vote := range bucket {
			votes = append(votes, vote)
		}
		slices.SortFunc(votes, func(a, b sample) int {
			return cmp.Or(a.cluster.Add(-time.Duration(a.at)).Compare(b.cluster.Add(-time.Duration(b.at))), cmp.Compare(a.at, b.at))
		})
		middle := votes[len(votes)/2]
		if len(all) == 0 || middle.at > all[len(all)-1].at && !middle.cluster.Before(all[len(all)-1].cluster) {
			all = append(all, middle)
		}
	}
	return all
}

// skewedProcesses returns a function that tells the processes whose clocks a fault skews at any
// time.
func skewedProcesses(events []history.Event) func(process string) bool {
	var patterns []string
	for _, e := range events {
		begin, ok := e.Fact.(history.FaultBegin)
		var f fault.Fault
		if ok && begin.Kind == history.TroubleFault && json.Unmarshal(begin.Arguments, &f) == nil && f.Spec.Point == fault.ClockSkew && f.Spec.Where.Process != "" {
			patterns = append(patterns, strings.Split(f.Spec.Where.Process, ",")...)
		}
	}
	return func(process string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return matchesPattern(pattern, process) })
	}
}

// clusterTime returns what the cluster's clock showed at an instant.
func (a axis) clusterTime(at int64) time.Time {
	if len(a.samples) == 0 {
		return time.Time{}
	}
	i, _ := slices.BinarySearchFunc(a.samples, at, func(s sample, at int64) int { return cmp.Compare(s.at, at) })
	if i == 0 || i == len(a.samples) {
		return a.samples[max(i-1, 0)].cluster
	}
	from, to := a.samples[i-1], a.samples[i]
	share := nanosBetween(from.at, at) / nanosBetween(from.at, to.at)
	return from.cluster.Add(time.Duration(share * float64(to.cluster.Sub(from.cluster))))
}

// instantOf returns the instant at which the cluster's clock showed a time; the beginning if
// nothing is known.
func (a axis) instantOf(shows time.Time) int64 {
	if len(a.samples) == 0 {
		return a.knots[0].at
	}
	i, _ := slices.BinarySearchFunc(a.samples, shows, func(s sample, shows time.Time) int { return s.cluster.Compare(shows) })
	if i == 0 || i == len(a.samples) {
		return a.samples[max(i-1, 0)].at
	}
	from, to := a.samples[i-1], a.samples[i]
	share := float64(shows.Sub(from.cluster)) / float64(to.cluster.Sub(from.cluster))
	return from.at + int64(share*nanosBetween(from.at, to.at))
}

// axisView is the axis as the page shows it.
type axisView struct {
	Began, Lasted string
	Ticks         []tick
	// Idle holds the stretches that are drawn short.
	Idle []bar
}

// tick is a label with a cluster time.
type tick struct {
	X percent
	// Level is 1 for ticks that are always shown, and 2 or 3 for those of a closer look.
	Level int
	Text  string
}

func (a axis) view() axisView {
	first, last := a.knots[0].at, a.knots[len(a.knots)-1].at
	began, ended := a.clusterTime(first), a.clusterTime(last)
	v := axisView{
		Began:  began.UTC().Format("2006-01-02 15:04:05 UTC"),
		Lasted: fmt.Sprintf("%s of cluster time, %s of wall-clock time", formatBriefly(ended.Sub(began)), formatBriefly(time.Duration(min(nanosBetween(first, last), maxNanos)))),
		Ticks:  a.ticks(began, ended),
	}
	for i, k := range a.knots {
		if k.idle {
			x, width := a.span(k.at, a.knots[i+1].at)
			v.Idle = append(v.Idle, bar{Kind: "idle", X: x, Width: width, Text: "nothing happens for " + formatBriefly(a.clusterTime(a.knots[i+1].at).Sub(a.clusterTime(k.at)))})
		}
	}
	return v
}

// ticks returns ticks at round cluster times since the beginning, none too near to another.
func (a axis) ticks(began, ended time.Time) []tick {
	var ticks []tick
	for level, most := range []int{10, 40, 160} {
		lasted := ended.Sub(began)
		step := roundUp(lasted / time.Duration(most))
		for after := time.Duration(0); 0 <= after && after <= lasted; after += step { // until the end, or until a duration overflows
			x := a.position(a.instantOf(began.Add(after)))
			near := func(t tick) bool { return max(t.X-x, x-t.X) < percent(80/float64(most)) }
			if !slices.ContainsFunc(ticks, near) {
				ticks = append(ticks, tick{x, level + 1, "+" + formatBriefly(after)})
			}
		}
	}
	return ticks
}

// roundUp returns the least round duration that is not less than d.
func roundUp(d time.Duration) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
		100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if step >= d {
			return step
		}
	}
	return d.Truncate(day) + day
}

// formatBriefly formats a duration with at most two digits of its smaller unit.
func formatBriefly(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// lastClusterTime returns what the cluster's clock showed at the end.
func (a axis) lastClusterTime() time.Time { return a.clusterTime(a.knots[len(a.knots)-1].at) }

func durationOf(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
