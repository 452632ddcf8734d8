package sim

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
)

var errHandler = errors.New("invalid handler: want exec, httpGet or sleep")

// hook is a handler of a container, and how long it may take.
type hook struct {
	spec    *corev1.Container
	id      string
	handler *corev1.LifecycleHandler
	limit   time.Duration
}

// runHook runs a hook, and tells what it came to.
func (k *kubeletProcess) runHook(now time.Time, h hook, out Out, then func(time.Time, error, Out)) {
	switch {
	case h.handler.Exec != nil:
		k.ask(now, Exec{h.id}, h.limit, out, func(now time.Time, answer RuntimeResponse, out Out) {
			err := answer.Err
			if code, _ := answer.Body.(int32); err == nil && code != 0 {
				err = fmt.Errorf("command exited with %d", code)
			}
			then(now, err, out)
		})
	case h.handler.HTTPGet != nil:
		if _, err := podstate.HTTPRequest(h.spec, h.id, h.handler.HTTPGet); err != nil {
			then(now, err, out)
			return
		}
		k.ask(now, Reach{h.id}, h.limit, out, func(now time.Time, answer RuntimeResponse, out Out) { then(now, answer.Err, out) })
	case h.handler.Sleep != nil:
		until := now.Add(min(h.limit, time.Duration(h.handler.Sleep.Seconds)*time.Second))
		k.after(until, out, func(now time.Time, out Out) { then(now, nil, out) })
	default:
		then(now, errHandler, out)
	}
}

// preStop runs a container's preStop hook for as long as its grace lasts; a hook that fails
// changes nothing (KBL-43).
func (k *kubeletProcess) preStop(now time.Time, pod *corev1.Pod, stop podworker.ContainerStop, out Out, then func(time.Time, Out)) {
	of := history.Of{Pod: podstate.Key(pod), UID: string(pod.UID), Container: stop.ID, Called: stop.Name}
	out.Note("", history.PreStopBegin{Of: of})
	h := hook{podstate.Container(pod, stop.Name), stop.ID, stop.PreStop, time.Duration(stop.Grace) * time.Second}
	k.runHook(now, h, out, func(now time.Time, _ error, out Out) {
		out.Note("", history.PreStopEnd{Of: of})
		then(now, out)
	})
}

// postStart runs the postStart hook of the container that runs under an id. One whose hook
// fails is killed.
func (l *launch) postStart(now time.Time, spec *corev1.Container, id string, out Out, then func(time.Time, error, Out)) {
	k, pod := l.k, l.pod
	if spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil {
		then(now, nil, out)
		return
	}
	of := history.Of{Pod: podstate.Key(pod), UID: string(pod.UID), Container: id, Called: spec.Name}
	out.Note("", history.PostStartBegin{Of: of})
	k.runHook(now, hook{spec, id, spec.Lifecycle.PostStart, runtimeTimeout}, out, func(now time.Time, err error, out Out) {
		out.Note("", history.PostStartEnd{Of: of})
		if err == nil {
			then(now, nil, out)
			return
		}
		stop := podworker.ContainerStop{ID: id, Name: spec.Name, Grace: podworker.BaseGrace(pod, spec, podworker.ReasonPod), PreStop: spec.Lifecycle.PreStop}
		k.stopOne(now, pod, stop, out, func(now time.Time, _ error, out Out) { then(now, err, out) })
	})
}

// stopOne stops one container of a pod that goes on: the hook and the stop signal, which the
// runtime follows with SIGKILL (KBL-33).
func (k *kubeletProcess) stopOne(now time.Time, pod *corev1.Pod, stop podworker.ContainerStop, out Out, then func(time.Time, error, Out)) {
	began := now
	kill := func(now time.Time, out Out) {
		var spent time.Duration
		if stop.PreStop != nil {
			spent = now.Sub(began)
		}
		seconds := podworker.StopTimeout(stop.Grace, nil, spent)
		k.ask(now, StopContainer{stop.ID, seconds}, runtimeTimeout+time.Duration(seconds)*time.Second, out, func(now time.Time, answer RuntimeResponse, out Out) {
			if proto.IsRuntimeCode(answer.Err, proto.CodeNotFound) {
				answer.Err = nil
			}
			then(now, answer.Err, out)
		})
	}
	if stop.PreStop != nil && stop.Grace > 0 {
		k.preStop(now, pod, stop, out, kill)
		return
	}
	kill(now, out)
}

// stopFirst carries out what a plan stops before it starts anything, one after the other, and goes
// on. If the plan starts nothing, the next look tells what is gone.
func (k *kubeletProcess) stopFirst(now time.Time, w *podWorker, plan podworker.StartPlan, out Out, then synced, on func(time.Time, Out)) {
	pod := w.machine.Pod()
	kills := plan.Kills
	if plan.KillPod {
		seen, _ := k.runtime.views.Last(pod.UID)
		kills = podworker.PlanStop(pod, seen, nil).Containers
	}
	var next func(now time.Time, left []podworker.ContainerStop, out Out)
	next = func(now time.Time, left []podworker.ContainerStop, out Out) {
		switch {
		case len(left) > 0:
			k.of.kernel.met.count("killed for a probe")
			k.stopOne(now, pod, left[0], out, func(now time.Time, err error, out Out) {
				if err != nil {
					w.blind = true
					then(now, podworker.Synced{Err: err, After: time.Nanosecond}, out)
					return
				}
				next(now, left[1:], out)
			})
		case len(kills) > 0 && !plan.Starts():
			w.blind = true
			then(now, podworker.Synced{After: time.Nanosecond}, out)
		default:
			on(now, out)
		}
	}
	next(now, kills, out)
}
