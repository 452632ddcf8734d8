package podworker

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// RefreshProbes reports new probe results at once, and syncs the pod: a container may have failed,
// or a sidecar may have started that others wait for.
func (s *Workers) RefreshProbes(ctx context.Context, uid types.UID) {
	s.mu.Lock()
	w := s.workers[uid]
	s.mu.Unlock()
	if w == nil {
		return
	}
	seen, _ := s.cfg.Cache.Last(uid)
	w.mu.Lock()
	pod, state, waiting := w.machine.Pod(), w.machine.State(), w.waiting
	w.mu.Unlock()
	if state > Stopping || len(seen.Containers) == 0 {
		return
	}
	s.cfg.Status.Report(pod, seen, w.addProbes(pod, seen, status.Facts{MayRun: true, Waiting: waiting}))
	if state == Syncing {
		s.Step(ctx, uid, Changed{})
	}
}

// addProbes adds the results of probes to facts.
func (w *worker) addProbes(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) status.Facts {
	for _, c := range seen.Running() {
		state := w.cfg.Probes.Container(pod.UID, c.GetName(), c.GetId())
		if state.Started && state.Ready {
			continue
		}
		if facts.Probes == nil {
			facts.Probes = map[string]status.ProbeResult{}
		}
		facts.Probes[c.GetId()] = status.ProbeResult{Started: state.Started, Ready: state.Ready}
	}
	return facts
}

// probeStates returns the states of the running containers' probes, by container id.
func (w *worker) probeStates(pod *corev1.Pod, seen podstate.Pod) map[string]probes.State {
	states := map[string]probes.State{}
	for _, c := range seen.Running() {
		states[c.GetId()] = w.cfg.Probes.Container(pod.UID, c.GetName(), c.GetId())
	}
	return states
}
