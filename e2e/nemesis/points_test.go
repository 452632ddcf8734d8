package nemesis

import (
	"fmt"
	"strings"
	"time"
)

// addFault makes the step add a fault, and clear it at the end.
func (s *Step) addFault(arguments ...string) {
	s.Begin = [][]string{append([]string{"fault", "add", s.Name}, arguments...)}
	s.End = [][]string{{"fault", "clear", s.Name}}
	s.NeedsHit = true
}

// pointFault is a fault at a point, as flags of `podfall fault add`.
type pointFault struct {
	flags string
	// crashes names the process that the fault crashes. NODE in it, as in flags, is replaced by a
	// node.
	crashes string
}

// Rows of the catalogue that no seed draws here, and why:
//
//	13, 14  a slow or silent watcher: the load has no watchers; the processes' own are slowed by
//	        watch.deliver, latency, bandwidth and pauses
//	30, 31  malformed messages, unauthorised publishers: no command of podfall's sends them;
//	        rogue_test.go of e2e/procs and badinput_test.go of e2e/gateway do
//	32      a second kubelet of one name: no command starts one; e2e/sim does (twin.go)
//	34      compaction and restore: no command does that; e2e/sim compacts
//	36      a node deleted or out of service: K8 still sounds where a pod is failed while its
//	        kubelet, which has just heard of it, starts it; e2e/sim does both
//
// Of row 3, terminate is the restart; an upgrade needs a second binary. Row 37 is sweeps, of a
// dozen pods and not of 10,000.

// pointFaults returns faults from which the product must recover, with their numbers in the
// catalogue. It omits faults from which no recovery is possible: a watch that loses an event for
// good, and a runtime that lies.
func pointFaults() []pointFault {
	return []pointFault{
		// 9, 29, 31, 33: messages are lost, late, duplicated, or refused.
		{flags: "--point api.request --effect drop --client node:NODE --probability 0.5"},
		{flags: "--point api.request --effect drop --client controllers* --probability 0.3"},
		{flags: "--point api.request --effect drop --client node:* --verb delete --count 2"},
		{flags: "--point api.request --effect duplicate --client node:* --probability 0.5"},
		{flags: "--point api.request --effect duplicate --client controllers* --probability 0.5"},
		{flags: "--point api.request --effect error --code 503 --client node:NODE --probability 0.5"},
		{flags: "--point api.request --effect error --code 409 --client node:NODE --subresource status --count 5"},
		{flags: "--point api.request --effect error --code 500 --client controllers* --probability 0.3"},
		{flags: "--point api.request --effect error --code 429 --client node:* --probability 0.3"},
		{flags: "--point api.request --effect hang --client node:NODE --resource pods --verb delete"},
		{flags: "--point api.request --effect hang --client controllers/statefulset"},
		{flags: "--point api.request --effect delay --delay 5s --client node:NODE --resource pods"},
		{flags: "--point watch.deliver --effect duplicate --client node:* --probability 0.5"},
		{flags: "--point watch.deliver --effect duplicate --client controllers --probability 0.5"},
		{flags: "--point watch.deliver --effect expire --client node:NODE --count 3"},
		{flags: "--point watch.deliver --effect expire --client controllers --count 3"},
		{flags: "--point watch.deliver --effect delay --delay 4s --client node:NODE --probability 0.3"},
		{flags: "--point watch.deliver --effect hang --client controllers"},
		// 16, 17, 18: the disk is slow, full, broken; 1: the apiserver crashes at the worst points.
		{flags: "--point store.commit --effect error --probability 0.3"},
		{flags: "--point store.commit --effect delay --delay 3s --probability 0.5"},
		{flags: "--point store.sync --effect delay --delay 4s --probability 0.5"},
		{flags: "--point store.sync --effect error --count 1", crashes: "apiserver"},
		{flags: "--point store.sync --effect crash --skip 2 --count 1", crashes: "apiserver"},
		{flags: "--point store.commit --effect crash --skip 3 --count 1", crashes: "apiserver"},
		{flags: "--point store.synced --effect crash --skip 2 --count 1", crashes: "apiserver"},
		// 1, 22, 24, 25, 27: the runtime fails, hangs, is slow, crashes, or its answers are lost.
		{flags: "--point cri.* --effect error --code Unavailable --node NODE --probability 0.3"},
		{flags: "--point cri.StopContainer --effect hang --node NODE"},
		{flags: "--point cri.StopContainer --effect drop --node NODE --probability 0.7"},
		{flags: "--point cri.StopContainer --effect crash --node NODE --count 1", crashes: "runtime/NODE"},
		{flags: "--point cri.RemoveContainer --effect error --code Unknown --node NODE"},
		{flags: "--point cri.StopPodSandbox --effect error --code Unavailable --node NODE"},
		{flags: "--point cri.RemovePodSandbox --effect drop --node NODE --probability 0.5"},
		{flags: "--point cri.ListPodSandbox --effect delay --delay 5s --node NODE"},
		{flags: "--point cri.ListContainers --effect error --code DeadlineExceeded --node NODE --probability 0.5"},
		{flags: "--point cri.StartContainer --effect drop --node NODE --probability 0.5"},
		{flags: "--point cri.CreateContainer --effect crash --node NODE --count 1", crashes: "runtime/NODE"},
		{flags: "--point cri.RunPodSandbox --effect error --code Unknown --node NODE --probability 0.5"},
		{flags: "--point engine.signal --effect drop --verb SIGKILL --node NODE"},
		{flags: "--point engine.signal --effect delay --delay 3s --node NODE"},
		{flags: "--point engine.signal --effect crash --verb SIGTERM --node NODE --count 1", crashes: "runtime/NODE"},
		{flags: "--point engine.signal --effect crash --verb SIGKILL --node NODE --count 1", crashes: "runtime/NODE"},
		{flags: "--point image.pull --effect error --node NODE"},
		// 23: volumes.
		{flags: "--point volume.mount --effect error --node NODE --probability 0.5"},
		{flags: "--point volume.unmount --effect error --node NODE"},
		{flags: "--point volume.unmount --effect hang --node NODE"},
		{flags: "--point volume.unmount --effect crash --node NODE --count 1", crashes: "kubelet/NODE"},
		{flags: "--point volume.remove-dir --effect error --node NODE"},
		// 35: a node is under pressure.
		{flags: "--point node.pressure --effect value --value memory --node NODE"},
		{flags: "--point node.allocate --effect error --node NODE --probability 0.5"},
	}
}

// faultPoint draws a fault at one of the points.
func (d *Drawer) faultPoint(s *Step) {
	chosen, node := pick(d.Rand, pointFaults()), d.randomNode()
	arguments := strings.Fields(strings.ReplaceAll(chosen.flags, "NODE", node))
	s.addFault(append(arguments, "--seed", fmt.Sprint(d.drawn))...)
	if chosen.crashes != "" {
		s.Down = []string{strings.ReplaceAll(chosen.crashes, "NODE", node)}
	}
	s.Lasts += time.Second // time for an operation to reach the point
}
