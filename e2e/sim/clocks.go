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

// Mislead has the clock of a process read wrong for a while: its Ways are how wrong, as the
// product's clock.skew has it, "1h0m0s" ahead, "-90s" behind, or "5%" faster. What waits, waits
// as long as with a right one.
const Mislead What = "mislead the clock of"

// DeleteAhead has users delete all pods of a set that are ready since a time to come.
const DeleteAhead What = "delete pods ready ahead of"

// skewOf is the product's fault that a deed is, from now on.
func skewOf(deed Deed, i int, now time.Time) fault.Fault {
	f, err := fault.New(fmt.Sprintf("clock-skew-%d", i), fault.Spec{
		Point: fault.ClockSkew, Where: fault.Attributes{Process: deed.Name},
		Effect: fault.Effect{Kind: fault.Value, Value: deed.Ways}, Duration: metav1.Duration{Duration: deed.For},
	}, now)
	if err != nil {
		panic("sim: a deed is no fault: " + err.Error()) // a mistake in the simulator
	}
	return f
}

// misleads plans the deeds that set clocks wrong, and right again. A process has its clock from
// one incarnation to the next, as where a board says that it is wrong.
func (c *cluster) misleads() {
	clocks := map[string]*misled{}
	for i, deed := range c.script.Deeds {
		if deed.Do != Mislead {
			continue
		}
		its := clocks[deed.Name]
		if its == nil {
			its = c.mislead(deed.Name)
			clocks[deed.Name] = its
		}
		var told history.Trouble
		c.At(deed.At, func() {
			f := skewOf(deed, i, c.now)
			said, err := json.Marshal(f)
			if err != nil {
				panic("sim: " + err.Error()) // plain values
			}
			told = history.Trouble{Kind: history.TroubleFault, What: f.Name, Arguments: said}
			its.set(append(its.faults, f))
			c.Note(nemesis, history.FaultBegin{Trouble: told})
		})
		c.At(deed.At+deed.For, func() {
			its.set(slices.DeleteFunc(its.faults, func(f fault.Fault) bool { return f.Name == told.What }))
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// misled is a clock, and what is wrong with it.
type misled struct {
	movement *clock.Driver
	faults   []fault.Fault
}

// mislead gives a process a clock that can be set wrong.
func (w *World) mislead(name string) *misled {
	face, err := clock.NewSchedule(w.start, 1)
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
	its := &misled{movement: clock.NewDriver(face)}
	w.processes[name].clock = its.movement.Clock()
	return its
}

// set has the clock be as wrong as the first of the faults says, as a product's process does.
func (m *misled) set(faults []fault.Fault) {
	m.faults = faults
	if len(faults) == 0 {
		m.movement.ClearSkew()
		return
	}
	ahead, rate, err := fault.ParseSkew(faults[0].Spec.Effect.Value)
	if err != nil {
		panic("sim: " + err.Error()) // it was checked
	}
	m.movement.SetSkew(clock.Skew{Since: faults[0].Since, Offset: ahead, Rate: rate})
}

// clockPause is between two such faults.
const clockPause = 6 * time.Minute

// clockDeeds set the clocks of a life in four wrong in which anything breaks, one after the
// other. They draw from dice of their own.
func clockDeeds(seed uint64, nodes []string, until time.Duration, deeds []Deed) (all []Deed) {
	if !troubled(deeds) || !diceOf(seed, "clocks", 0).one(4) {
		return nil
	}
	for n := 0; ; n++ {
		d := diceOf(seed, "clock", n)
		node := pick(d, nodes...)
		deed := Deed{
			At: 40*time.Second + time.Duration(n)*clockPause, Do: Mislead,
			Name: pick(d, APIServer, Controllers, "kubelet/"+node, "kubelet/"+node, "runtime/"+node), Ways: howWrong(d),
		}
		deed.At += d.between(0, clockPause/2)
		deed.For = pick(d, d.between(time.Second, 30*time.Second), d.between(30*time.Second, 3*time.Minute), d.between(3*time.Minute, 20*time.Minute))
		if deed.At >= until-time.Minute {
			return all
		}
		deed.For = min(deed.For, until-amendsBefore-deed.At)
		if !slices.ContainsFunc(all, func(before Deed) bool { return before.Name == deed.Name && before.At+before.For >= deed.At }) {
			all = append(all, deed)
		}
	}
}

// clockAmends has users delete, when all clocks are right, what a kubelet has called ready since a time to
// come: it is available only then, as upstream's, and until then its Deployment is not rolled out.
func clockAmends(until time.Duration, deeds []Deed) (all []Deed) {
	if !slices.ContainsFunc(deeds, func(deed Deed) bool { return deed.Do == Mislead }) {
		return nil
	}
	asked := map[string]bool{}
	for _, made := range deeds {
		if made.Do != CreateDeployment || asked[made.Name] {
			continue
		}
		asked[made.Name] = true
		for _, at := range []time.Duration{until, until + retried} { // as lastRollout
			all = append(all, Deed{At: at, Do: DeleteAhead, Name: made.Name})
		}
	}
	return all
}

// readyAhead are the pods that are ready since a time that is still to come.
func readyAhead(pods []kinds.Object, now time.Time) []kinds.Object {
	return slices.DeleteFunc(slices.Clone(pods), func(obj kinds.Object) bool {
		pod, is := obj.(*corev1.Pod)
		return !is || !workload.ReadySince(pod).After(now)
	})
}

// howWrong is how far a clock is ahead or behind, or how much faster or slower it runs.
func howWrong(d *dice) string {
	by := pick(d, d.between(time.Second, time.Minute), d.between(time.Minute, time.Hour), time.Hour, 24*time.Hour, d.between(time.Hour, 24*time.Hour))
	behind, percent := d.one(2), d.below(11)-5
	switch {
	case percent != 0 && d.one(4):
		return fmt.Sprintf("%d%%", percent)
	case behind:
		by = -by
	}
	return by.Round(time.Second).String()
}

// plainerClocks are plainer ways for a deed to set a clock wrong; other deeds have none.
func (d Deed) plainerClocks() []string {
	if d.Do != Mislead {
		return nil
	}
	return slices.DeleteFunc([]string{"1h0m0s", "-1h0m0s"}, func(ways string) bool { return ways == d.Ways })
}
