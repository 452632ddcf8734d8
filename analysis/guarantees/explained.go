package guarantees

import (
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// The paces of explanations: a pod is overdue ten seconds after its grace period, and is
// looked at every so often.
const (
	// A pod is overdue 10 s after its grace period. Explanations are made every 30 s.
	overdue   = 10 * time.Second
	explained = 30 * time.Second
	// causeFreshness is how long after a trouble its cause may still be named: what a kubelet
	// reports of itself is as old as its last attempt.
	fresh = 30 * time.Second
	// refusalMemory is how long after the API refused a kubelet the refusal may still be named. It
	// is reported for a minute after it was heard (why.Pod.refused).
	remembered = time.Minute + fresh + observed
)

// checkExplanations checks L8: every reported blocker was real, and a pod that is overdue because
// of a trouble is explained.
func explains(p *past, t *trial) {
	for _, one := range p.lives() {
		for _, e := range one.blockers {
			fact, _ := e.Fact.(history.Blocker)
			t.expect(p.waitsFor(one, fact.Reason, e), "a pod was said to wait for what it did not wait for", append(p.brokenAt(e), e)...)
		}
	}
	p.silences(t)
}

// blockedPod is a pod at the moment when it was reported as blocked. Its methods say whether a
// cause could hold then.
type blocked struct {
	*past
	*pod
	*history.Event
}

// hadTrouble reports whether a matching trouble was in force then, or a moment before.
func (b blocked) near(is func(*ordeal) bool) bool {
	return slices.ContainsFunc(b.troubles, func(o *ordeal) bool { return o.touches(b.Began-int64(fresh), b.Ended) && is(o) })
}

// processWasDown reports whether a process did not run.
func (b blocked) process(name string) bool {
	return b.near(func(o *ordeal) bool {
		return (o.Kind == history.TroubleDown || o.Kind == history.TroublePaused) && o.What == name
	})
}

// hadFaultAt reports whether a fault was set at one of the points. A point that ends in a dot
// stands for all that begin so.
func (b blocked) at(points ...fault.Point) bool {
	return b.near(func(o *ordeal) bool { return o.at(points...) })
}

// isFaultAt reports whether the trouble is a fault at one of the points.
func (o *ordeal) at(points ...fault.Point) bool {
	return o.Kind == history.TroubleFault && slices.ContainsFunc(points, func(point fault.Point) bool {
		asked := strings.TrimSuffix(string(o.fault.Spec.Point), "*")
		return strings.HasPrefix(string(point), asked) || strings.HasPrefix(asked, string(point))
	})
}

// nodeWasUnreachable reports whether the node and the apiserver could not reach each other.
func (b blocked) away() bool {
	cut := b.near(func(o *ordeal) bool {
		return o.Kind == history.TroubleCut && (slices.Contains(o.Off, b.node()) || slices.Contains(o.Off, "apiserver"))
	})
	return cut || b.process("kubelet/"+b.node()) || b.process("bus") || b.process("apiserver") || b.at(fault.APIRequest, fault.WatchDeliver)
}

// scriptHas reports whether the script of one of the pod's containers has one of the clauses.
func (b blocked) script(clauses ...string) bool {
	return slices.ContainsFunc(b.pod.containers, func(c *container) bool {
		return slices.ContainsFunc(c.created, func(e *history.Event) bool {
			fact, _ := e.Fact.(history.Create)
			return slices.ContainsFunc(clauses, func(clause string) bool { return strings.Contains(fact.Script, clause) })
		})
	})
}

// kubeletWasRefused reports whether the API refused the pod's kubelet something shortly before.
func (b blocked) refused() bool {
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		return o.node == b.node() && o.answered(b.Began-int64(remembered), b.Ended, turndown)
	})
}

// webhookRefusedKubelet reports whether a webhook refused the kubelet something about the pod or
// its node. Histories of older releases and injected refusals do not record who refused.
func (b blocked) refusedByWebhook() bool {
	told := slices.ContainsFunc(b.operations, func(o *operation) bool { return len(o.webhooks) > 0 })
	if !told || b.at(fault.APIRequest) {
		return b.refused()
	}
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		about := o.Resource == podResource && o.Key == b.name || o.Resource == "nodes" && o.Key == b.node() || strings.HasSuffix(o.Key, "/"+b.node())
		return o.node == b.node() && about && o.deniedBetween(b.Began-int64(remembered), b.Ended)
	})
}

// kubeletStarts returns how often the pod's kubelet had started.
func (b blocked) boots() int {
	n := 0
	for e, fact := range factsOf[history.KubeletBoot](b.past) {
		if fact.Node == b.node() && e.Began <= b.Ended {
			n++
		}
	}
	return n
}

// nodeWasDeleted reports whether the pod's node was not in the API.
func (b blocked) nodeless() bool {
	gone := false
	for _, c := range b.past.commits {
		if c.Resource == "nodes" && c.Key == b.node() && c.Began <= b.Ended {
			gone = c.Op == deleted || gone && c.Op != added
		}
	}
	return gone
}

// causeHolds reports whether a pod was really blocked by the reported cause.
func (p *past) waitsFor(one *pod, reason string, e *history.Event) bool {
	b := blocked{p, one, e}
	if is, judged := reasons()[reason]; judged {
		return is(b)
	}
	return untroubled()[reason]
}

// unjudgedCauses returns the causes that need no trouble, or none that a history records.
func untroubled() map[string]bool {
	return map[string]bool{
		// An application takes its time; how much it says nowhere but in its script.
		"long-grace": true, "sidecar-does-not-stop": true,
		// A stop goes on as it has begun, as upstream (KBL-18).
		"shorter-grace-ignored": true,
		// Images that are pulled, and kubelets that are at a start, are not written down.
		"start-in-progress": true,
		// Why a kubelet has no worker for a pod it does not write down.
		"rejected-pod": true,
		// A message whose time is over is not written down, nor are those that are late.
		"requests-late": true,
	}
}

// causeConditions returns, by the names of analysis/why, what must hold when a cause is reported.
// The other causes are in unjudgedCauses.
func reasons() map[string]func(blocked) bool {
	at := func(points ...fault.Point) func(blocked) bool { return func(b blocked) bool { return b.at(points...) } }
	away := func(b blocked) bool { return b.away() }
	never := func(blocked) bool { return false }
	runtime := func(points ...fault.Point) func(blocked) bool {
		return func(b blocked) bool { return b.process("runtime/"+b.node()) || b.at(points...) }
	}
	return map[string]func(blocked) bool{
		"finalizer-not-removed":     func(b blocked) bool { return b.holds(b.strange) },
		"finalizer-removal-refused": func(b blocked) bool { return b.holds(b.strange) && b.keepsItsFinalizers() },
		"garbage-collector-down":    func(b blocked) bool { return b.holds(collected) && b.hampered() },
		"job-controller-down":       func(b blocked) bool { return b.holds(tracked) && b.hampered() },
		"job-keeps-pod":             func(b blocked) bool { return b.holds(b.kept) },
		// These are said of what is no pod, of a pod that is gone, or beside a cause.
		"clock-skew": never, "created-again": never, "namespace-content": never, "orphaned-volume": never,
		"claim-in-use": never, "volume-bound": never, "dependents-remain": never,
		"apiserver-fails": func(b blocked) bool { return b.failed() },
		// To who is refused, or gets no answer in time, they look alike.
		"store-does-not-write":       func(b blocked) bool { return b.at("store.") || b.away() },
		"kubelet-down":               func(b blocked) bool { return b.process("kubelet/" + b.node()) },
		"node-cut-off":               away,
		"node-cut-off-after-cleanup": away,
		"evicted-from-silent-node":   away,
		// A kubelet whose runtime is away takes nothing up until a moment after.
		"watch-silent":               func(b blocked) bool { return b.away() || runtime("cri.")(b) },
		"runtime-down":               runtime("cri."),
		"runtime-listing-hangs":      runtime("cri."),
		"kubelet-unauthorised":       func(b blocked) bool { return b.away() || b.refused() },
		"node-object-gone":           func(b blocked) bool { return b.nodeless() },
		"kubelet-restarts":           func(b blocked) bool { return b.boots() > 1 },
		"stop-hangs":                 func(b blocked) bool { return runtime("cri.")(b) || b.script("stop hangs") },
		"process-unkillable":         func(b blocked) bool { return b.at("engine.signal") || b.script("survives KILL") },
		"runtime-lies":               at("cri.StopContainer", "cri.RemoveContainer"),
		"sandbox-teardown-fails":     runtime("cri."),
		"device-unprepare-fails":     at("claim.unprepare"),
		"volume-unmount-fails":       at("volume."),
		"volume-mounted-twice":       at("volume."),
		"volume-directory-not-empty": at("volume."),
		"cgroup-busy":                at("cgroup.destroy"),
		"webhook-refuses-kubelet":    func(b blocked) bool { return b.refusedByWebhook() },
		"unexplained": func(b blocked) bool {
			return b.near(func(*ordeal) bool { return true }) || b.script("hangs", "starts after")
		},
	}
}

// troublesAt returns the beginnings of up to three troubles that were in force at an event.
func (p *past) brokenAt(e *history.Event) (begins []*history.Event) {
	for _, o := range p.troubles {
		if o.touches(e.Began, e.Ended) && len(begins) < 3 {
			begins = append(begins, o.begin)
		}
	}
	return begins
}

// checkOverdueExplained looks for pods that were overdue for long because of a single trouble, and
// of which users were told nothing.
func (p *past) silences(t *trial) {
	for _, one := range p.lives() {
		marked, last := one.marked(), one.commits[len(one.commits)-1]
		if marked == nil || !p.served(one) {
			continue
		}
		for _, o := range p.troubles {
			since := max(marked.Ended, o.begin.Ended)
			until := o.surelyUntil()
			if last.Op == deleted {
				until = min(until, last.Began)
			}
			until = min(until, p.latest)
			if o.What == controllers || slices.Contains(o.Off, controllers) || !p.blocks(o, one) || !p.alone(o, since, until) {
				continue
			}
			grace := max(seconds(marked.Grace), least)
			if p.late(since, until, grace+overdue, explained+busy) && p.explaining(since, until) {
				told := slices.ContainsFunc(one.blockers, func(e *history.Event) bool { return e.Began >= marked.Began && e.Began <= until })
				t.expect(told, "nobody was told why a pod is still there", marked.Event, o.begin, o.end)
			}
		}
	}
}

// markCommit returns the commit that marked the pod for deletion; nil for none.
func (one *pod) marked() *commit {
	for _, c := range one.commits {
		if c.Deadline != nil && c.Op != deleted {
			return c
		}
	}
	return nil
}

// isOnlyTrouble reports whether no other trouble was in force meanwhile.
func (p *past) alone(o *ordeal, from, to int64) bool {
	return !slices.ContainsFunc(p.troubles, func(other *ordeal) bool { return other != o && other.touches(from-int64(fresh), to) })
}

// surelyBlocks reports whether the trouble surely keeps the pod in place: its kubelet is down or
// cut off.
func (p *past) blocks(o *ordeal, one *pod) bool {
	switch o.Kind {
	case history.TroubleCut:
		return o.full() && slices.Contains(o.Off, one.node()) && !slices.Contains(o.Off, "apiserver")
	case history.TroubleDown:
		return o.What == "kubelet/"+one.node()
	case history.TroublePaused, history.TroubleFault, history.TroubleClock:
	}
	return false
}

// controllersExplain reports whether the running boot of the controllers ever recorded an
// explanation.
func (p *past) explaining(from, to int64) bool {
	boots := map[string]bool{}
	for _, e := range p.events {
		if e.Process == controllers && e.Began <= to && e.Ended >= from {
			boots[string(e.Boot)] = true
		}
	}
	for e := range factsOf[history.Blocker](p) {
		if boots[string(e.Boot)] && e.Process == controllers {
			return true
		}
	}
	return false
}
