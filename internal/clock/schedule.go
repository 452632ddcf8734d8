package clock

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Segment is one piece of a [Schedule]. From the wall time Wall on, the clock reads Reading and
// runs at Speed times the wall's speed, or stands still while Paused.
type Segment struct {
	Wall    time.Time `json:"wall"`
	Reading time.Time `json:"shows"`
	// Speed ranges from 0.001 to 10,000. While the clock is paused, it is the speed after the
	// resume.
	Speed  float64 `json:"speed"`
	Paused bool    `json:"paused,omitempty"`
}

// Schedule maps wall time to cluster time: one or more segments, in the order in which they take
// effect. The first segment also covers all earlier times. A schedule never goes back. It is a
// value: a change returns another.
type Schedule []Segment

// maxSegments is how many changes a schedule keeps. Earlier times are mapped by the oldest segment
// kept.
const maxSegments = 64

// The slowest and the fastest clock.
const (
	minSpeed = 0.001
	maxSpeed = 10_000
)

// NewSchedule returns a schedule that reads wall time at the instant at, and runs speed times as
// fast as the wall from there. Speed must be from 0.001 to 10,000.
func NewSchedule(at time.Time, speed float64) (Schedule, error) {
	if err := checkSpeed(speed); err != nil {
		return nil, err
	}
	return Schedule{{Wall: at, Reading: at.Round(0), Speed: speed}}, nil
}

func checkSpeed(speed float64) error {
	if !(speed >= minSpeed && speed <= maxSpeed) {
		return fmt.Errorf("speed %v: want a number from 0.001 to 10000", speed)
	}
	return nil
}

// Check returns an error if a schedule from elsewhere, for example a file, is invalid.
func (f Schedule) Check() error {
	if len(f) == 0 {
		return errors.New("clock: schedule without segments; want at least one")
	}
	for i, segment := range f {
		if err := checkSpeed(segment.Speed); err != nil {
			return fmt.Errorf("clock: segment %d: %w", i, err)
		}
		if i == 0 {
			continue
		}
		if before := f[i-1]; segment.Wall.Before(before.Wall) || segment.Reading.Before(before.timeAt(segment.Wall)) {
			return fmt.Errorf("clock: segment %d goes back; want a beginning and a reading not before those of segment %d", i, i-1)
		}
	}
	return nil
}

// SegmentAt returns the segment in force at a wall time.
func (f Schedule) SegmentAt(wall time.Time) Segment { return f[f.segmentIndex(wall)] }

func (f Schedule) segmentIndex(wall time.Time) int {
	for i := len(f) - 1; i > 0; i-- {
		if !wall.Before(f[i].Wall) {
			return i
		}
	}
	return 0
}

// TimeAt returns the cluster time at a wall time.
func (f Schedule) TimeAt(wall time.Time) time.Time { return f.SegmentAt(wall).timeAt(wall) }

// WallTime returns the first wall time, not before from, at which the clock reads reading or later.
// It returns false if the clock stands still before that.
func (f Schedule) WallTime(reading, from time.Time) (time.Time, bool) {
	for i := f.segmentIndex(from); i < len(f); i++ {
		segment := f[i]
		if i > 0 && from.Before(segment.Wall) {
			from = segment.Wall
		}
		if !segment.timeAt(from).Before(reading) {
			return from, true
		}
		wall, ok := segment.wallTime(reading)
		if ok && (i == len(f)-1 || wall.Before(f[i+1].Wall)) {
			return wall, true
		}
	}
	return time.Time{}, false
}

// WithSpeed returns a schedule that runs at another speed from the wall time at. A paused clock
// stays paused. Speed must be from 0.001 to 10,000.
func (f Schedule) WithSpeed(at time.Time, speed float64) (Schedule, error) {
	if err := checkSpeed(speed); err != nil {
		return nil, err
	}
	return f.withSegment(at, func(s *Segment) { s.Speed = speed }), nil
}

// WithPause returns a schedule that stands still from the wall time at.
func (f Schedule) WithPause(at time.Time) Schedule {
	return f.withSegment(at, func(s *Segment) { s.Paused = true })
}

// WithResume returns a schedule that runs again from the wall time at.
func (f Schedule) WithResume(at time.Time) Schedule {
	return f.withSegment(at, func(s *Segment) { s.Paused = false })
}

// WithStep returns a schedule that jumps ahead by d at the wall time at. The step d must be
// positive and at most a hundred years: time does not go back.
func (f Schedule) WithStep(at time.Time, d time.Duration) (Schedule, error) {
	if d <= 0 || d > maxStep {
		return nil, fmt.Errorf("step %v: want a duration of more than 0s, and at most a hundred years: time does not go back", d)
	}
	return f.withSegment(at, func(s *Segment) { s.Reading = s.Reading.Add(d) }), nil
}

const maxStep = 100 * 365 * 24 * time.Hour

// withSegment returns the schedule with one more segment from the wall time at. If the last segment
// begins later, the change takes effect there: changes apply in the order in which they are made.
func (f Schedule) withSegment(at time.Time, change func(*Segment)) Schedule {
	last := f[len(f)-1]
	if at.Before(last.Wall) {
		at = last.Wall
	}
	next := Segment{Wall: at, Reading: last.timeAt(at), Speed: last.Speed, Paused: last.Paused}
	change(&next)
	changed := append(Schedule{}, f...)
	if at.Equal(last.Wall) && len(f) > 1 {
		changed = changed[:len(f)-1]
	}
	changed = append(changed, next)
	return changed[max(0, len(changed)-maxSegments):]
}

// KeepMonotonic adapts f for a process that has followed old until now and learns of f late. If f
// reads less than old at now, the clock stands still until f has caught up, rather than go back.
func (f Schedule) KeepMonotonic(old Schedule, now time.Time) Schedule {
	shown := old.TimeAt(now)
	if !f.TimeAt(now).Before(shown) {
		return f
	}
	current := f.segmentIndex(now)
	hold := Segment{Wall: now, Reading: shown, Speed: f[current].Speed, Paused: true}
	late := append(append(Schedule{}, f[:current+1]...), hold)
	again, ok := f.WallTime(shown, now)
	if !ok {
		return late
	}
	current = f.segmentIndex(again)
	next := f[current]
	next.Wall, next.Reading = again, f.TimeAt(again)
	return append(append(late, next), f[current+1:]...)
}

// timeAt returns the cluster time of the segment at a wall time.
func (s Segment) timeAt(wall time.Time) time.Time {
	switch elapsed := wall.Sub(s.Wall); {
	case s.Paused:
		return s.Reading
	case s.Speed == 1:
		return s.Reading.Add(elapsed)
	default:
		return s.Reading.Add(time.Duration(float64(elapsed) * s.Speed))
	}
}

// wallTime returns the wall time at which the segment, if it lasted, would read reading.
func (s Segment) wallTime(reading time.Time) (time.Time, bool) {
	left := math.Ceil(float64(reading.Sub(s.Reading)) / s.Speed)
	if s.Paused || left >= float64(maxStep) {
		return time.Time{}, false
	}
	wall := s.Wall.Add(time.Duration(left))
	for s.timeAt(wall).Before(reading) { // float64 rounds to 53 bits
		wall = wall.Add(1)
	}
	return wall, true
}
