package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/services/kubelet"
)

// timingFlag is one of a kubelet's time constants as a flag.
type timingFlag struct {
	flag, usage string
	field       func(*kubelet.Timing) *time.Duration
}

// timingConstants lists those of upstream's periods that belong to a kubelet.
func timingConstants() []timingFlag {
	return []timingFlag{
		{"sync-tick", "between two looks for retries that are due", func(t *kubelet.Timing) *time.Duration { return &t.Loop.Tick }},
		{"housekeeping-interval", "between two rounds of housekeeping", func(t *kubelet.Timing) *time.Duration { return &t.Loop.Housekeeping }},
		{"relist-period", "between two listings of the runtime's containers", func(t *kubelet.Timing) *time.Duration { return &t.Relist.Period }},
		{"relist-threshold", "without a listing makes the node NotReady", func(t *kubelet.Timing) *time.Duration { return &t.Relist.Threshold }},
		{"worker-backoff", "before a pod worker tries again what failed, and up to half more", func(t *kubelet.Timing) *time.Duration { return &t.Worker.Backoff }},
		{"sync-frequency", "before a pod worker looks again at a pod that is well, and up to half more", func(t *kubelet.Timing) *time.Duration { return &t.Worker.Resync }},
		{"crash-backoff", "before a container that has crashed is started again, doubled each time", func(t *kubelet.Timing) *time.Duration { return &t.Worker.Crash.Initial }},
		{"crash-backoff-max", "is as far as it doubles", func(t *kubelet.Timing) *time.Duration { return &t.Worker.Crash.Max }},
		{"status-batch", "between two rounds of sending the statuses that were not accepted", func(t *kubelet.Timing) *time.Duration { return &t.Status.Batch }},
		{"unmount-wait", "to wait for volumes to be unmounted", func(t *kubelet.Timing) *time.Duration { return &t.Volumes.UnmountWait }},
		{"unmount-poll", "between two looks whether they are", func(t *kubelet.Timing) *time.Duration { return &t.Volumes.UnmountPoll }},
		{"volume-dir-poll", "between two looks whether their directories are gone", func(t *kubelet.Timing) *time.Duration { return &t.Volumes.DirPoll }},
		{"node-lease-duration", "that a node's lease lasts", func(t *kubelet.Timing) *time.Duration { return &t.Node.LeaseDuration }},
		{"node-lease-renew", "between two renewals", func(t *kubelet.Timing) *time.Duration { return &t.Node.LeaseRenew }},
		{"node-status-update-frequency", "between two looks at the node's status", func(t *kubelet.Timing) *time.Duration { return &t.Node.Compute }},
		{"node-status-report-frequency", "between two reports of a status that has not changed", func(t *kubelet.Timing) *time.Duration { return &t.Node.Report }},
	}
}

// timingFlags returns --timing and a flag for each constant.
func timingFlags() []cli.Flag {
	defaults := kubelet.Default()
	flags := []cli.Flag{
		&cli.StringFlag{Name: "timing", Value: "default", Usage: "default (upstream's) or fastest; the flags below change one tick of it"},
	}
	for _, tick := range timingConstants() {
		flags = append(flags, &cli.DurationFlag{
			Name: tick.flag, Usage: "`TIME` " + tick.usage, DefaultText: tick.field(&defaults).String(),
		})
	}
	return flags
}

// parseTiming returns the timing that the command line asks for.
func parseTiming(c *cli.Context) (kubelet.Timing, error) {
	timing := kubelet.Default()
	switch c.String("timing") {
	case "default":
	case "fastest":
		timing = kubelet.Fastest()
	default:
		return timing, usageError("--timing %q: want default or fastest", c.String("timing"))
	}
	for _, tick := range timingConstants() {
		if !c.IsSet(tick.flag) {
			continue
		}
		if c.Duration(tick.flag) <= 0 {
			return timing, usageError("--%s %v: want more than 0", tick.flag, c.Duration(tick.flag))
		}
		*tick.field(&timing) = c.Duration(tick.flag)
	}
	return timing, nil
}
