package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/kubelet/eviction"
)

// machineFlags returns the flags for evictions, static pods and shutdown, with upstream's names.
func machineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "pod-manifest-path", Usage: "the `DIRECTORY` of the node's static pods; none means manifests below --data"},
		&cli.StringFlag{
			Name: "eviction-hard", Value: "memory.available<100Mi,nodefs.available<10%,pid.available<5%",
			Usage: "the `THRESHOLDS` that evict a pod at once",
		},
		&cli.StringFlag{Name: "eviction-soft", Usage: "the `THRESHOLDS` that evict a pod when they have been met for a while"},
		&cli.StringFlag{Name: "eviction-soft-grace-period", Usage: "for how long, such as `memory.available=1m30s`"},
		&cli.Int64Flag{Name: "eviction-max-pod-grace-period", Usage: "the most `SECONDS` that a pod has which a soft threshold evicts"},
		&cli.DurationFlag{Name: "shutdown-grace-period", Value: 30 * time.Second, Usage: "the `TIME` that the pods have when the node is shut down"},
		&cli.DurationFlag{
			Name: "shutdown-grace-period-critical-pods", Value: 10 * time.Second, Usage: "how much of that `TIME` is kept for critical pods",
		},
	}
}

// parseMachine reads the machine flags.
func parseMachine(c *cli.Context) (kubelet.Machine, error) {
	m := kubelet.Machine{
		Seed: randomSeed(), Storage: c.String("volumes"), Manifests: c.String("pod-manifest-path"),
		ShutdownGrace: c.Duration("shutdown-grace-period"), ShutdownGraceCritical: c.Duration("shutdown-grace-period-critical-pods"),
	}
	if m.ShutdownGrace <= 0 || m.ShutdownGraceCritical <= 0 || m.ShutdownGraceCritical > m.ShutdownGrace {
		return m, usageError("--shutdown-grace-period %v, --shutdown-grace-period-critical-pods %v: want both positive, and the second not longer",
			m.ShutdownGrace, m.ShutdownGraceCritical)
	}
	var err error
	if m.Capacity, err = parseCapacity(c); err != nil {
		return m, err
	}
	if m.HostPathRoot, err = parseHostPathRoot(c); err != nil {
		return m, err
	}
	m.Eviction.MaxPodGrace = c.Int64("eviction-max-pod-grace-period")
	m.Eviction.Thresholds, err = eviction.Parse(c.String("eviction-hard"), c.String("eviction-soft"), c.String("eviction-soft-grace-period"))
	if err != nil {
		return m, usageError("--%v", err)
	}
	return m, nil
}
