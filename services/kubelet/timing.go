package kubelet

import (
	"time"

	"github.com/podfall/podfall/internal/events"
	"github.com/podfall/podfall/services/kubelet/eviction"
	"github.com/podfall/podfall/services/kubelet/node"
	"github.com/podfall/podfall/services/kubelet/pleg"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/pulls"
	"github.com/podfall/podfall/services/kubelet/status"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// Timing is every interval of a kubelet, in cluster time. The shortest graces, 1 s for a worker and
// 2 s for a runtime, are not here: they are rules of the protocol, podworker.MinimumGrace and
// podworker.MinimumStop.
type Timing struct {
	Loop    LoopTiming
	Relist  pleg.Timing
	Worker  podworker.Timing
	Status  status.Timing
	Volumes volumes.Timing
	Node    node.Timing
	Events  events.RateLimit
	Pulls   pulls.Timing

	Eviction eviction.Timing
}

// LoopTiming holds the intervals of the sync loop.
type LoopTiming struct {
	// Tick is the interval of checks for due retries; Housekeeping is the interval of housekeeping;
	// Collect is the interval at which dead containers are removed; Manifests is the interval at
	// which the static pods' directory is read.
	Tick, Housekeeping, Collect, Manifests time.Duration
	// SkipFirst, doubled up to SkipMax, is how long the loop pauses while the runtime has problems
	// (KBL-07).
	SkipFirst, SkipMax time.Duration
}

// Default returns upstream's timing.
func Default() Timing {
	return Timing{
		Loop: LoopTiming{
			Tick: time.Second, Housekeeping: 2 * time.Second, Collect: time.Minute, Manifests: time.Second,
			SkipFirst: 100 * time.Millisecond, SkipMax: 5 * time.Second,
		},
		Relist: pleg.Timing{Period: time.Second, Threshold: 3 * time.Minute, Down: 30 * time.Second},
		Worker: podworker.Timing{
			AwaitRelist: true, Backoff: 10 * time.Second, Resync: time.Minute, Jitter: 0.5,
			Crash:    podworker.CrashTiming{Initial: 10 * time.Second, Max: 5 * time.Minute},
			KillWait: 10 * time.Second,
		},
		Status: status.Timing{Batch: 10 * time.Second, Lanes: 1},
		Volumes: volumes.Timing{
			MountWait: 2*time.Minute + 3*time.Second, RetryFirst: 500 * time.Millisecond, RetryMax: 2*time.Minute + 2*time.Second,
			AttachPoll: time.Second, UnmountWait: 2*time.Minute + 3*time.Second, UnmountPoll: 300 * time.Millisecond, DirPoll: 100 * time.Millisecond,
		},
		Node: node.Timing{
			LeaseDuration: 40 * time.Second, LeaseRenew: 10 * time.Second,
			Compute: 10 * time.Second, Report: 5 * time.Minute, Retry: time.Second,
		},
		Events: events.DefaultRateLimit(),
		Pulls:  pulls.Timing{Initial: 10 * time.Second, Max: 5 * time.Minute},

		Eviction: eviction.Default(),
	}
}

// Fastest returns a timing in which only the containers, the runtime and the API delay a pod:
// workers run at once instead of after a relist, and many statuses are sent at a time. Ticks remain
// for failures and for containers that end by themselves.
func Fastest() Timing {
	t := Default()
	t.Relist.Period = 500 * time.Millisecond
	t.Worker.AwaitRelist = false
	t.Worker.Backoff = time.Second
	t.Status.Lanes = 16
	t.Status.Batch = time.Second
	t.Volumes.UnmountPoll, t.Volumes.DirPoll = 20*time.Millisecond, 20*time.Millisecond
	return t
}
