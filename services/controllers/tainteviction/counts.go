package tainteviction

import (
	"time"

	"github.com/podfall/podfall/internal/metrics"
)

// evictionMetrics are upstream's metrics of its taint eviction controller.
type evictionMetrics struct{ deletions, late *metrics.Family }

func newCounts(all *metrics.Registry) evictionMetrics {
	return evictionMetrics{
		deletions: all.Counter("taint_eviction_controller_pod_deletions_total",
			"Total number of Pods deleted by TaintEvictionController since its start."),
		late: all.Histogram("taint_eviction_controller_pod_deletion_duration_seconds",
			"Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
			metrics.LatencyBuckets()),
	}
}

// deleted counts a pod that was deleted late after it was due, in cluster time.
func (c evictionMetrics) deleted(late time.Duration) {
	c.deletions.Add(1)
	c.late.Observe(late)
}
