package shutdown

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Node is what a Manager asks of the kubelet that it belongs to.
type Node interface {
	// Active are the pods whose containers may run, oldest first.
	Active() []*corev1.Pod
	// Leave ends a pod within grace seconds, and returns when its containers have stopped
	// or that takes too long.
	Leave(ctx context.Context, pod *corev1.Pod, grace int64) error
	// Changed is told that the node begins to go down, or goes on after all.
	Changed()
}

// Config is what a Manager works with.
type Config struct {
	Node   Node
	Levels []Level
	// Period is between two looks whether the node is to go down.
	Period time.Duration
	Faults *fault.Table
	Clock  clock.Clock
	Log    *slog.Logger
}

// Manager ends pods when the node is to go down.
type Manager struct {
	cfg    Config
	going  atomic.Bool
	ending sync.WaitGroup
}

// New waits for nothing until Run.
func New(cfg Config) *Manager { return &Manager{cfg: cfg} }

// Going reports whether the node is going down.
func (m *Manager) Going() bool { return m.going.Load() }

// Run ends the pods each time the node is to go down, until ctx ends. When the word is taken
// back, the node takes pods again.
func (m *Manager) Run(ctx context.Context) error {
	ticker := m.cfg.Clock.Ticker(m.cfg.Period)
	defer ticker.Stop()
	defer m.ending.Wait()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		asked := len(m.cfg.Faults.Values(fault.NodeShutdown, fault.Attributes{})) > 0
		if asked == m.Going() {
			continue
		}
		m.going.Store(asked)
		m.cfg.Node.Changed()
		if asked {
			m.end(ctx)
		}
	}
}

// end ends the pods, a batch after the other. A batch that takes longer than it may goes on
// beside the next one.
func (m *Manager) end(ctx context.Context) {
	for _, batch := range Plan(m.cfg.Node.Active(), m.cfg.Levels) {
		ended := make(chan struct{}, len(batch.Pods))
		for _, pod := range batch.Pods {
			m.ending.Go(func() {
				m.leave(ctx, pod, batch.grace(pod))
				ended <- struct{}{}
			})
		}
		m.await(ctx, batch, ended)
	}
}

// await waits until the pods of the batch have ended, or its time is up.
func (m *Manager) await(ctx context.Context, batch Batch, ended <-chan struct{}) {
	limit := m.cfg.Clock.Timer(batch.Grace)
	defer limit.Stop()
	for range batch.Pods {
		select {
		case <-ended:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (m *Manager) leave(ctx context.Context, pod *corev1.Pod, grace int64) {
	if err := m.cfg.Node.Leave(ctx, pod, grace); err != nil {
		m.cfg.Log.InfoContext(ctx, "the node goes down before a pod has ended", "pod", podstate.Key(pod), "uid", pod.UID, "err", err)
	}
}
