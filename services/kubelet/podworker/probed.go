package podworker

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// Refresh takes up what a probe has found: it is reported at once, and the pod is looked after: a
// container may have failed, or a sidecar have started that others wait for.
func (s *Workers) Refresh(ctx context.Context, uid types.UID) {
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
	s.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{MayRun: true, Waiting: waiting}))
	if state == Syncing {
		s.Tell(ctx, uid, Changed{})
	}
}

// facts adds what the probes say.
func (w *worker) facts(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) status.Facts {
	for _, c := range seen.Running() {
		state := w.cfg.Probes.Container(pod.UID, c.GetName(), c.GetId())
		if state.Started && state.Ready {
			continue
		}
		if facts.Probed == nil {
			facts.Probed = map[string]status.Probed{}
		}
		facts.Probed[c.GetId()] = status.Probed{Started: state.Started, Ready: state.Ready}
	}
	return facts
}

// probed is what the probes say of the running containers, by container id.
func (w *worker) probed(pod *corev1.Pod, seen podstate.Pod) map[string]probes.State {
	said := map[string]probes.State{}
	for _, c := range seen.Running() {
		said[c.GetId()] = w.cfg.Probes.Container(pod.UID, c.GetName(), c.GetId())
	}
	return said
}
