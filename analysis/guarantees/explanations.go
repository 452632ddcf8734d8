package guarantees

import (
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// The timing of explanations. A pod is overdue 10 s after its grace period, and explanations are
// made every 30 s.
const (
	overdueAfter  = 10 * time.Second
	explainPeriod = 30 * time.Second
	// causeFreshness is how long after a trouble its cause may still be named: what a kubelet
	// reports of itself is as old as its last attempt.
	causeFreshness = 30 * time.Second
	// refusalMemory is how long after the API refused a kubelet the refusal may still be named. It
	// is reported for a minute after it was heard (why.Pod.checkRefusals).
	refusalMemory = time.Minute + causeFreshness + observationAge
)

// checkExplanations checks L8: every reported blocker was real, and a pod that is overdue because
// of a trouble is explained.
func checkExplanations(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		for _, e := range pod.blockers {
			fact, _ := e.Fact.(history.Blocker)
			t.expect(h.causeHolds(pod, fact.Reason, e), "a pod was said to wait for what it did not wait for", append(h.troublesAt(e), e)...)
		}
	}
	h.checkOverdueExplained(t)
}

// blockedPod is a pod at the moment when it was reported as blocked. Its methods say whether a
// cause could hold then.
type blockedPod struct {
	*clusterHistory
	*podHistory
	*history.Event
}

// hadTrouble reports whether a matching trouble was in force then, or a moment before.
func (b blockedPod) hadTrouble(is func(*trouble) bool) bool {
	return slices.ContainsFunc(b.troubles, func(tr *trouble) bool { return tr.mayOverlap(b.Began-int64(causeFreshness), b.Ended) && is(tr) })
}

// processWasDown reports whether a process did not run.
func (b blockedPod) processWasDown(name string) bool {
	return b.hadTrouble(func(tr *trouble) bool {
		return (tr.Kind == history.TroubleDown || tr.Kind == history.TroublePaused) && tr.What == name
	})
}

// hadFaultAt reports whether a fault was set at one of the points. A point that ends in a dot
// stands for all that begin so.
func (b blockedPod) hadFaultAt(points ...fault.Point) bool {
	return b.hadTrouble(func(tr *trouble) bool { return tr.isFaultAt(points...) })
}

// isFaultAt reports whether the trouble is a fault at one of the points.
func (tr *trouble) isFaultAt(points ...fault.Point) bool {
	return tr.Kind == history.TroubleFault && slices.ContainsFunc(points, func(point fault.Point) bool {
		asked := strings.TrimSuffix(string(tr.fault.Spec.Point), "*")
		return strings.HasPrefix(string(point), asked) || strings.HasPrefix(asked, string(point))
	})
}

// nodeWasUnreachable reports whether the node and the apiserver could not reach each other.
func (b blockedPod) nodeWasUnreachable() bool {
	cut := b.hadTrouble(func(tr *trouble) bool {
		return tr.Kind == history.TroubleCut && (slices.Contains(tr.CutOff, b.nodeName()) || slices.Contains(tr.CutOff, "apiserver"))
	})
	return cut || b.processWasDown("kubelet/"+b.nodeName()) || b.processWasDown("bus") || b.processWasDown("apiserver") || b.hadFaultAt(fault.APIRequest, fault.WatchDeliver)
}

// scriptHas reports whether the script of one of the pod's containers has one of the clauses.
func (b blockedPod) scriptHas(clauses ...string) bool {
	return slices.ContainsFunc(b.containers, func(c *container) bool {
		return slices.ContainsFunc(c.created, func(e *history.Event) bool {
			fact, _ := e.Fact.(history.Create)
			return slices.ContainsFunc(clauses, func(clause string) bool { return strings.Contains(fact.Script, clause) })
		})
	})
}

// kubeletWasRefused reports whether the API refused the pod's kubelet something shortly before.
func (b blockedPod) kubeletWasRefused() bool {
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		return o.node == b.nodeName() && o.wasAnswered(b.Began-int64(refusalMemory), b.Ended, isRejection)
	})
}

// webhookRefusedKubelet reports whether a webhook refused the kubelet something about the pod or
// its node. Histories of older releases and injected refusals do not record who refused.
func (b blockedPod) webhookRefusedKubelet() bool {
	recorded := slices.ContainsFunc(b.operations, func(o *operation) bool { return len(o.webhooks) > 0 })
	if !recorded || b.hadFaultAt(fault.APIRequest) {
		return b.kubeletWasRefused()
	}
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		about := o.Resource == podResource && o.Key == b.name || o.Resource == "nodes" && o.Key == b.nodeName() || strings.HasSuffix(o.Key, "/"+b.nodeName())
		return o.node == b.nodeName() && about && o.deniedByWebhookBetween(b.Began-int64(refusalMemory), b.Ended)
	})
}

// kubeletStarts returns how often the pod's kubelet had started.
func (b blockedPod) kubeletStarts() int {
	n := 0
	for e, fact := range factsOf[history.KubeletBoot](b.clusterHistory) {
		if fact.Node == b.nodeName() && e.Began <= b.Ended {
			n++
		}
	}
	return n
}

// nodeWasDeleted reports whether the pod's node was not in the API.
func (b blockedPod) nodeWasDeleted() bool {
	gone := false
	for _, c := range b.clusterHistory.commits {
		if c.Resource == "nodes" && c.Key == b.nodeName() && c.Began <= b.Ended {
			gone = c.Op == deleted || gone && c.Op != added
		}
	}
	return gone
}

// causeHolds reports whether a pod was really blocked by the reported cause.
func (h *clusterHistory) causeHolds(pod *podHistory, reason string, e *history.Event) bool {
	b := blockedPod{h, pod, e}
	if holds, judged := causeConditions()[reason]; judged {
		return holds(b)
	}
	return unjudgedCauses()[reason]
}

// unjudgedCauses returns the causes that need no trouble, or none that a history records.
func unjudgedCauses() map[string]bool {
	return map[string]bool{
		// An application takes its time, and only its script says how much.
		"long-grace": true, "sidecar-does-not-stop": true,
		// A stop keeps the grace period it began with, as upstream (KBL-18).
		"shorter-grace-ignored": true,
		// Image pulls and container starts in progress are not recorded.
		"start-in-progress": true,
		// Why a kubelet has no worker for a pod is not recorded.
		"rejected-pod": true,
		// Late and expired messages are not recorded.
		"requests-late": true,
	}
}

// causeConditions returns, by the names of analysis/why, what must hold when a cause is reported.
// The other causes are in unjudgedCauses.
func causeConditions() map[string]func(blockedPod) bool {
	faultAt := func(points ...fault.Point) func(blockedPod) bool {
		return func(b blockedPod) bool { return b.hadFaultAt(points...) }
	}
	unreachable := func(b blockedPod) bool { return b.nodeWasUnreachable() }
	never := func(blockedPod) bool { return false }
	runtimeTrouble := func(points ...fault.Point) func(blockedPod) bool {
		return func(b blockedPod) bool { return b.processWasDown("runtime/"+b.nodeName()) || b.hadFaultAt(points...) }
	}
	return map[string]func(blockedPod) bool{
		"finalizer-not-removed":     func(b blockedPod) bool { return b.anyVersion(b.awaitsOthers) },
		"finalizer-removal-refused": func(b blockedPod) bool { return b.anyVersion(b.awaitsOthers) && b.finalizerRemovalWasRefused() },
		"garbage-collector-down":    func(b blockedPod) bool { return b.anyVersion(awaitsCollector) && b.controllersWereHampered() },
		"job-controller-down":       func(b blockedPod) bool { return b.anyVersion(awaitsJobController) && b.controllersWereHampered() },
		"job-keeps-pod":             func(b blockedPod) bool { return b.anyVersion(b.awaitsJob) },
		// These concern other objects, pods that are gone, or come beside another cause.
		"clock-skew": never, "created-again": never, "namespace-content": never, "orphaned-volume": never,
		"claim-in-use": never, "volume-bound": never, "dependents-remain": never,
		"apiserver-fails": func(b blockedPod) bool { return b.apiserverFailed() },
		// A client cannot tell a stuck store from a lost answer.
		"store-does-not-write":       func(b blockedPod) bool { return b.hadFaultAt("store.") || b.nodeWasUnreachable() },
		"kubelet-down":               func(b blockedPod) bool { return b.processWasDown("kubelet/" + b.nodeName()) },
		"node-cut-off":               unreachable,
		"node-cut-off-after-cleanup": unreachable,
		"evicted-from-silent-node":   unreachable,
		// A kubelet without its runtime takes up nothing until a moment after.
		"watch-silent":               func(b blockedPod) bool { return b.nodeWasUnreachable() || runtimeTrouble("cri.")(b) },
		"runtime-down":               runtimeTrouble("cri."),
		"runtime-listing-hangs":      runtimeTrouble("cri."),
		"kubelet-unauthorised":       func(b blockedPod) bool { return b.nodeWasUnreachable() || b.kubeletWasRefused() },
		"node-object-gone":           func(b blockedPod) bool { return b.nodeWasDeleted() },
		"kubelet-restarts":           func(b blockedPod) bool { return b.kubeletStarts() > 1 },
		"stop-hangs":                 func(b blockedPod) bool { return runtimeTrouble("cri.")(b) || b.scriptHas("stop hangs") },
		"process-unkillable":         func(b blockedPod) bool { return b.hadFaultAt("engine.signal") || b.scriptHas("survives KILL") },
		"runtime-lies":               faultAt("cri.StopContainer", "cri.RemoveContainer"),
		"sandbox-teardown-fails":     runtimeTrouble("cri."),
		"device-unprepare-fails":     faultAt("claim.unprepare"),
		"volume-unmount-fails":       faultAt("volume."),
		"volume-mounted-twice":       faultAt("volume."),
		"volume-directory-not-empty": faultAt("volume."),
		"cgroup-busy":                faultAt("cgroup.destroy"),
		"webhook-refuses-kubelet":    func(b blockedPod) bool { return b.webhookRefusedKubelet() },
		"unexplained": func(b blockedPod) bool {
			return b.hadTrouble(func(*trouble) bool { return true }) || b.scriptHas("hangs", "starts after")
		},
	}
}

// troublesAt returns the beginnings of up to three troubles that were in force at an event.
func (h *clusterHistory) troublesAt(e *history.Event) (begins []*history.Event) {
	for _, tr := range h.troubles {
		if tr.mayOverlap(e.Began, e.Ended) && len(begins) < 3 {
			begins = append(begins, tr.begin)
		}
	}
	return begins
}

// checkOverdueExplained looks for pods that were overdue for long because of a single trouble,
// without an explanation to users.
func (h *clusterHistory) checkOverdueExplained(t *tally) {
	for _, pod := range h.completePods() {
		mark, last := pod.markCommit(), pod.commits[len(pod.commits)-1]
		if mark == nil || !h.isManaged(pod) {
			continue
		}
		for _, tr := range h.troubles {
			since := max(mark.Ended, tr.begin.Ended)
			until := tr.surelyOverAt()
			if last.Op == deleted {
				until = min(until, last.Began)
			}
			until = min(until, h.latest)
			if tr.What == controllers || slices.Contains(tr.CutOff, controllers) || !h.surelyBlocks(tr, pod) || !h.isOnlyTrouble(tr, since, until) {
				continue
			}
			grace := max(seconds(mark.Grace), minGrace)
			if h.isLate(since, until, grace+overdueAfter, explainPeriod+machineSlack) && h.controllersExplain(since, until) {
				explained := slices.ContainsFunc(pod.blockers, func(e *history.Event) bool { return e.Began >= mark.Began && e.Began <= until })
				t.expect(explained, "no explanation was reported for a pod that is still there", mark.Event, tr.begin, tr.end)
			}
		}
	}
}

// markCommit returns the commit that marked the pod for deletion; nil for none.
func (pod *podHistory) markCommit() *commit {
	for _, c := range pod.commits {
		if c.Deadline != nil && c.Op != deleted {
			return c
		}
	}
	return nil
}

// isOnlyTrouble reports whether no other trouble was in force meanwhile.
func (h *clusterHistory) isOnlyTrouble(tr *trouble, from, to int64) bool {
	return !slices.ContainsFunc(h.troubles, func(another *trouble) bool {
		return another != tr && another.mayOverlap(from-int64(causeFreshness), to)
	})
}

// surelyBlocks reports whether the trouble surely keeps the pod in place: its kubelet is down or
// cut off.
func (h *clusterHistory) surelyBlocks(tr *trouble, pod *podHistory) bool {
	switch tr.Kind {
	case history.TroubleCut:
		return tr.isFullCut() && slices.Contains(tr.CutOff, pod.nodeName()) && !slices.Contains(tr.CutOff, "apiserver")
	case history.TroubleDown:
		return tr.What == "kubelet/"+pod.nodeName()
	case history.TroublePaused, history.TroubleFault, history.TroubleClock:
	}
	return false
}

// controllersExplain reports whether the running boot of the controllers ever recorded an
// explanation.
func (h *clusterHistory) controllersExplain(from, to int64) bool {
	boots := map[string]bool{}
	for _, e := range h.events {
		if e.Process == controllers && e.Began <= to && e.Ended >= from {
			boots[string(e.Boot)] = true
		}
	}
	for e := range factsOf[history.Blocker](h) {
		if boots[string(e.Boot)] && e.Process == controllers {
			return true
		}
	}
	return false
}
