package podworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// ExecRuntime is the part of CRI that runs commands in containers and connects to them.
type ExecRuntime interface {
	ExecSync(ctx context.Context, req *proto.ExecSyncRequest) (*proto.ExecSyncResponse, error)
	Reach(ctx context.Context, req *proto.ReachRequest) (*proto.ReachResponse, error)
}

// preStopOf returns a container's preStop hook, or nil.
func preStopOf(spec *corev1.Container) *corev1.LifecycleHandler {
	if spec == nil || spec.Lifecycle == nil {
		return nil
	}
	return spec.Lifecycle.PreStop
}

// runPreStop runs a container's preStop hook, waits at most grace seconds, and returns how long it
// waited. When the time is up the waiting ends, but not the hook (KBL-40): it runs until it ends
// itself or its container does. A failed hook is reported by an event and changes nothing else
// (KBL-43). ctx is the kubelet's.
func (w *worker) runPreStop(ctx context.Context, pod *corev1.Pod, stop ContainerStop) time.Duration {
	began := w.cfg.Clock.Steady()
	of := history.ContainerRef{Pod: podstate.Key(pod), UID: string(pod.UID), Container: stop.ID, ContainerName: stop.Name}
	about := []any{"pod", podstate.Key(pod), "uid", pod.UID, "container", stop.Name, "round", 2}
	w.cfg.History.Record("", history.PreStopBegin{ContainerRef: of})
	defer w.cfg.History.RecordSince(w.cfg.History.Now(), "", history.PreStopEnd{ContainerRef: of})
	done := make(chan struct{})
	w.hooks.Go(func() {
		defer close(done)
		err := w.runHook(ctx, specOf(pod, stop.Name), stop.ID, stop.PreStop)
		if err != nil && ctx.Err() == nil {
			w.cfg.Log.WarnContext(ctx, "preStop hook has failed", about...)
			w.cfg.Events.ContainerEvent(pod, stop.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
	})
	limit, cancel := w.cfg.Clock.Timeout(ctx, time.Duration(stop.Grace)*time.Second)
	defer cancel()
	switch err := w.cfg.Tasks.Wait(limit, done); {
	case err == nil:
		w.cfg.Log.DebugContext(ctx, "preStop hook is over", about...)
	case ctx.Err() == nil: // otherwise the kubelet leaves
		w.cfg.Log.WarnContext(ctx, "preStop hook goes on, its time is up", about...)
	}
	return w.cfg.Clock.Steady().Sub(began)
}

// runPostStart runs a container's postStart hook. If the hook fails the container is killed.
func (w *worker) runPostStart(ctx context.Context, pod *corev1.Pod, spec *corev1.Container, id string) error {
	if spec.Lifecycle == nil || spec.Lifecycle.PostStart == nil {
		return nil
	}
	of := history.ContainerRef{Pod: podstate.Key(pod), UID: string(pod.UID), Container: id, ContainerName: spec.Name}
	w.cfg.History.Record("", history.PostStartBegin{ContainerRef: of})
	err := w.runHook(ctx, spec, id, spec.Lifecycle.PostStart)
	w.cfg.History.Record("", history.PostStartEnd{ContainerRef: of})
	if err == nil || ctx.Err() != nil {
		return err
	}
	w.cfg.Events.ContainerEvent(pod, spec.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
	stop := ContainerStop{
		ID: id, Name: spec.Name, Grace: BaseGrace(pod, spec, ReasonPod), PreStop: preStopOf(spec), Why: "FailedPostStartHook",
	}
	w.announceStop(pod, stop)
	if err := w.stopContainer(ctx, pod, stop); err != nil {
		w.cfg.Log.ErrorContext(ctx, "could not stop a container whose postStart hook has failed",
			"pod", podstate.Key(pod), "uid", pod.UID, "container", spec.Name, "err", err)
	}
	return &startError{"PostStartHookError", spec.Name, errors.New(hookFailure(pod, spec, spec.Lifecycle.PostStart, err))}
}

var errHandler = errors.New("invalid handler: want exec, httpGet or sleep")

// hookError is the failure of a hook's command, and its output.
type hookError struct{ text, output string }

func (e *hookError) Error() string { return e.text }

// hookFailure returns the message of a failed hook in upstream's words.
func hookFailure(pod *corev1.Pod, spec *corev1.Container, handler *corev1.LifecycleHandler, err error) string {
	of := fmt.Sprintf("for Container %q in Pod \"%s_%s(%s)\" failed - error: %s", spec.Name, pod.Name, pod.Namespace, pod.UID, err.Error())
	switch {
	case handler.Exec != nil:
		output := ""
		if failed, is := errors.AsType[*hookError](err); is {
			output = failed.output
		}
		return fmt.Sprintf("Exec lifecycle hook (%v) %s, message: %q", handler.Exec.Command, of, output)
	case handler.HTTPGet != nil:
		return fmt.Sprintf("HTTP lifecycle hook (%s) %s", handler.HTTPGet.Path, of)
	case handler.Sleep != nil:
		return fmt.Sprintf("Sleep lifecycle hook (%d) %s", handler.Sleep.Seconds, of)
	}
	return "Cannot run handler: " + err.Error()
}

// runHook runs one handler and waits for its end (upstream's handlerRunner.Run).
func (w *worker) runHook(ctx context.Context, spec *corev1.Container, id string, handler *corev1.LifecycleHandler) error {
	switch {
	case handler.Exec != nil:
		answer, err := w.cfg.Runtime.ExecSync(ctx, &proto.ExecSyncRequest{ContainerId: id, Command: handler.Exec.Command})
		if err != nil {
			return err
		}
		if answer.GetExitCode() != 0 {
			return &hookError{
				fmt.Sprintf("command '%s' exited with %d: %s", strings.Join(handler.Exec.Command, " "), answer.GetExitCode(), answer.GetStderr()),
				string(slices.Concat(answer.GetStdout(), answer.GetStderr())),
			}
		}
		return nil
	case handler.HTTPGet != nil:
		request, err := podstate.HTTPRequest(spec, id, handler.HTTPGet)
		if err != nil {
			return err
		}
		_, err = w.cfg.Runtime.Reach(ctx, request) // any answer will do (KBL-41)
		return err
	case handler.Sleep != nil:
		return w.cfg.Clock.Sleep(ctx, time.Duration(handler.Sleep.Seconds)*time.Second)
	}
	return errHandler
}

// stopOrder maps each sidecar to the containers that must stop before it (KBL-50, upstream's
// terminationOrdering). A sidecar waits for all regular containers and for the sidecars defined
// after it. Containers that do not run count as stopped, and ordinary init containers are left out
// (KBL-53).
func stopOrder(pod *corev1.Pod, running map[string]bool) map[string][]string {
	var before []string
	for _, c := range pod.Spec.Containers {
		if running[c.Name] {
			before = append(before, c.Name)
		}
	}
	after := map[string][]string{}
	for i := range slices.Backward(pod.Spec.InitContainers) {
		sidecar := &pod.Spec.InitContainers[i]
		if !podstate.IsSidecar(sidecar) || !running[sidecar.Name] {
			continue
		}
		after[sidecar.Name] = slices.Clone(before)
		before = append(before, sidecar.Name)
	}
	return after
}
