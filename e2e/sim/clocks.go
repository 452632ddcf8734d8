package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/workload"
)

// SkewClock skews the clock of a process for a while. Its Detail is the skew as in the product's
// clock.skew: "1h0m0s" ahead, "-90s" behind, or "5%" faster. Waits take as long as with a correct
// clock.
const SkewClock ActionKind = "mislead the clock of"

// DeleteReadyAhead deletes all pods of a set whose Ready condition has a future time.
const DeleteReadyAhead ActionKind = "delete pods ready ahead of"

// clockFault returns the product's fault for an action, starting now.
func clockFault(action Action, i int, now time.Time) fault.Fault {
	f, err := fault.New(fmt.Sprintf("clock-skew-%d", i), fault.Spec{
		Point: fault.ClockSkew, Where: fault.Attributes{Process: action.Name},
		Effect: fault.Effect{Kind: fault.Value, Value: action.Detail}, Duration: metav1.Duration{Duration: action.For},
	}, now)
	if err != nil {
		panic("sim: an action is no fault: " + err.Error()) // a mistake in the simulator
	}
	return f
}

// planClockFaults schedules the clock faults and their ends. A process keeps its clock across
// incarnations, like a product's process whose fault state says that the clock is skewed.
func (c *cluster) planClockFaults() {
	clocks := map[string]*skewedClock{}
	for i, action := range c.script.Actions {
		if action.Kind != SkewClock {
			continue
		}
		its := clocks[action.Name]
		if its == nil {
			its = c.addSkewedClock(action.Name)
			clocks[action.Name] = its
		}
		var told history.Trouble
		c.At(action.At, func() {
			f := clockFault(action, i, c.now)
			said, err := json.Marshal(f)
			if err != nil {
				panic("sim: " + err.Error()) // plain values
			}
			told = history.Trouble{Kind: history.TroubleFault, What: f.Name, Arguments: said}
			its.setFaults(append(its.faults, f))
			c.Note(nemesis, history.FaultBegin{Trouble: told})
		})
		c.At(action.At+action.For, func() {
			its.setFaults(slices.DeleteFunc(its.faults, func(f fault.Fault) bool { return f.Name == told.What }))
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// skewedClock is a clock and its faults.
type skewedClock struct {
	driver *clock.Driver
	faults []fault.Fault
}

// addSkewedClock gives a process a clock that can be skewed.
func (w *World) addSkewedClock(name string) *skewedClock {
	face, err := clock.NewSchedule(w.start, 1)
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
	its := &skewedClock{driver: clock.NewDriver(face)}
	w.processes[name].clock = its.driver.Clock()
	return its
}

// setFaults skews the clock by the first fault, as a process of the product does.
func (m *skewedClock) setFaults(faults []fault.Fault) {
	m.faults = faults
	if len(faults) == 0 {
		m.driver.ClearSkew()
		return
	}
	ahead, rate, err := fault.ParseSkew(faults[0].Spec.Effect.Value)
	if err != nil {
		panic("sim: " + err.Error()) // it was checked
	}
	m.driver.SetSkew(clock.Skew{Since: faults[0].Since, Offset: ahead, Rate: rate})
}

// clockPause is the mean time between two clock faults.
const clockPause = 6 * time.Minute

// drawClockFaults skews clocks, one after the other, in one of four runs with faults. It uses its
// own dice.
func drawClockFaults(seed uint64, nodes []string, until time.Duration, actions []Action) (all []Action) {
	if !hasFaults(actions) || !newDice(seed, "clocks", 0).oneIn(4) {
		return nil
	}
	for n := 0; ; n++ {
		d := newDice(seed, "clock", n)
		node := pick(d, nodes...)
		action := Action{
			At: 40*time.Second + time.Duration(n)*clockPause, Kind: SkewClock,
			Name: pick(d, APIServer, Controllers, "kubelet/"+node, "kubelet/"+node, "runtime/"+node), Detail: drawSkew(d),
		}
		action.At += d.between(0, clockPause/2)
		action.For = pick(d, d.between(time.Second, 30*time.Second), d.between(30*time.Second, 3*time.Minute), d.between(3*time.Minute, 20*time.Minute))
		if action.At >= until-time.Minute {
			return all
		}
		action.For = min(action.For, until-cleanupBefore-action.At)
		if !slices.ContainsFunc(all, func(before Action) bool { return before.Name == action.Name && before.At+before.For >= action.At }) {
			all = append(all, action)
		}
	}
}

// drawReadyAheadDeletes deletes pods that are Ready since a future time, once all clocks are
// correct. As upstream, such a pod is available only at that time, and its Deployment is not rolled
// out before.
func drawReadyAheadDeletes(until time.Duration, actions []Action) (all []Action) {
	if !slices.ContainsFunc(actions, func(action Action) bool { return action.Kind == SkewClock }) {
		return nil
	}
	asked := map[string]bool{}
	for _, made := range actions {
		if made.Kind != CreateDeployment || asked[made.Name] {
			continue
		}
		asked[made.Name] = true
		for _, at := range []time.Duration{until, until + retried} { // as lastRollout
			all = append(all, Action{At: at, Kind: DeleteReadyAhead, Name: made.Name})
		}
	}
	return all
}

// readyAhead returns the pods whose Ready condition has a future time.
func readyAhead(pods []kinds.Object, now time.Time) []kinds.Object {
	return slices.DeleteFunc(slices.Clone(pods), func(obj kinds.Object) bool {
		pod, is := obj.(*corev1.Pod)
		return !is || !workload.ReadySince(pod).After(now)
	})
}

// drawSkew draws how far a clock is ahead or behind, or how much faster or slower it runs.
func drawSkew(d *dice) string {
	by := pick(d, d.between(time.Second, time.Minute), d.between(time.Minute, time.Hour), time.Hour, 24*time.Hour, d.between(time.Hour, 24*time.Hour))
	behind, percent := d.oneIn(2), d.below(11)-5
	switch {
	case percent != 0 && d.oneIn(4):
		return fmt.Sprintf("%d%%", percent)
	case behind:
		by = -by
	}
	return by.Round(time.Second).String()
}

// simplifiedClocks returns simpler clock faults for the action; none for other actions.
func (d Action) simplifiedClocks() []string {
	if d.Kind != SkewClock {
		return nil
	}
	return slices.DeleteFunc([]string{"1h0m0s", "-1h0m0s"}, func(ways string) bool { return ways == d.Detail })
}
