package podworker

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// Refresh takes up what a probe has found: it is reported at once, and a container that
// failed is looked after.
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
	if state == Syncing && len(w.failedProbes(pod, seen)) > 0 {
		s.Tell(ctx, uid, Changed{})
	}
}

// waitFor remembers which containers wait to be restarted, for Refresh.
func (w *worker) waitFor(waiting map[string]corev1.ContainerStateWaiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = waiting
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

// failedProbes are the probes for which containers are to be killed, by container id.
func (w *worker) failedProbes(pod *corev1.Pod, seen podstate.Pod) map[string]probes.Kind {
	var failed map[string]probes.Kind
	for _, c := range seen.Running() {
		if kind := w.cfg.Probes.Container(pod.UID, c.GetName(), c.GetId()).Failed; kind != nil {
			if failed == nil {
				failed = map[string]probes.Kind{}
			}
			failed[c.GetId()] = *kind
		}
	}
	return failed
}

// killFailed stops containers whose probes have failed; that they are gone is seen at the
// next look, which restarts them as the pod's policy says.
func (w *worker) killFailed(ctx context.Context, pod *corev1.Pod, seen podstate.Pod, plan StartPlan) Synced {
	w.cfg.Status.Report(pod, seen, w.facts(pod, seen, status.Facts{MayRun: true}))
	for _, stop := range plan.Kills {
		w.announce(pod, stop)
		if err := w.stopContainer(ctx, pod, stop); err != nil {
			return Synced{Err: err}
		}
	}
	w.blind = true
	return Synced{After: atOnce}
}
