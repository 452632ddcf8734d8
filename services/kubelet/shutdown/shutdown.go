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

// Node is the part of the kubelet that a Manager uses.
type Node interface {
	// ActivePods returns the pods whose containers may run, oldest first.
	ActivePods() []*corev1.Pod
	// EndPod ends a pod within grace seconds. It returns when its containers have stopped or that
	// takes too long.
	EndPod(ctx context.Context, pod *corev1.Pod, grace int64) error
	// NodeChanged is called when the node begins to shut down, or when its shutdown is cancelled.
	NodeChanged()
}

// Config holds what a Manager uses.
type Config struct {
	Node   Node
	Levels []Level
	// Period is the interval of checks whether the node shuts down.
	Period time.Duration
	Faults *fault.Table
	Clock  clock.Clock
	Log    *slog.Logger
}

// Manager ends pods when the node shuts down.
type Manager struct {
	cfg          Config
	shuttingDown atomic.Bool
	ending       sync.WaitGroup
}

// New returns a manager that does nothing until Run.
func New(cfg Config) *Manager { return &Manager{cfg: cfg} }

// IsShuttingDown reports whether the node is shutting down.
func (m *Manager) IsShuttingDown() bool { return m.shuttingDown.Load() }

// Run ends the pods each time the node shuts down, until ctx ends. If the shutdown is cancelled,
// the node takes pods again.
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
		if asked == m.IsShuttingDown() {
			continue
		}
		m.shuttingDown.Store(asked)
		m.cfg.Node.NodeChanged()
		if asked {
			m.endPods(ctx)
		}
	}
}

// endPods ends the pods, one batch after the other. A batch that takes too long continues beside
// the next one.
func (m *Manager) endPods(ctx context.Context) {
	for _, batch := range Plan(m.cfg.Node.ActivePods(), m.cfg.Levels) {
		ended := make(chan struct{}, len(batch.Pods))
		for _, pod := range batch.Pods {
			m.ending.Go(func() {
				m.endPod(ctx, pod, batch.grace(pod))
				ended <- struct{}{}
			})
		}
		m.awaitBatch(ctx, batch, ended)
	}
}

// awaitBatch waits until the pods of the batch have ended, or its time is up.
func (m *Manager) awaitBatch(ctx context.Context, batch Batch, ended <-chan struct{}) {
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

func (m *Manager) endPod(ctx context.Context, pod *corev1.Pod, grace int64) {
	if err := m.cfg.Node.EndPod(ctx, pod, grace); err != nil {
		m.cfg.Log.InfoContext(ctx, "the node goes down before a pod has ended", "pod", podstate.Key(pod), "uid", pod.UID, "err", err)
	}
}
