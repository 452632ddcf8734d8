package loop

import (
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// queueMetrics are upstream's metrics of work queues. Their durations are wall-clock time, because
// they measure the machine's work.
type queueMetrics struct {
	name                                       string
	adds, depth, retries                       *metrics.Family
	waited, worked, unfinished, longestRunning *metrics.Family
}

func newCounts(all *metrics.Registry, name string) queueMetrics {
	return queueMetrics{
		name:    name,
		adds:    all.Counter("workqueue_adds_total", "Total number of adds handled by workqueue", "name"),
		depth:   all.Gauge("workqueue_depth", "Current depth of workqueue", "name"),
		retries: all.Counter("workqueue_retries_total", "Total number of retries handled by workqueue", "name"),
		waited: all.Histogram("workqueue_queue_duration_seconds",
			"How long in seconds an item stays in workqueue before being requested", metrics.WorkQueueBuckets(), "name"),
		worked: all.Histogram("workqueue_work_duration_seconds",
			"How long in seconds processing an item from workqueue takes.", metrics.WorkQueueBuckets(), "name"),
		unfinished: all.Gauge("workqueue_unfinished_work_seconds",
			"How many seconds of work has done that is in progress and hasn't been observed by work_duration. "+
				"Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.", "name"),
		longestRunning: all.Gauge("workqueue_longest_running_processor_seconds",
			"How many seconds has the longest running processor for workqueue been running.", "name"),
	}
}

// updateGauges sets the gauges when the metrics are read.
func (l *Loop[K]) updateGauges() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all, longest time.Duration
	for _, since := range l.busy {
		running := clock.Clock{}.Since(since)
		all, longest = all+running, max(longest, running)
	}
	l.counts.depth.Set(float64(len(l.waiting)), l.counts.name)
	l.counts.unfinished.Set(all.Seconds(), l.counts.name)
	l.counts.longestRunning.Set(longest.Seconds(), l.counts.name)
}
