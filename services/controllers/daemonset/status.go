package daemonset

import (
	"github.com/podfall/podfall/services/controllers/workload"
)

// setStatus computes the status (updateDaemonSetStatus).
func (s *planning) setStatus() {
	s.Status = *s.Set.Status.DeepCopy()
	status := &s.Status
	status.ObservedGeneration = s.Set.Generation
	status.DesiredNumberScheduled, status.CurrentNumberScheduled, status.NumberMisscheduled = 0, 0, 0
	status.NumberReady, status.UpdatedNumberScheduled, status.NumberAvailable = 0, 0, 0
	for _, node := range s.Nodes {
		should, _ := ShouldRun(s.Set, node)
		pods := s.onNode[node.Name]
		if !should {
			if len(pods) > 0 {
				status.NumberMisscheduled++
			}
			continue
		}
		status.DesiredNumberScheduled++
		if len(pods) == 0 {
			continue
		}
		status.CurrentNumberScheduled++
		oldest := pods[0]
		if workload.IsReady(oldest) {
			status.NumberReady++
			if s.isAvailable(oldest) {
				status.NumberAvailable++
			}
		}
		if hashOf(oldest) == s.Hash {
			status.UpdatedNumberScheduled++
		}
	}
	status.NumberUnavailable = status.DesiredNumberScheduled - status.NumberAvailable
	s.RequeueAfter = minDelay(s.RequeueAfter, workload.NextAvailable(s.Pods, s.Set.Spec.MinReadySeconds, s.now))
}
