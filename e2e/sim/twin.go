package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/kubelet"
)

// Twin has a node have two kubelets: one that is beside the machine, such as a copy of it
// that was forgotten, and the node's own, which begins anew a moment later and is the newer.
// The older speaks for the node for as long as it is let in.
const Twin What = "start a second kubelet"

// twinOf is the place of a node's older kubelet.
func twinOf(node string) string { return twinPrefix + node }

const (
	twinPrefix    = "kubelet-old/"
	kubeletPrefix = "kubelet/"
	// twinAlone is how long the older one is alone: it is heard first.
	twinAlone = 2 * time.Second
)

// toldAs is the name by which the history knows a process: a node's kubelets have one.
func toldAs(process string) string {
	if node, is := strings.CutPrefix(process, twinPrefix); is {
		return kubeletPrefix + node
	}
	return process
}

// beTwins makes the places of the older kubelets; nobody is there yet. Their machine is not
// the node, and has no runtime that answers.
func (c *cluster) beTwins() {
	for _, node := range c.script.NodeNames() {
		name := twinOf(node)
		c.processes[name] = &process{name: name, disk: Disk{}, begin: func() Process {
			k := newKubelet(node, c.kernels[node].copied(), kubelet.Default())
			k.of.runtime = ""
			return k
		}}
	}
}

// twins plans the times of two kubelets.
func (c *cluster) twins() {
	for i, deed := range c.script.Deeds {
		if deed.Do != Twin {
			continue
		}
		told := history.Trouble{Kind: history.TroubleFault, What: fmt.Sprintf("%s %s #%d", deed.Do, deed.Name, i)}
		own := kubeletPrefix + deed.Name
		c.At(deed.At, func() {
			c.Note(nemesis, history.FaultBegin{Trouble: told})
			c.take(own)
			c.Start(twinOf(deed.Name))
		})
		c.At(deed.At+twinAlone, func() { c.give(own) })
		c.At(deed.At+deed.For, func() {
			c.Crash(twinOf(deed.Name))
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// twinPause is between two such times.
const twinPause = 25 * time.Minute

// twinsOf are those of a life.
func twinsOf(seed uint64, nodes []string, until time.Duration) []Deed {
	var all []Deed
	for n := 0; ; n++ {
		d := diceOf(seed, "twin", n)
		deed := Deed{
			At: time.Minute + time.Duration(n)*twinPause + d.between(0, twinPause), Do: Twin, Name: pick(d, nodes...),
			For: d.between(15*time.Second, 2*time.Minute),
		}
		if deed.At+deed.For >= until {
			return all
		}
		all = append(all, deed)
	}
}
