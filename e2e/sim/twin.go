package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/kubelet"
)

// SecondKubelet gives a node two kubelets. The older one is not on the node's machine, like a
// forgotten copy. The node's own kubelet restarts a moment later and is newer. The older one acts
// for the node as long as the apiserver accepts it.
const SecondKubelet ActionKind = "start a second kubelet"

// oldKubeletOf names a node's older kubelet.
func oldKubeletOf(node string) string { return twinPrefix + node }

const (
	twinPrefix    = "kubelet-old/"
	kubeletPrefix = "kubelet/"
	// oldKubeletAlone is how long the older kubelet is alone, so that it is heard first.
	oldKubeletAlone = 2 * time.Second
)

// historyName returns a process's name in the history: the kubelets of a node share one.
func historyName(process string) string {
	if node, is := strings.CutPrefix(process, twinPrefix); is {
		return kubeletPrefix + node
	}
	return process
}

// addOldKubelets adds the older kubelets, which are not running yet. Their machine is not the node,
// and has no runtime that answers.
func (c *cluster) addOldKubelets() {
	for _, node := range c.script.NodeNames() {
		name := oldKubeletOf(node)
		c.processes[name] = &process{name: name, disk: Disk{}, begin: func() Process {
			k := newKubelet(node, c.kernels[node].copyOfDisk(), kubelet.Default())
			k.of.runtime = ""
			return k
		}}
	}
}

// planTwins schedules the times with two kubelets.
func (c *cluster) planTwins() {
	for i, action := range c.script.Actions {
		if action.Kind != SecondKubelet {
			continue
		}
		told := history.Trouble{Kind: history.TroubleFault, What: fmt.Sprintf("%s %s #%d", action.Kind, action.Name, i)}
		own := kubeletPrefix + action.Name
		c.At(action.At, func() {
			c.Note(nemesis, history.FaultBegin{Trouble: told})
			c.takeDown(own)
			c.Start(oldKubeletOf(action.Name))
		})
		c.At(action.At+oldKubeletAlone, func() { c.bringUp(own) })
		c.At(action.At+action.For, func() {
			c.Crash(oldKubeletOf(action.Name))
			c.Note(nemesis, history.FaultEnd{Trouble: told})
		})
	}
}

// twinPause is between two such times.
const twinPause = 25 * time.Minute

// drawTwins draws the times at which a node has two kubelets.
func drawTwins(seed uint64, nodes []string, until time.Duration) []Action {
	var all []Action
	for n := 0; ; n++ {
		d := newDice(seed, "twin", n)
		action := Action{
			At: time.Minute + time.Duration(n)*twinPause + d.between(0, twinPause), Kind: SecondKubelet, Name: pick(d, nodes...),
			For: d.between(15*time.Second, 2*time.Minute),
		}
		if action.At+action.For >= until {
			return all
		}
		all = append(all, action)
	}
}
