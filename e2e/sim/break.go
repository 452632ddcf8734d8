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

// BreakPoint has a node meet a fault of the product's catalogue: its Ways are the point and
// what happens there, such as "volume.unmount hang".
const BreakPoint What = "break"

// faultOf is the fault that a deed is, from now on.
func faultOf(deed Deed, i int, now time.Time) fault.Fault {
	point, kind, _ := strings.Cut(deed.Ways, " ")
	f, err := fault.New(fmt.Sprintf("%s-%d", strings.ReplaceAll(point, ".", "-"), i), fault.Spec{
		Point: fault.Point(point), Where: fault.Attributes{Node: deed.Name},
		Effect: fault.Effect{Kind: fault.Kind(kind)}, Duration: metav1.Duration{Duration: deed.For},
	}, now)
	if err != nil {
		panic("sim: a deed is no fault: " + err.Error()) // a mistake in the simulator
	}
	return f
}

// breakPoint has a fault begin on a node, and what the history is told of it. It is over by
// itself.
func (c *cluster) breakPoint(deed Deed, i int) history.Trouble {
	f := faultOf(deed, i, c.now)
	faults := []fault.Fault{f}
	for _, old := range c.kernels[deed.Name].faults.Faults() {
		if !old.Expired(c.now) {
			faults = append(faults, old)
		}
	}
	c.kernels[deed.Name].faults.Set(faults)
	said, err := json.Marshal(f)
	if err != nil {
		panic("sim: " + err.Error()) // plain values
	}
	return history.Trouble{Kind: history.TroubleFault, What: f.Name, Arguments: said}
}

// breaks plans the deeds that break a point of nodes.
func (c *cluster) breaks() {
	for i, deed := range c.script.Deeds {
		if deed.Do != BreakPoint {
			continue
		}
		var told history.Trouble
		c.At(deed.At, func() {
			told = c.breakPoint(deed, i)
			c.Note(nemesis, history.FaultBegin{Trouble: told})
		})
		c.At(deed.At+deed.For, func() { c.Note(nemesis, history.FaultEnd{Trouble: told}) })
	}
}

// breakPause is between two such faults, on average.
const breakPause = 4 * time.Minute

// breaksOf are those of a life.
func breaksOf(seed uint64, nodes []string, until time.Duration) []Deed {
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "break", n)
		deed := Deed{
			At: time.Minute + time.Duration(n)*breakPause + d.between(0, breakPause), Do: BreakPoint, Name: pick(d, nodes...),
			Ways: pick(d, "volume.mount", "volume.unmount", "volume.unmount", "volume.remove-dir") + " " + pick(d, "error", "hang"),
			For:  pick(d, d.between(3*time.Second, 30*time.Second), d.between(30*time.Second, 3*time.Minute)),
		}
		if deed.At+deed.For >= until {
			return all
		}
		all = append(all, deed)
	}
}
