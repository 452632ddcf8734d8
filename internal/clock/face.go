package clock

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Segment is one stretch of a [Face]: from the instant Wall on, the clock shows Shows and
// runs Speed times as fast as the wall, or stands still while it is Paused.
type Segment struct {
	Wall  time.Time `json:"wall"`
	Shows time.Time `json:"shows"`
	// Speed is from 0.001 to 10,000, also while the clock is paused: it is the speed at
	// which it will go on.
	Speed  float64 `json:"speed"`
	Paused bool    `json:"paused,omitempty"`
}

// Face is what a clock shows at each instant of the wall: segments in the order in which
// they are in force, at least one. The first also stretches back to all that was before it.
// A face never goes back. It is a value: a change makes another.
type Face []Segment

// mostSegments is how many changes a face remembers. What is older is reckoned as if the
// oldest of them had been in force.
const mostSegments = 64

// The slowest and the fastest clock.
const (
	leastSpeed = 0.001
	mostSpeed  = 10_000
)

// NewFace shows at when the wall does, and runs speed times as fast. Speed is from 0.001
// to 10,000.
func NewFace(at time.Time, speed float64) (Face, error) {
	if err := checkSpeed(speed); err != nil {
		return nil, err
	}
	return Face{{Wall: at, Shows: at.Round(0), Speed: speed}}, nil
}

func checkSpeed(speed float64) error {
	if !(speed >= leastSpeed && speed <= mostSpeed) {
		return fmt.Errorf("speed %v: want a number from 0.001 to 10000", speed)
	}
	return nil
}

// Check says what is wrong with a face that comes from elsewhere, such as a file.
func (f Face) Check() error {
	if len(f) == 0 {
		return errors.New("clock: a face without segments; want at least one")
	}
	for i, segment := range f {
		if err := checkSpeed(segment.Speed); err != nil {
			return fmt.Errorf("clock: segment %d: %w", i, err)
		}
		if i == 0 {
			continue
		}
		if before := f[i-1]; segment.Wall.Before(before.Wall) || segment.Shows.Before(before.of(segment.Wall)) {
			return fmt.Errorf("clock: segment %d goes back; want one that begins when, and shows at least what, segment %d shows then", i, i-1)
		}
	}
	return nil
}

// At is the segment that is in force at an instant of the wall.
func (f Face) At(wall time.Time) Segment { return f[f.index(wall)] }

func (f Face) index(wall time.Time) int {
	for i := len(f) - 1; i > 0; i-- {
		if !wall.Before(f[i].Wall) {
			return i
		}
	}
	return 0
}

// Of is what the face shows at an instant of the wall.
func (f Face) Of(wall time.Time) time.Time { return f.At(wall).of(wall) }

// When is the first instant, from on, at which the face shows that time or a later one;
// false when it will not, because it stands still.
func (f Face) When(shows, from time.Time) (time.Time, bool) {
	for i := f.index(from); i < len(f); i++ {
		segment := f[i]
		if i > 0 && from.Before(segment.Wall) {
			from = segment.Wall
		}
		if !segment.of(from).Before(shows) {
			return from, true
		}
		wall, ok := segment.when(shows)
		if ok && (i == len(f)-1 || wall.Before(f[i+1].Wall)) {
			return wall, true
		}
	}
	return time.Time{}, false
}

// Paced is the face that runs at another speed from an instant on; a clock that is paused
// stays so. Speed is from 0.001 to 10,000.
func (f Face) Paced(at time.Time, speed float64) (Face, error) {
	if err := checkSpeed(speed); err != nil {
		return nil, err
	}
	return f.changed(at, func(s *Segment) { s.Speed = speed }), nil
}

// PausedFrom is the face that stands still from an instant on.
func (f Face) PausedFrom(at time.Time) Face {
	return f.changed(at, func(s *Segment) { s.Paused = true })
}

// ResumedFrom is the face that goes on, from an instant on.
func (f Face) ResumedFrom(at time.Time) Face {
	return f.changed(at, func(s *Segment) { s.Paused = false })
}

// Stepped is the face that jumps ahead by d at an instant. D is longer than nothing and at
// most a hundred years: time does not go back.
func (f Face) Stepped(at time.Time, d time.Duration) (Face, error) {
	if d <= 0 || d > longestStep {
		return nil, fmt.Errorf("step %v: want a duration of more than 0s, and at most a hundred years: time does not go back", d)
	}
	return f.changed(at, func(s *Segment) { s.Shows = s.Shows.Add(d) }), nil
}

const longestStep = 100 * 365 * 24 * time.Hour

// changed is the face with a segment more, which begins at an instant, or with the last
// that there is when that is later: changes take effect in the order in which they are made.
func (f Face) changed(at time.Time, change func(*Segment)) Face {
	last := f[len(f)-1]
	if at.Before(last.Wall) {
		at = last.Wall
	}
	next := Segment{Wall: at, Shows: last.of(at), Speed: last.Speed, Paused: last.Paused}
	change(&next)
	changed := append(Face{}, f...)
	if at.Equal(last.Wall) && len(f) > 1 {
		changed = changed[:len(f)-1]
	}
	changed = append(changed, next)
	return changed[max(0, len(changed)-mostSegments):]
}

// After is the face f for somebody who has shown the face old until now, and has heard of
// f late: it stands still rather than go back, until f has caught up.
func (f Face) After(old Face, now time.Time) Face {
	shown := old.Of(now)
	if !f.Of(now).Before(shown) {
		return f
	}
	current := f.index(now)
	hold := Segment{Wall: now, Shows: shown, Speed: f[current].Speed, Paused: true}
	late := append(append(Face{}, f[:current+1]...), hold)
	again, ok := f.When(shown, now)
	if !ok {
		return late
	}
	current = f.index(again)
	next := f[current]
	next.Wall, next.Shows = again, f.Of(again)
	return append(append(late, next), f[current+1:]...)
}

// of is what the segment shows at an instant of the wall.
func (s Segment) of(wall time.Time) time.Time {
	switch elapsed := wall.Sub(s.Wall); {
	case s.Paused:
		return s.Shows
	case s.Speed == 1:
		return s.Shows.Add(elapsed)
	default:
		return s.Shows.Add(time.Duration(float64(elapsed) * s.Speed))
	}
}

// when is the instant at which the segment, if it lasted, would show that time.
func (s Segment) when(shows time.Time) (time.Time, bool) {
	left := math.Ceil(float64(shows.Sub(s.Shows)) / s.Speed)
	if s.Paused || left >= float64(longestStep) {
		return time.Time{}, false
	}
	wall := s.Wall.Add(time.Duration(left))
	for s.of(wall).Before(shows) { // a number of 53 bits is not exact
		wall = wall.Add(1)
	}
	return wall, true
}
