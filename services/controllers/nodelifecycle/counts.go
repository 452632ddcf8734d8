package nodelifecycle

import (
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
)

// lifecycleMetrics are upstream's metrics of its node lifecycle controller.
type lifecycleMetrics struct {
	size, health, unhealthy, evictions *metrics.Family
	pass                               *metrics.Family
}

func newCounts(all *metrics.Registry) lifecycleMetrics {
	return lifecycleMetrics{
		size:      all.Gauge("node_collector_zone_size", "Gauge measuring number of registered Nodes per zones.", "zone"),
		health:    all.Gauge("node_collector_zone_health", "Gauge measuring percentage of healthy nodes per zone.", "zone"),
		unhealthy: all.Gauge("node_collector_unhealthy_nodes_in_zone", "Gauge measuring number of not Ready Nodes per zones.", "zone"),
		evictions: all.Counter("node_collector_evictions_total", "Number of Node evictions that happened since current instance of NodeController started.", "zone"),
		pass: all.Histogram("node_collector_update_all_nodes_health_duration_seconds",
			"Duration in seconds for NodeController to update the health of all nodes.", metrics.LatencyBuckets()),
	}
}

// setZones sets the metrics of the zones.
func (c lifecycleMetrics) setZones(zones map[string]Census) {
	for zone, census := range zones {
		all := census.Ready + census.NotReady
		c.size.Set(float64(all), zone)
		c.unhealthy.Set(float64(census.NotReady), zone)
		c.health.Set(100*float64(census.Ready)/float64(max(all, 1)), zone)
	}
}

// observeCheck counts how long a check of all nodes took, in wall-clock time.
func (c lifecycleMetrics) observeCheck(began time.Time) { c.pass.Observe(clock.Clock{}.Since(began)) }
