package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
)

// loop is the one goroutine that takes what happens and tells the workers (KBL-06). It
// waits for none of them.
type loop struct {
	parts *parts

	// pods are the node's pods as the operations taken so far leave them.
	pods     map[types.UID]*corev1.Pod
	rejected map[types.UID]bool
	ready    bool
}

func newLoop(p *parts) *loop {
	return &loop{parts: p, pods: map[types.UID]*corev1.Pod{}, rejected: map[types.UID]bool{}}
}

// run loops until ctx ends. It does nothing before the runtime has been listed once, so
// that nothing is concluded from what this process has not seen.
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
			skip = min(2*skip, p.cfg.Timing.Loop.SkipMost)
			continue
		}
		skip = p.cfg.Timing.Loop.SkipFirst
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.set.Wake():
			l.take(ctx)
		case <-p.relister.Changes():
			for _, uid := range p.relister.Take() {
				p.workers.Tell(ctx, uid, podworker.Changed{})
			}
		case <-p.prober.Changes():
			for _, uid := range p.prober.Take() {
				p.workers.Refresh(ctx, uid)
			}
		case <-tick.C:
			p.workers.Due(ctx)
		case <-keep.C:
			l.take(ctx)
			l.housekeep(ctx)
		}
	}
}

func (l *loop) take(ctx context.Context) {
	ops, ready := l.parts.set.Take()
	l.ready = ready
	for _, op := range ops {
		l.handle(ctx, op)
	}
}

func (l *loop) handle(ctx context.Context, op podset.Op) {
	p, pod := l.parts, op.Pod
	p.cfg.Log.DebugContext(ctx, "sync loop", "op", op.Verb.String(), "pod", podstate.Key(pod), "uid", pod.UID)
	switch op.Verb {
	case podset.Remove:
		delete(l.pods, pod.UID)
		delete(l.rejected, pod.UID)
		p.workers.Tell(ctx, pod.UID, podworker.Removed{})
	case podset.Add:
		l.pods[pod.UID] = pod
		l.add(ctx, pod)
	case podset.Update, podset.Delete:
		l.pods[pod.UID] = pod
		if !l.rejected[pod.UID] { // (KBL-08)
			l.see(ctx, pod)
		}
		p.reporter.Refresh(pod)
	case podset.Reconcile:
		l.pods[pod.UID] = pod
		// Somebody else ended it: the worker has to know (KBL-11).
		if v, ok := p.workers.Get(pod.UID); ok && v.State == podworker.Syncing && podstate.Terminal(pod) {
			l.see(ctx, pod)
		}
		p.reporter.Refresh(pod)
	}
}

// add admits a pod, or rejects it (KBL-09).
func (l *loop) add(ctx context.Context, pod *corev1.Pod) {
	p := l.parts
	if _, known := p.workers.Get(pod.UID); known || podstate.Terminal(pod) {
		l.see(ctx, pod)
		return
	}
	v := admit(pod, l.using(pod.UID), p.labels(), p.capacity)
	if v.admitted {
		l.see(ctx, pod)
		return
	}
	l.rejected[pod.UID] = true
	p.recorder.Event(pod, corev1.EventTypeWarning, v.reason, v.message)
	p.reporter.Reject(pod, v.reason, v.message)
}

// using are the other pods that use the node's resources.
func (l *loop) using(except types.UID) []*corev1.Pod {
	var using []*corev1.Pod
	for _, v := range l.parts.workers.All() {
		if v.UID != except && v.State < podworker.Stopped && v.Pod != nil {
			using = append(using, v.Pod)
		}
	}
	return using
}

func (l *loop) see(ctx context.Context, pod *corev1.Pod) {
	seen, listed := l.parts.relister.Last(pod.UID)
	l.parts.workers.Tell(ctx, pod.UID, podworker.Seen{Pod: pod, Idle: listed && seen.Idle()})
}
