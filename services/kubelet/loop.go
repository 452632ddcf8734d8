package kubelet

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/kubelet/admission"
	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
)

// loop is the one goroutine that takes events and steps the workers (KBL-06). It waits for no
// worker.
type loop struct {
	parts *parts

	// pods are the node's pods after the operations taken so far.
	pods     map[types.UID]*corev1.Pod
	rejected map[types.UID]bool
	static   statics
	ready    bool
}

func newLoop(p *parts) *loop {
	return &loop{parts: p, pods: map[types.UID]*corev1.Pod{}, rejected: map[types.UID]bool{}, static: newStatics()}
}

// run loops until ctx ends. It does nothing before the runtime has been listed once, so that
// nothing is concluded from what this process has not seen.
func (l *loop) run(ctx context.Context) error {
	p := l.parts
	if _, err := p.relister.NewerThan(ctx, "", time.Time{}); err != nil {
		return err
	}
	tick := p.cfg.Clock.Ticker(p.cfg.Timing.Loop.Tick)
	defer tick.Stop()
	keep := p.cfg.Clock.Ticker(p.cfg.Timing.Loop.Housekeeping)
	defer keep.Stop()
	skip := p.cfg.Timing.Loop.SkipFirst
	for {
		if problems := p.relister.Problems(); len(problems) > 0 {
			p.cfg.Log.ErrorContext(ctx, "skipping pod synchronization", "problems", problems)
			if err := p.cfg.Clock.Sleep(ctx, skip); err != nil {
				return err
			}
			skip = min(2*skip, p.cfg.Timing.Loop.SkipMax)
			continue
		}
		skip = p.cfg.Timing.Loop.SkipFirst
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.set.Wake():
			l.takeOps(ctx)
		case <-p.files.Wake():
			l.takeOps(ctx)
		case <-p.relister.Changes():
			for _, uid := range p.relister.Take() {
				p.workers.Step(ctx, uid, podworker.Changed{})
			}
		case <-p.prober.Changes():
			for _, uid := range p.prober.Take() {
				p.workers.RefreshProbes(ctx, uid)
			}
		case <-p.objects.Changes():
			for _, uid := range p.objects.Take() {
				p.workers.Step(ctx, uid, podworker.Changed{})
			}
		case <-tick.C:
			p.workers.StepDue(ctx)
		case <-keep.C:
			l.takeOps(ctx)
			l.housekeep(ctx)
		}
	}
}

func (l *loop) takeOps(ctx context.Context) {
	ops, ready := l.parts.takeOps()
	l.ready = ready
	for _, op := range ops {
		l.handleOp(ctx, op)
	}
	l.sendMirrorView()
}

func (l *loop) handleOp(ctx context.Context, op podset.Op) {
	p, pod := l.parts, op.Pod
	p.cfg.Log.DebugContext(ctx, "sync loop", "op", op.Verb.String(), "pod", podstate.Key(pod), "uid", pod.UID)
	p.cfg.History.Record("", history.KubeletSee{
		Pod: podstate.Key(pod), UID: string(pod.UID), Op: op.Verb.String(), Revision: pod.ResourceVersion, Grace: pod.DeletionGracePeriodSeconds,
	})
	if podstate.IsMirror(pod) {
		l.handleMirror(op)
		return
	}
	switch op.Verb {
	case podset.Remove:
		delete(l.pods, pod.UID)
		delete(l.rejected, pod.UID)
		p.workers.Step(ctx, pod.UID, podworker.Removed{})
	case podset.Add:
		l.pods[pod.UID] = pod
		l.static.addStatic(pod)
		l.admit(ctx, pod)
	case podset.Update, podset.Delete, podset.Reconcile:
		l.pods[pod.UID] = pod
		if v, worked := p.workers.Get(pod.UID); podworker.MustSend(op, v.State, worked, l.rejected[pod.UID]) {
			l.sendSeen(ctx, pod)
		}
		p.reporter.Refresh(pod)
	}
}

// admit admits a pod, or rejects it (KBL-09).
func (l *loop) admit(ctx context.Context, pod *corev1.Pod) {
	p := l.parts
	if _, known := p.workers.Get(pod.UID); known || podstate.IsTerminal(pod) {
		l.sendSeen(ctx, pod)
		return
	}
	if podstate.IsStatic(pod) && !l.static.names.Acquire(podstate.Key(pod), pod.UID, l.isWanted) {
		return // housekeeping asks again
	}
	v := admission.Admit(pod, l.admissionHost(ctx, pod))
	switch {
	case len(v.Victims) > 0:
		l.preempt(ctx, v.Victims)
	case v.Admitted:
		l.sendSeen(ctx, pod)
	default:
		l.rejected[pod.UID] = true
		p.recorder.Event(pod, corev1.EventTypeWarning, v.Reason, v.Message)
		p.reporter.Reject(pod, v.Reason, "Pod was rejected: "+v.Message)
	}
}

// preempt ends pods to make room for a critical one, which is admitted once they have ended.
func (l *loop) preempt(ctx context.Context, victims []*corev1.Pod) {
	const message = "Preempted in order to admit critical pod"
	for _, pod := range victims {
		if v, known := l.parts.workers.Get(pod.UID); !known || v.Cause != nil {
			continue
		}
		l.parts.recorder.Event(pod, corev1.EventTypeWarning, "Preempting", message)
		l.parts.workers.Step(ctx, pod.UID, podworker.Kill{
			Grace: new(int64(0)), Cause: &podworker.Cause{Reason: "Preempting", Message: message, Disrupts: true},
		})
	}
}

// admissionHost returns the node as the admission of a pod sees it.
func (l *loop) admissionHost(ctx context.Context, pod *corev1.Pod) admission.Host {
	p := l.parts
	host := admission.Host{
		Name: p.cfg.Node, Labels: p.nodeLabels(), Allocatable: p.capacity, Pods: l.activePods(pod.UID),
		Pressures: p.Pressures(), ShuttingDown: p.shutdown.IsShuttingDown(),
		AllocateErr: p.cfg.Machine.Faults.Inject(ctx, fault.NodeAllocate, fault.Attributes{Namespace: pod.Namespace, Pod: pod.Name}),
	}
	if now := p.node.Current(); now != nil {
		maps.Copy(host.Labels, now.Labels)
		host.Taints = now.Spec.Taints
	}
	return host
}

// activePods returns the other pods that use the node's resources.
func (l *loop) activePods(except types.UID) []*corev1.Pod {
	var using []*corev1.Pod
	for _, v := range l.parts.workers.All() {
		if v.UID != except && v.State < podworker.Stopped && v.Pod != nil {
			using = append(using, v.Pod)
		}
	}
	return using
}

func (l *loop) sendSeen(ctx context.Context, pod *corev1.Pod) {
	seen, listed := l.parts.relister.Last(pod.UID)
	l.parts.workers.Step(ctx, pod.UID, podworker.Seen{Pod: pod, Idle: listed && seen.IsIdle()})
}
