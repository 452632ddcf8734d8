package eviction

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Node is what a Manager asks of the kubelet that it belongs to.
type Node interface {
	// Active are the pods whose containers may run, oldest first.
	Active() []*corev1.Pod
	// Sizes are the sizes in bytes of a pod's emptyDirs that have a limit, by name.
	Sizes(pod *corev1.Pod) map[string]int64
	// Evict ends a pod within grace seconds, and returns when its containers have stopped
	// or that takes too long.
	Evict(ctx context.Context, pod *corev1.Pod, grace int64, message string) error
	// Gone reports whether nothing is left of a pod on the node.
	Gone(uid types.UID) bool
	// Changed is told that there are other pressures.
	Changed()
}

// Events tells people; it never blocks.
type Events interface {
	Event(about kinds.Object, kind, reason, message string)
}

// Parts are what a Manager works with.
type Parts struct {
	Config
	Node     Node
	Name     string // the node's
	Capacity corev1.ResourceList
	Faults   *fault.Table
	Events   Events
	Clock    clock.Clock
	Log      *slog.Logger
}

// Manager evicts.
type Manager struct {
	parts Parts
	state State

	mu        sync.Mutex
	pressures []corev1.NodeConditionType
}

// New sees no pressure until Run.
func New(parts Parts) *Manager { return &Manager{parts: parts} }

// Pressures are those that the node is under.
func (m *Manager) Pressures() []corev1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pressures
}

// Run looks, and evicts at most one pod a look, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	for {
		wait := m.parts.Period
		if evicted := m.look(ctx); evicted != nil {
			wait = 0
			m.await(ctx, evicted)
		}
		if err := m.parts.Clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// await waits until an evicted pod is gone, but not for ever.
func (m *Manager) await(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := m.parts.Clock.Timeout(ctx, m.parts.CleanUp)
	defer cancel()
	for !m.parts.Node.Gone(pod.UID) {
		if m.parts.Clock.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// look observes once, and returns the pod that it has evicted.
func (m *Manager) look(ctx context.Context) *corev1.Pod {
	var pods []Pod
	for _, pod := range m.parts.Node.Active() {
		pods = append(pods, Pod{Spec: pod, Uses: Use(pod)})
	}
	var finding Finding
	m.state, finding = m.state.Look(m.observe(pods), m.parts.Config, m.parts.Clock.Steady())
	m.report(finding.Pressures)
	for _, pod := range pods {
		text := Exceeds(pod, m.parts.Node.Sizes(pod.Spec))
		if text != "" && m.evict(ctx, pod.Spec, ImmediateGrace, text) {
			return pod.Spec
		}
	}
	if finding.Starved == nil {
		return nil
	}
	m.parts.Events.Event(m.node(), corev1.EventTypeWarning, "EvictionThresholdMet",
		fmt.Sprintf("Attempting to reclaim %s", finding.Starved.Signal.resource()))
	pod, found := victim(pods, finding.Starved.Signal)
	if found && m.evict(ctx, pod.Spec, finding.Starved.grace(pod.Spec, m.parts.Config), message(finding, pod)) {
		return pod.Spec
	}
	return nil
}

func (m *Manager) evict(ctx context.Context, pod *corev1.Pod, grace int64, text string) bool {
	if podstate.Critical(pod) {
		m.parts.Log.ErrorContext(ctx, "a critical pod is not evicted", "pod", podstate.Key(pod), "uid", pod.UID, "why", text)
		return false
	}
	m.parts.Events.Event(pod, corev1.EventTypeWarning, "Evicted", text)
	if err := m.parts.Node.Evict(ctx, pod, grace, text); err != nil && ctx.Err() == nil {
		m.parts.Log.ErrorContext(ctx, "an evicted pod did not end", "pod", podstate.Key(pod), "uid", pod.UID, "err", err)
	}
	return true
}

// observe is what is left: what there is less what pods use, and nothing of what a fault
// has taken away.
func (m *Manager) observe(pods []Pod) map[Signal]Observation {
	short := m.parts.Faults.Values(fault.NodePressure, fault.Attributes{})
	observed := make(map[Signal]Observation)
	for signal, word := range map[Signal]string{MemoryAvailable: "memory", NodefsAvailable: "disk", PIDAvailable: "pid"} {
		o := Observation{Capacity: m.capacity(signal)}
		if !slices.Contains(short, word) {
			o.Available = o.Capacity
			for _, pod := range pods {
				o.Available -= pod.used(signal.resource())
			}
		}
		observed[signal] = o
	}
	return observed
}

// allPIDs is how many process ids a node has.
const allPIDs = 1 << 15

func (m *Manager) capacity(signal Signal) int64 {
	if signal == PIDAvailable {
		return allPIDs
	}
	return m.parts.Capacity.Name(signal.resource(), resource.BinarySI).Value()
}

// report says what has changed of the pressures.
func (m *Manager) report(now []corev1.NodeConditionType) {
	m.mu.Lock()
	was := m.pressures
	m.pressures = now
	m.mu.Unlock()
	if slices.Equal(was, now) {
		return
	}
	for _, signal := range signals() {
		kind := signal.condition()
		before, after := slices.Contains(was, kind), slices.Contains(now, kind)
		if before != after {
			reason := word(kind, after)
			m.parts.Events.Event(m.node(), corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", m.parts.Name, reason))
		}
	}
	m.parts.Node.Changed()
}

// word is the reason of an event about a pressure, as upstream's.
func word(kind corev1.NodeConditionType, under bool) string {
	switch {
	case kind == corev1.NodeMemoryPressure && under:
		return "NodeHasInsufficientMemory"
	case kind == corev1.NodeMemoryPressure:
		return "NodeHasSufficientMemory"
	case kind == corev1.NodeDiskPressure && under:
		return "NodeHasDiskPressure"
	case kind == corev1.NodeDiskPressure:
		return "NodeHasNoDiskPressure"
	case under:
		return "NodeHasInsufficientPID"
	}
	return "NodeHasSufficientPID"
}

// node is who events about the node are about; as upstream, its UID is its name.
func (m *Manager) node() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.parts.Name, UID: types.UID(m.parts.Name)}}
}
