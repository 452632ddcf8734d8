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

// Node is the part of the kubelet that a Manager uses.
type Node interface {
	// ActivePods returns the pods whose containers may run, oldest first.
	ActivePods() []*corev1.Pod
	// EmptyDirSizes returns the sizes in bytes of a pod's emptyDirs that have a limit, by name.
	EmptyDirSizes(pod *corev1.Pod) map[string]int64
	// Evict ends a pod within grace seconds. It returns when its containers have stopped or that
	// takes too long.
	Evict(ctx context.Context, pod *corev1.Pod, grace int64, message string) error
	// IsGone reports whether nothing is left of a pod on the node.
	IsGone(uid types.UID) bool
	// NodeChanged is called when the pressures have changed.
	NodeChanged()
}

// Events sends events to users; it never blocks.
type Events interface {
	Event(about kinds.Object, kind, reason, message string)
}

// Parts are what a Manager uses.
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

// New returns a manager that observes nothing until Run.
func New(parts Parts) *Manager { return &Manager{parts: parts} }

// Pressures returns the pressures that the node is under.
func (m *Manager) Pressures() []corev1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pressures
}

// Run observes, and evicts at most one pod per observation, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	for {
		wait := m.parts.Period
		if evicted := m.observeAndEvict(ctx); evicted != nil {
			wait = 0
			m.awaitGone(ctx, evicted)
		}
		if err := m.parts.Clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// awaitGone waits until an evicted pod is gone, at most CleanUp.
func (m *Manager) awaitGone(ctx context.Context, pod *corev1.Pod) {
	ctx, cancel := m.parts.Clock.Timeout(ctx, m.parts.CleanUp)
	defer cancel()
	for !m.parts.Node.IsGone(pod.UID) {
		if m.parts.Clock.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// observeAndEvict observes once, and returns the pod that it has evicted.
func (m *Manager) observeAndEvict(ctx context.Context) *corev1.Pod {
	var pods []Pod
	for _, pod := range m.parts.Node.ActivePods() {
		pods = append(pods, Pod{Spec: pod, Uses: UsageOf(pod)})
	}
	var finding Finding
	m.state, finding = m.state.Observe(m.observe(pods), m.parts.Config, m.parts.Clock.Steady())
	m.reportPressures(finding.Pressures)
	for _, pod := range pods {
		text := FindExcess(pod, m.parts.Node.EmptyDirSizes(pod.Spec))
		if text != "" && m.evict(ctx, pod.Spec, ImmediateGrace, text) {
			return pod.Spec
		}
	}
	if finding.Starved == nil {
		return nil
	}
	m.parts.Events.Event(m.nodeReference(), corev1.EventTypeWarning, "EvictionThresholdMet",
		fmt.Sprintf("Attempting to reclaim %s", finding.Starved.Signal.resource()))
	pod, found := findVictim(pods, finding.Starved.Signal)
	if found && m.evict(ctx, pod.Spec, finding.Starved.grace(pod.Spec, m.parts.Config), evictionMessage(finding, pod)) {
		return pod.Spec
	}
	return nil
}

func (m *Manager) evict(ctx context.Context, pod *corev1.Pod, grace int64, text string) bool {
	if podstate.IsCritical(pod) {
		m.parts.Log.ErrorContext(ctx, "a critical pod is not evicted", "pod", podstate.Key(pod), "uid", pod.UID, "why", text)
		return false
	}
	m.parts.Events.Event(pod, corev1.EventTypeWarning, "Evicted", text)
	if err := m.parts.Node.Evict(ctx, pod, grace, text); err != nil && ctx.Err() == nil {
		m.parts.Log.ErrorContext(ctx, "an evicted pod did not end", "pod", podstate.Key(pod), "uid", pod.UID, "err", err)
	}
	return true
}

// observe returns what is available: the capacity less what pods use, and nothing of a resource
// that a fault has taken away.
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

// pidCapacity is how many process ids a node has.
const pidCapacity = 1 << 15

func (m *Manager) capacity(signal Signal) int64 {
	if signal == PIDAvailable {
		return pidCapacity
	}
	return m.parts.Capacity.Name(signal.resource(), resource.BinarySI).Value()
}

// reportPressures reports changes of the pressures.
func (m *Manager) reportPressures(now []corev1.NodeConditionType) {
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
			reason := pressureReason(kind, after)
			m.parts.Events.Event(m.nodeReference(), corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", m.parts.Name, reason))
		}
	}
	m.parts.Node.NodeChanged()
}

// pressureReason returns the reason of an event about a pressure, as upstream's.
func pressureReason(kind corev1.NodeConditionType, under bool) string {
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

// nodeReference returns the node for events; as in upstream's, its UID is its name.
func (m *Manager) nodeReference() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.parts.Name, UID: types.UID(m.parts.Name)}}
}
