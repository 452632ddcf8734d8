package sim

import (
	"fmt"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// met is what a life has met, by what it is called: what its nodes have counted, and what
// its history tells of.
func (c *cluster) met() map[string]int {
	all := met{}
	for _, node := range c.script.NodeNames() {
		for what, n := range c.kernels[node].met { // sums do not depend on the order
			all[what] += n
		}
	}
	disks := newDiskHistory()
	for _, e := range c.record.events {
		if at := c.processes[twinOf(strings.TrimPrefix(e.Process, kubeletPrefix))]; at != nil && e.Boot != "" && e.Boot == at.boot {
			all.count("told by older kubelets: " + string(e.Fact.Name()))
		}
		switch fact := e.Fact.(type) {
		case history.FaultTrigger:
			all.count(fact.Point + " struck")
		case history.Commit:
			disks.take(fact, all)
		case history.Unmount:
			all.count("volumes unmounted")
		case history.Decide:
			if fact.Controller == garbageCollector || fact.Controller == namespaceController {
				all.count(fmt.Sprintf("cascades: %s %s", fact.Action, fact.Resource))
			} else if fact.Controller == cronJobController {
				all.count(fmt.Sprintf("cronjobs: %s %s", fact.Action, fact.Resource))
			} else if fact.Controller == deploymentController {
				all.count(fmt.Sprintf("rollouts: %s %s", fact.Action, fact.Resource))
			} else if fact.Action == "patch" && fact.Resource == "pods" && fact.ReadRevision != "" {
				all.count("pods claimed or released by the " + fact.Controller)
			}
		case history.WebhookCall:
			all.count("webhooks: " + string(fact.Answer))
		case history.Blocker:
			all.count("said to wait for " + fact.Reason)
		case history.Window:
			all.count("windows told")
		case history.PreStopBegin:
			all.count("preStop hooks")
		}
	}
	return all
}
