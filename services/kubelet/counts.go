package kubelet

import (
	"strings"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// kubeletMetrics are upstream's metrics of its kubelet. Durations are wall time.
type kubeletMetrics struct {
	operations, errors, durations  *metrics.Family
	startedPods, startedContainers *metrics.Family
	desired, pods, containers      *metrics.Family
}

func newKubeletMetrics(all *metrics.Registry, node string) kubeletMetrics {
	all.Gauge("kubelet_node_name", "The node's name. The count is always 1.", "node").Set(1, node)
	return kubeletMetrics{
		operations: all.Counter("kubelet_runtime_operations_total", "Cumulative number of runtime operations by operation type.", "operation_type"),
		errors:     all.Counter("kubelet_runtime_operations_errors_total", "Cumulative number of runtime operation errors by operation type.", "operation_type"),
		durations: all.Histogram("kubelet_runtime_operations_duration_seconds",
			"Duration in seconds of runtime operations. Broken down by operation type.", metrics.LatencyBuckets(), "operation_type"),
		startedPods:       all.Counter("kubelet_started_pods_total", "Cumulative number of pods started"),
		startedContainers: all.Counter("kubelet_started_containers_total", "Cumulative number of containers started"),
		desired:           all.Gauge("kubelet_desired_pods", "The number of pods the kubelet is being instructed to run."),
		pods:              all.Gauge("kubelet_running_pods", "Number of pods that have a running pod sandbox"),
		containers:        all.Gauge("kubelet_running_containers", "Number of currently running containers", "container_state"),
	}
}

// countCall counts a call of the runtime that began at an instant of wall time.
func (c kubeletMetrics) countCall(method string, began time.Time, err error) {
	operation := operationType(method)
	c.operations.Add(1, operation)
	c.durations.Observe(clock.Clock{}.Since(began), operation)
	switch {
	case err != nil:
		c.errors.Add(1, operation)
	case method == "RunPodSandbox":
		c.startedPods.Add(1)
	case method == "StartContainer":
		c.startedContainers.Add(1)
	}
}

// operationType returns upstream's name of a CRI method, for example list_podsandbox or
// stop_container.
func operationType(method string) string {
	var words strings.Builder
	for i, letter := range strings.ReplaceAll(method, "PodSandbox", "Podsandbox") {
		if i > 0 && letter >= 'A' && letter <= 'Z' {
			words.WriteByte('_')
		}
		words.WriteRune(letter)
	}
	return strings.ToLower(words.String())
}

// collectGauges sets the gauges from the present state.
func (p *parts) collectGauges(c kubeletMetrics) {
	desired, running := 0, 0
	states := map[string]int{"created": 0, "running": 0, "exited": 0, "unknown": 0}
	for _, view := range p.workers.All() {
		if view.Pod != nil && view.Pod.DeletionTimestamp == nil && !view.Removed {
			desired++
		}
	}
	for _, pod := range p.relister.All() {
		if pod.Sandbox() != nil {
			running++
		}
		for _, container := range pod.Containers {
			states[strings.ToLower(strings.TrimPrefix(container.GetState().String(), "CONTAINER_STATE_"))]++
		}
	}
	c.desired.Set(float64(desired))
	c.pods.Set(float64(running))
	for state, count := range states {
		c.containers.Set(float64(count), state)
	}
}
