package sim

import (
	"fmt"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// coverage returns what the run exercised, by name: the counts of its nodes, and what its history
// records.
func (c *cluster) coverage() map[string]int {
	all := counts{}
	for _, node := range c.script.NodeNames() {
		for what, n := range c.kernels[node].counts { // sums do not depend on the order
			all[what] += n
		}
	}
	disks := newDiskHistory()
	for _, e := range c.record.events {
		if at := c.processes[oldKubeletOf(strings.TrimPrefix(e.Process, kubeletPrefix))]; at != nil && e.Boot != "" && e.Boot == at.boot {
			all.add("told by older kubelets: " + string(e.Fact.Name()))
		}
		switch fact := e.Fact.(type) {
		case history.FaultTrigger:
			all.add(fact.Point + " struck")
		case history.Commit:
			disks.add(fact, all)
		case history.Unmount:
			all.add("volumes unmounted")
		case history.Decide:
			if fact.Controller == garbageCollector || fact.Controller == namespaceController {
				all.add(fmt.Sprintf("cascades: %s %s", fact.Action, fact.Resource))
			} else if fact.Controller == cronJobController {
				all.add(fmt.Sprintf("cronjobs: %s %s", fact.Action, fact.Resource))
			} else if fact.Controller == deploymentController {
				all.add(fmt.Sprintf("rollouts: %s %s", fact.Action, fact.Resource))
			} else if fact.Action == "patch" && fact.Resource == "pods" && fact.ReadRevision != "" {
				all.add("pods claimed or released by the " + fact.Controller)
			}
		case history.WebhookCall:
			all.add("webhooks: " + string(fact.Answer))
		case history.Blocker:
			all.add("said to wait for " + fact.Reason)
		case history.Window:
			all.add("windows told")
		case history.PreStopBegin:
			all.add("preStop hooks")
		}
	}
	return all
}
