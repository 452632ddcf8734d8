package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/status"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// podWorker is what podworker's worker is in the product: a machine, and what it wants
// done, one thing at a time.
type podWorker struct {
	uid     types.UID
	machine podworker.Machine
	todo    []podworker.Action
	running bool
	due     time.Time
	memory
}

// memory is what a worker keeps from one action to the next.
type memory struct {
	crashes  podworker.Crashes
	lastSync time.Time
	failures uint64
	// reported: the end's status was. blind: what was started was not read back.
	reported, blind bool
	// attempts are of the volumes that could not be mounted.
	attempts map[string]volumes.Attempt
	// interrupt breaks off what of a sync can be; nil for nothing.
	interrupt func(now time.Time, out Out)
	// waiting are the containers whose restart has to wait.
	waiting map[string]corev1.ContainerStateWaiting
	// stays is why the pod's directories are not removed yet.
	stays error
	// work is what it is at, for whoever inspects the kubelet.
	work inspect.Work
}

// at notes the step that begins; empty for none.
func (w *podWorker) at(step string, now time.Time) { w.work.Doing, w.work.Since = step, now }

// tell steps the UID's machine, and carries out what it wants.
func (k *kubeletProcess) tell(now time.Time, uid types.UID, e podworker.Event, out Out) {
	w := k.workers[uid]
	if w == nil {
		switch e.(type) {
		case podworker.Seen, podworker.Orphan:
		default:
			return
		}
		w = &podWorker{uid: uid, memory: memory{crashes: podworker.Crashes{}, attempts: map[string]volumes.Attempt{}}}
		k.workers[uid] = w
	}
	k.step(now, w, e, out)
	if len(w.todo) > 0 && !w.running {
		w.running = true
		k.work(now, w, out)
	}
}

func (k *kubeletProcess) step(now time.Time, w *podWorker, e podworker.Event, out Out) {
	next, actions := w.machine.Step(e)
	w.machine = next
	k.untidied = true
	for _, action := range actions {
		if _, interrupt := action.(podworker.Interrupt); !interrupt {
			w.todo = append(w.todo, action)
		} else if w.interrupt != nil {
			w.interrupt(now, out)
		}
	}
}

// work carries out the next action.
func (k *kubeletProcess) work(now time.Time, w *podWorker, out Out) {
	if len(w.todo) == 0 {
		w.running = false
		return
	}
	action := w.todo[0]
	w.todo = w.todo[1:]
	k.carryOut(now, w, action, out, func(now time.Time, answer podworker.Event, out Out) {
		w.at("", out.Shows(now))
		if answer != nil {
			k.step(now, w, answer, out)
		}
		k.work(now, w, out)
	})
}

// answering is told the event that answers an action, or nil.
type answering func(now time.Time, answer podworker.Event, out Out)

func (k *kubeletProcess) carryOut(now time.Time, w *podWorker, action podworker.Action, out Out, then answering) {
	switch a := action.(type) {
	case podworker.Sync:
		w.at(inspect.StepSync, out.Shows(now))
		k.sync(now, w, a.Pod, out, func(now time.Time, answer podworker.Synced, out Out) {
			k.came(now, w, "sync pod", answer.Err, out)
			then(now, answer, out)
		})
	case podworker.Stop:
		w.at(inspect.StepStop, out.Shows(now))
		w.work.Grace = a.Grace
		k.stop(now, w, a, out, func(now time.Time, err error, out Out) {
			k.came(now, w, "stop pod", err, out)
			then(now, podworker.Ended{Err: err}, out)
		})
	case podworker.ReportEnd:
		seen, _ := k.runtime.views.Last(w.uid)
		w.reported = true
		k.book.Report(a.Pod, seen, w.endFacts(), out.Shows(now))
		then(now, nil, out)
	case podworker.Clean:
		k.clean(now, w, a.Pod, out, func(now time.Time, err error, out Out) {
			k.came(now, w, "clean up after pod", err, out)
			then(now, podworker.Cleaned{Err: err}, out)
		})
	case podworker.Confirm:
		k.book.Finish(a.Pod)
		then(now, nil, out)
	case podworker.Again:
		w.failures++
		w.due = now.Add(k.of.timing.Worker.Pause(a, k.begun.seed, w.uid, w.failures))
		then(now, nil, out)
	case podworker.Interrupt: // never queued
	}
}

// came notes what an attempt came to.
func (k *kubeletProcess) came(now time.Time, w *podWorker, doing string, err error, out Out) {
	w.lastSync = now
	if err == nil {
		w.work.Err, w.work.Failed, w.work.First = "", 0, time.Time{}
		return
	}
	if w.work.Failed == 0 {
		w.work.First = now
	}
	w.work.Err = err.Error()
	w.work.Failed++
	pod := w.machine.Pod()
	out.Note("", history.KubeletStuck{Pod: podstate.Key(pod), UID: string(pod.UID), Doing: doing, Err: err.Error()})
}

func (w *podWorker) endFacts() status.Facts {
	facts := status.Facts{Ended: true, Waiting: w.waiting}
	if cause := w.machine.Cause(); cause != nil {
		facts.Reason, facts.Message, facts.Disrupted = cause.Reason, cause.Message, cause.Disrupts
	}
	return facts
}

// look is what the runtime holds of the pod, as of later than the last sync where the
// timing asks for that (KBL-20).
func (k *kubeletProcess) look(now time.Time, w *podWorker, out Out, then func(time.Time, podstate.Pod, Out)) {
	var than time.Time
	if k.of.timing.Worker.AwaitRelist || w.blind {
		than = w.lastSync
	}
	k.newer(now, waiter{w.uid, than, func(now time.Time, seen podstate.Pod, out Out) {
		w.blind = false
		then(now, seen, out)
	}}, out)
}

// clean releases what the pod used, in this order (KBL-60).
func (k *kubeletProcess) clean(now time.Time, w *podWorker, pod *corev1.Pod, out Out, then func(time.Time, error, Out)) {
	k.look(now, w, out, func(now time.Time, seen podstate.Pod, out Out) {
		if k.of.timing.Worker.AwaitRelist || !w.reported {
			k.book.Report(pod, seen, w.endFacts(), out.Shows(now))
		}
		k.release(now, w, out, then)
	})
}

// forget lets a finished worker go, and removes what is left of its pod in the runtime.
func (k *kubeletProcess) forget(now time.Time, uid types.UID, out Out) {
	w := k.workers[uid]
	k.step(now, w, podworker.Forget{}, out)
	if w.machine.State() != podworker.Gone {
		return
	}
	delete(k.workers, uid)
	out.Note("", history.KubeletForget{UID: string(uid)})
	seen, _ := k.runtime.views.Last(uid)
	left := len(seen.Sandboxes)
	for _, s := range seen.Sandboxes {
		k.ask(now, RemoveSandbox{s.GetId()}, runtimeTimeout, out, func(_ time.Time, answer RuntimeResponse, _ Out) {
			if left--; left == 0 && answer.Err == nil {
				k.runtime.views.Forget(uid)
			}
		})
	}
}
