package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/status"
)

// stop is round 2 (KBL-30): say that the mark was seen, stop everything, make sure.
func (k *kubeletProcess) stop(now time.Time, w *podWorker, a podworker.Stop, out Out, then func(time.Time, error, Out)) {
	out.Note("", history.KubeletTerm{Pod: podstate.Key(a.Pod), UID: string(a.Pod.UID), Grace: a.Grace})
	k.look(now, w, out, func(now time.Time, seen podstate.Pod, out Out) {
		if a.Known {
			k.book.Report(a.Pod, seen, k.facts(a.Pod, seen, status.Facts{MayRun: true}), out.Shows(now))
			k.probe(now, a.Pod, out) // only readiness is asked for from now on
		}
		plan := podworker.PlanStop(a.Pod, seen, &a.Grace)
		s := &stopping{k: k, w: w, pod: a.Pod, plan: plan, attempt: podworker.NewAttempt(plan, now), then: then}
		s.next(now, out)
	})
}

// stopping carries out one attempt to stop a pod.
type stopping struct {
	k       *kubeletProcess
	w       *podWorker
	pod     *corev1.Pod
	plan    podworker.StopPlan
	attempt *podworker.Attempt
	over    bool
	then    func(time.Time, error, Out)
}

func (s *stopping) next(now time.Time, out Out) {
	if s.over {
		return
	}
	for _, work := range s.attempt.Work() {
		s.carryOut(now, work, out)
	}
	if s.attempt.Over() && !s.over {
		s.over = true
		s.sure(now, out)
	}
}

func (s *stopping) came(now time.Time, outcome podworker.Outcome, out Out) {
	if !s.over {
		s.attempt.Step(outcome, now)
		s.next(now, out)
	}
}

func (s *stopping) carryOut(now time.Time, work podworker.Work, out Out) {
	switch work := work.(type) {
	case podworker.Hook:
		s.hook(now, work.Container, out)
	case podworker.Await:
		s.k.after(work.Until, out, func(now time.Time, out Out) { s.came(now, podworker.AwaitOver{Container: work.Container}, out) })
	case podworker.StopOne:
		timeout := runtimeTimeout + time.Duration(work.Timeout)*time.Second
		s.k.ask(now, StopContainer{work.ID, work.Timeout}, timeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
			s.came(now, podworker.OneStopped{Container: work.Container, Err: answer.Err}, out)
		})
	case podworker.StopBox:
		s.k.ask(now, StopSandbox{work.ID}, runtimeTimeout, out, func(now time.Time, answer RuntimeResponse, out Out) {
			s.came(now, podworker.BoxStopped{Err: answer.Err}, out)
		})
	}
}

// hook runs a container's preStop hook.
func (s *stopping) hook(now time.Time, container int, out Out) {
	s.k.preStop(now, s.pod, s.plan.Containers[container], out, func(now time.Time, out Out) {
		s.came(now, podworker.HookOver{Container: container}, out)
	})
}

// sure makes sure that nothing runs any more.
func (s *stopping) sure(now time.Time, out Out) {
	err := s.attempt.Err(string(s.pod.UID))
	if err == nil {
		s.k.unprobe(s.w.uid, out)
	}
	if err != nil || len(s.plan.Containers)+len(s.plan.Sandboxes) == 0 {
		s.then(now, err, out)
		return
	}
	s.k.read(now, s.w.uid, out, func(now time.Time, seen podstate.Pod, err error, out Out) {
		if err == nil {
			err = podworker.Violation(seen)
		}
		s.then(now, err, out)
	})
}
