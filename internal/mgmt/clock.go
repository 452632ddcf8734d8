package mgmt

import (
	"errors"
	"time"

	"github.com/podfall/podfall/internal/clock"
)

// ClockChangeLead is how far ahead, in wall time, a clock change takes effect, so that every
// process has learned of it by then.
const ClockChangeLead = 100 * time.Millisecond

// ClockChange is a requested change of the cluster's clock. Its fields are applied in their order,
// at one instant.
type ClockChange struct {
	// Speed is cluster time per wall time, 0.001 to 10,000; 0 leaves it unchanged.
	Speed float64 `json:"speed,omitempty"`
	// Step is how far the clock jumps ahead; 0 for no step.
	Step   time.Duration `json:"step,omitempty"`
	Pause  bool          `json:"pause,omitempty"`
	Resume bool          `json:"resume,omitempty"`
}

var errPauseAndResume = errors.New("pause, resume: want one of them")

// apply returns the schedule with the change at an instant.
func (m ClockChange) apply(schedule clock.Schedule, at time.Time) (clock.Schedule, error) {
	if m == (ClockChange{}) {
		return nil, ErrNoChange
	}
	if m.Pause && m.Resume {
		return nil, errPauseAndResume
	}
	var err error
	if m.Speed != 0 {
		if schedule, err = schedule.WithSpeed(at, m.Speed); err != nil {
			return nil, err
		}
	}
	if m.Step != 0 {
		if schedule, err = schedule.WithStep(at, m.Step); err != nil {
			return nil, err
		}
	}
	switch {
	case m.Pause:
		schedule = schedule.WithPause(at)
	case m.Resume:
		schedule = schedule.WithResume(at)
	}
	return schedule, nil
}
