package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// FaultAtPoint injects a fault of the product's catalogue on a node. Its Detail is the point and
// the effect, for example "volume.unmount hang".
const FaultAtPoint ActionKind = "break"

// pointFault returns the fault of an action, starting now.
func pointFault(action Action, i int, now time.Time) fault.Fault {
	point, kind, _ := strings.Cut(action.Detail, " ")
	f, err := fault.New(fmt.Sprintf("%s-%d", strings.ReplaceAll(point, ".", "-"), i), fault.Spec{
		Point: fault.Point(point), Where: fault.Attributes{Node: action.Name},
		Effect: fault.Effect{Kind: fault.Kind(kind)}, Duration: metav1.Duration{Duration: action.For},
	}, now)
	if err != nil {
		panic("sim: an action is no fault: " + err.Error()) // a mistake in the simulator
	}
	return f
}

// injectAtPoint begins a fault on a node and returns the history's record of it. The fault ends by
// itself.
func (c *cluster) injectAtPoint(action Action, i int) history.Trouble {
	f := pointFault(action, i, c.now)
	faults := []fault.Fault{f}
	for _, old := range c.kernels[action.Name].faults.Faults() {
		if !old.Expired(c.now) {
			faults = append(faults, old)
		}
	}
	c.kernels[action.Name].faults.Set(faults)
	said, err := json.Marshal(f)
	if err != nil {
		panic("sim: " + err.Error()) // plain values
	}
	return history.Trouble{Kind: history.TroubleFault, What: f.Name, Arguments: said}
}

// planPointFaults schedules the actions that inject faults at points of nodes.
func (c *cluster) planPointFaults() {
	for i, action := range c.script.Actions {
		if action.Kind != FaultAtPoint {
			continue
		}
		var told history.Trouble
		c.At(action.At, func() {
			told = c.injectAtPoint(action, i)
			c.Note(nemesis, history.FaultBegin{Trouble: told})
		})
		c.At(action.At+action.For, func() { c.Note(nemesis, history.FaultEnd{Trouble: told}) })
	}
}

// breakPause is the mean time between two such faults.
const breakPause = 4 * time.Minute

// drawPointFaults draws the faults at points.
func drawPointFaults(seed uint64, nodes []string, until time.Duration) []Action {
	var all []Action
	for n := 0; ; n++ {
		d := newDice(seed, "break", n)
		action := Action{
			At: time.Minute + time.Duration(n)*breakPause + d.between(0, breakPause), Kind: FaultAtPoint, Name: pick(d, nodes...),
			Detail: pick(d, "volume.mount", "volume.unmount", "volume.unmount", "volume.remove-dir") + " " + pick(d, "error", "hang"),
			For:    pick(d, d.between(3*time.Second, 30*time.Second), d.between(30*time.Second, 3*time.Minute)),
		}
		if action.At+action.For >= until {
			return all
		}
		all = append(all, action)
	}
}
