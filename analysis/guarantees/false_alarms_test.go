package guarantees

import (
	"slices"
	"strconv"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// pauseOf is a pause of a process.
func pauseOf(process string) history.Trouble {
	return history.Trouble{Kind: history.TroublePaused, What: process}
}

// pausedRequest is a request to an apiserver that is paused for 20 s after it checked the deadline,
// with `left` seconds left.
func pausedRequest(left int64) *builder {
	b := newBuilder().runPod().record("apiserver", "a", by(user, "update", func(o *history.OpCall) { o.TimeLeft = new(left * 1000) }))
	b.beginTrouble(pauseOf("apiserver")).wait(20).endTrouble(pauseOf("apiserver")).commit("a", web(modified))
	return b.record("apiserver", "a", history.OpReturn{Code: 200})
}

// lateRequest is a request with 10 s left that takes effect after something happened to the
// apiserver.
func lateRequest(befalls func(b *builder)) *builder {
	b := newBuilder().runPod().record("apiserver", "a", by(user, "update", tenSecondsLeft))
	befalls(b)
	b.commit("a", web(modified))
	return b.record("apiserver", "a", history.OpReturn{Code: 200})
}

// loseCommit removes the event of a revision that the store's file still has.
func (b *builder) loseCommit(revision int64) *builder {
	b.withStoreFile()
	log := &b.evidence.Log
	lost := slices.IndexFunc(log.Events, func(e history.Event) bool {
		c, is := e.Fact.(history.Commit)
		return is && c.Revision == revision
	})
	from := log.Events[lost]
	log.Events = slices.Delete(log.Events, lost, lost+1)
	for i := range log.Events {
		if e := &log.Events[i]; e.Process == from.Process && e.Sequence > from.Sequence {
			e.Sequence--
		}
	}
	return b
}

// falseAlarms returns histories that look like a violation and are none. Each has raised an alarm
// in some run.
func falseAlarms() map[string]*builder {
	begun := history.PreStopBegin{ContainerRef: of()}
	hooks := newBuilder().runPod().markPod().record(kubelet, "", begun).restart(kubelet).signalPod("SIGTERM")
	hooks.record(kubelet, "", begun).record(kubelet, "", history.PreStopEnd{ContainerRef: of()})

	standing := newWatchedBuilder().runPod().markPod().signalPod("SIGTERM").beginTrouble(pauseOf(runtime)).idle(60).endTrouble(pauseOf(runtime)).signalPod("SIGKILL").exitPod()

	unstarted := newBuilder().createPod().record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "2"})
	unstarted.record(runtime, "", history.Create{ContainerRef: of()}).reportContainer("running", 0).restart(runtime).record(runtime, "", history.Recover{ContainerRef: of(), Scripted: true}).exitPod()

	reborn := newWatchedBuilder().runPod().beginTrouble(downtimeOf(kubelet)).forceDelete().idle(10).restart(kubelet).record(kubelet, "", history.KubeletBoot{Node: "n1"})
	reborn.endTrouble(downtimeOf(kubelet)).signalPod("SIGTERM").exitPod().idle(100)

	written := newBuilder().runPod().record("apiserver", "a", by(user, "update", tenSecondsLeft))
	written.wait(8).record("apiserver", "a", history.OpReturn{Code: 504}).wait(40).commit("a", web(modified))
	written.lengthen(50)

	rejects := newBuilder().runPod().reportContainer("running", 0).restart(kubelet).record(kubelet, "", history.KubeletBoot{Node: "n1"})
	rejects.record(kubelet, "", history.KubeletStatus{Pod: name, UID: uid, Phase: "Failed", Containers: []history.ContainerState{{Container: ctr, State: "running"}}})

	late := newBuilder().runPod()
	late.record(controllers, "", history.Lease{})
	late.request("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, late.clock+2)), web(deleted, marked(0, late.clock+2)))
	late.request("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	late.record("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	begin := time.Unix(late.clock, 0)
	late.beginTrouble(pauseOf(runtime)).wait(60).endTrouble(pauseOf(runtime)).exitPod()
	late.record(controllers, "", history.Window{Identity: name, UIDs: []string{uid, "u2"}, Begin: begin, End: new(begin.Add(time.Second))})

	held := newBuilder().runPod()
	held.request("hold", by(user, "update"), 200, web(modified, finalizers("a/b")))
	held.request("mark", by(user, "delete", grace(0)), 200, web(modified, finalizers("a/b"), marked(0, held.clock+2))).idle(30)
	held.record(controllers, "", history.Blocker{UID: uid, Reason: "finalizer-not-removed"}).idle(30)
	held.request("free", by(user, "patch"), 200, web(modified, held.keepMark(), finalizers())).idle(30)

	unheard := newWatchedBuilder().taintNode(50, 300).untaint().wait(20).beginTrouble(downtimeOf("apiserver")).wait(20)
	unheard.stall(controllers, 46)
	unheard.wait(20).endTrouble(downtimeOf("apiserver")).evictByTaint()

	collected := failAfterSuccess(by(controllers, "patch"), history.Decide{Controller: podCollector, Action: "patch", Resource: podResource, Key: name})

	refused := newWatchedBuilder().runPod().markPod().signalPod("SIGTERM").exitPod().idle(50).refuseStatus(node).idle(10).reportContainer("running", 0)

	heldOn := newBuilder().runPod()
	heldOn.request("hold", by(user, "update"), 200, web(modified, finalizers("a/b"))).beginTrouble(skewedClock())
	heldOn.request("mark", by(user, "delete", grace(0)), 200, web(modified, finalizers("a/b"), marked(0, heldOn.clock+2+3600))).endTrouble(skewedClock()).wait(10)
	heldOn.request("confirm", by(node, "delete", grace(0), meaning(uid)), 200, web(modified, finalizers("a/b"), marked(0, heldOn.clock+2)))

	away := history.Trouble{Kind: history.TroubleCut, What: "c", CutOff: []string{controllers}}
	// Others end the pod while a sync stops its container for a failed probe, or while the container
	// waits for its restart.
	probed := newBuilder().runPod().signalPod("SIGTERM").failByOthers().exitPod().record(runtime, "", history.Start{ContainerRef: secondRun()})
	waiting := newBuilder().runPod().exitPod().failByOthers().record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
	waiting.reportContainer("terminated", 137)

	return map[string]*builder{
		"A8: a pod whose containers all restart":                             newBuilder().runPod().request("a", by(node, "update"), 200, web(modified, restartsAll)).request("b", by(node, "update"), 200, web(modified, restartsAll, initializing)),
		"K8: a container that a sync stops and starts again":                 probed,
		"K10: a container that waited for its restart":                       waiting,
		"A8: the present, by a clock that is set meanwhile":                  presentDeadline(skewedClock(), -1),
		"A8: a success that the pod garbage collector has not seen":          collected,
		"C2: a pod that was forced away, and starts after its successor":     lateStart(uid, "u2"),
		"C2: a window of a pod whose runtime has a clock that is behind":     skewedRuntime(0),
		"D3: the present, where a clock that was ahead had set a deadline":   heldOn,
		"C2: a pod that was forced away while its container was starting":    unreportedWindow(history.Exit{ContainerRef: of(), Code: 128, Unstarted: true}),
		"K1: a hook of a kubelet that was killed, and that of the next one":  hooks,
		"K4: a runtime that is paused is late":                               standing,
		"K10: a start that its runtime died before it recorded":              unstarted,
		"C2: a pod that was bound and gone when pods were listed":            unreportedWindowTo(history.Exit{ContainerRef: of()}, relist(1)),
		"C2: a pod that had left before controllers restarted, which report": restartedControllers(nil, []string{uid, "u2"}),
		"C2: one that had left, of controllers whose apiserver is down":      restartedControllers(func(b *builder) { b.beginTrouble(downtimeOf("apiserver")) }, nil),
		"C2: one that had left a node that is not in the API any more": restartedControllers(func(b *builder) {
			b.request("node", by(user, "delete"), 200, history.Commit{Resource: nodeResource, Key: "n1", UID: "n", Op: deleted})
		}, nil),
		"C2: an end that its runtime was about to write when it was paused":     late,
		"K10: what a webhook refused until then":                                refused,
		"K10: what was seen when a stop began that still goes on":               podWithSidecar().markPod().signalPod("SIGTERM").exitPod().idle(50).reportContainer("running", 0),
		"K10: a kubelet that restarts and rejects the pod":                      rejects,
		"L5: a pod of a set without a recorded creation":                        newWatchedBuilder().createSet().makePods(name).loseCommit(2),
		"L5: a pod with a name that the set needs, without a recorded creation": newWatchedBuilder().releaseFromSet("default/db-0", nil).loseCommit(2),
		"L4: a kubelet that restarts has never had a removed pod":               reborn,
		"N2: a change that is begun in time, and long in being written":         written,
		"N2: an apiserver that stands still when it has looked":                 lateRequest(func(b *builder) { b.wait(20).stall("apiserver", 20) }),
		"N2: an apiserver that is paused, and then stands still": lateRequest(func(b *builder) {
			b.beginTrouble(pauseOf("apiserver")).wait(20).endTrouble(pauseOf("apiserver")).wait(20).stall("apiserver", 20)
		}),
		"N2: an apiserver that stands still, and is paused meanwhile": lateRequest(func(b *builder) {
			b.wait(4).beginTrouble(pauseOf("apiserver")).wait(2).endTrouble(pauseOf("apiserver")).wait(20).stall("apiserver", 32)
		}),
		"N2: an apiserver that is paused when it has looked":                        pausedRequest(10),
		"D7: a change at an unknown time":                                           newBuilder().runPod().loseCommit(3),
		"L8: a blocker that ended at an unknown time":                               held.loseCommit(6),
		"C4: a pod whose answer was lost":                                           lostAnswer("bus", 1),
		"C6: an eviction that had begun when the taint was taken off":               interruptedEviction(15),
		"C6: controllers whose watches deliver nothing":                             faultyWatch(fault.Hang),
		"C5: a pod that is let go of before its own delete is heard of":             releasedPod(),
		"C11: a pod that is taken from a Job before its own delete":                 takenPod(jobController, "4", 2, ownedBy("")),
		"C11: a pod that is let go of, and taken, before its own delete":            takenPod(jobController, "4", 2, ownedBy(""), ownedBy("other")),
		"C11: a pod that is taken from a Job, and then from its next owner":         takenPod(jobController, "4", 2, ownedBy("other"), ownedBy("third")),
		"C11: a pod that is given back before its own delete":                       takenPod(jobController, "4", 2, ownedBy("other"), ownedBy("job")),
		"N6: an older kubelet that asks in a silence, and is answered late":         olderKubelet(10),
		"K3: a kubelet whose clock was ahead when it began":                         fastKubelet(30),
		"C6: controllers that were cut off":                                         newWatchedBuilder().beginTrouble(away).loseNode(10, 300).endTrouble(away),
		"C6: controllers that stood still until the apiserver was down":             unheard,
		"C6: controllers that stood still when a taint was taken off":               untaintedNode(pauseOf(controllers), 0, 0),
		"C6: controllers that have not asked for everything yet":                    untaintedNode(downtimeOf("apiserver"), 0, 20),
		"C6: a node with a new heartbeat before a controller looks":                 newWatchedBuilder().silentNode(50 * time.Second).returnNode(),
		"C6: a node with a late heartbeat, for controllers that have just returned": newWatchedBuilder().silentNode(6 * time.Second).outage(10 * time.Second).returnNode(),
		"C6: a node with a late heartbeat, that the watch did not deliver":          newWatchedBuilder().silentNode(31*time.Second).heardLate(0, 200),
		"C6: a node without a heartbeat for controllers that have to list again":    newWatchedBuilder().silentNode(10*time.Second).heardLate(0, 410),
		"C6: a node without a heartbeat for controllers that list one namespace":    newWatchedBuilder().silentNode(10*time.Second).renewLease("heard").wait(6).watchLeases(2, 410).listLeases("shop").returnNode(),
	}
}

// unreportedWindow is a force-deleted pod with a container that ends long after its successor's
// began. No window is reported to users.
func unreportedWindow(end history.Exit) *builder { return unreportedWindowTo(end, nil) }

// unreportedWindowTo is an unreported window before which the controllers hear of pods in a way of
// their own.
func unreportedWindowTo(end history.Exit, hears func(*builder)) *builder {
	b := newBuilder().runPod().idle(10)
	b.request("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
	if hears != nil {
		hears(b)
	}
	b.request("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	b.record("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	b.idle(100).record(runtime, "", end).idle(20)
	return b.record(controllers, "", history.Window{Identity: "default/other", UIDs: []string{"u3", "u4"}})
}

// restartedControllers is a force-deleted pod that runs on, unknown to the controllers that restart
// before its successor runs. Something happens to them, and they report a window of these UIDs.
func restartedControllers(befalls func(*builder), told []string) *builder {
	b := newBuilder().runPod().idle(10).record(controllers, "", history.Lease{})
	b.request("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
	b.restart(controllers)
	for _, resource := range []string{nodeResource, podResource} {
		b.record("apiserver", "list "+resource, history.OpRead{Identity: controllers, Verb: "list", Resource: resource, Code: 200, Revision: b.revision})
	}
	b.record(controllers, "", history.Lease{})
	b.request("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	if befalls != nil {
		befalls(b)
	}
	b.record("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	window := history.Window{Identity: name, UIDs: told, Begin: time.Unix(b.clock, 0)}
	b.idle(100).record(runtime, "", history.Exit{ContainerRef: of()})
	window.End = new(time.Unix(b.clock, 0))
	if told == nil {
		window = history.Window{Identity: "default/other", UIDs: []string{"u3", "u4"}}
	}
	return b.idle(20).record(controllers, "", window)
}

// relist refuses the controllers the changes after a revision, and has them list all pods.
func relist(after int64) func(*builder) {
	return func(b *builder) {
		b.record("apiserver", "watch", history.OpRead{Identity: controllers, Verb: "watch", Resource: podResource, Code: 410, ReadOptions: history.ReadOptions{Revision: formatRevision(after)}})
		b.record("apiserver", "list", history.OpRead{Identity: controllers, Verb: "list", Resource: podResource, Code: 200, Revision: b.revision})
	}
}

// releasedPod is a pod that a ReplicaSet deletes, and releases by the version before.
func releasedPod() *builder {
	const of = "replicaset-controller"
	b := newBuilder().runPod()
	b.request("own", by(controllers, "patch"), 200, web(modified, owned))
	b.record(controllers, "delete", history.Decide{Controller: of, ReadRevision: "4", Action: "delete", Resource: podResource, Key: name})
	b.request("delete", by(controllers, "delete"), 200, web(modified, owned, marked(30, b.clock+32)))
	b.record(controllers, "let go", history.Decide{Controller: of, ReadRevision: "4", Action: "patch", Resource: podResource, Key: name})
	return b.request("let go", by(controllers, "patch"), 200, web(modified, b.keepMark()))
}

// takenPod is a Job of two pods. The first has failed, the second changes owners. A controller
// deletes the second by a version that it has read, and the Job counts `counted` pods.
func takenPod(controller, read string, counted int32, hands ...func(*history.Commit)) *builder {
	b, pod := indexes("Failed", "0", "1"), called("default/sum-1", "sum-1")
	for i, hand := range hands {
		b.request("take "+strconv.Itoa(i), by(controllers, "patch"), 200, web(modified, pending, pod, hand))
	}
	b.record(controllers, "delete", history.Decide{Controller: controller, ReadRevision: read, Action: "delete", Resource: podResource, Key: "default/sum-1"})
	b.request("delete", by(controllers, "delete"), 200, web(deleted, pending, pod, hands[len(hands)-1], marked(0, b.clock+2)))
	return b.countPods(counted)
}

// ownedBy sets the owner of a pod; empty for none.
func ownedBy(owner string) func(*history.Commit) {
	return func(c *history.Commit) { c.Owner = owner }
}

// failedUnder is a failed pod of an owner.
func failedUnder(owner string) func(*history.Commit) {
	return func(c *history.Commit) { c.Owner, c.Phase = owner, "Failed" }
}

// olderKubelet is an older boot of a kubelet that asks after the newer was silent for so many
// seconds. It is answered after the newer was heard again.
func olderKubelet(silent int64) *builder {
	b := newBuilder().runPod().record(kubelet, "", history.Lease{}).restart(kubelet).record(kubelet, "", history.Lease{}).wait(silent).record(kubelet, "", history.Lease{})
	b.boot[kubelet] = ""
	b.sequence[kubelet] = 3
	b.record(kubelet, "", history.Lease{})
	b.evidence.Log.Events[len(b.evidence.Log.Events)-1].Began -= 3 * int64(time.Second)
	return b
}

// faultyWatch is a node that is tainted unreachable in spite of its heartbeats, while a fault
// affects the watches of the controllers.
func faultyWatch(effect fault.Kind) *builder {
	broken := faultAt(fault.WatchDeliver, fault.Attributes{Client: controllers}, fault.Effect{Kind: effect})
	return newWatchedBuilder().beginTrouble(broken).loseNode(10, 300).endTrouble(broken)
}

// fastKubelet stops a pod by a kubelet whose clock is 20 s ahead until then. The pod is killed so
// many seconds later. The cluster's clock runs fast.
func fastKubelet(seconds int64) *builder {
	wrong := faultAt(fault.ClockSkew, fault.Attributes{Process: kubelet}, fault.Effect{Kind: fault.Value, Value: "20s"})
	b := newBuilder().runPod().beginTrouble(wrong).markPod().endTrouble(wrong).signalPod("SIGTERM").wait(seconds).signalPod("SIGKILL").exitPod()
	for i := range b.evidence.Log.Events {
		e := &b.evidence.Log.Events[i]
		if _, begins := e.Fact.(history.KubeletTerm); begins {
			e.Wall = e.Wall.Add(20 * time.Second)
		}
		e.Began, e.Ended = e.Began/20, e.Ended/20
	}
	return b
}

// skewedRuntime is a split-brain window begun by a runtime whose clock is an hour behind. The
// reported beginning is so many seconds off.
func skewedRuntime(off int64) *builder {
	wrong := faultAt(fault.ClockSkew, fault.Attributes{Process: "runtime/n2"}, fault.Effect{Kind: fault.Value, Value: "-1h"})
	b := newBuilder().beginTrouble(wrong).splitBrain(by(user, "delete", grace(0)), history.Window{})
	events := b.evidence.Log.Events
	for i := range events {
		window, is := events[i].Fact.(history.Window)
		if is {
			window.Begin = window.Begin.Add(time.Duration(off) * time.Second)
			events[i].Fact = window
		} else if events[i].Process == "runtime/n2" {
			events[i].Wall = events[i].Wall.Add(-time.Hour)
		}
	}
	return b
}

// silentNode is a node without heartbeats for a time after its first.
func (b *builder) silentNode(lasts time.Duration) *builder {
	b.request("node", by(node, "create"), 201, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: added, Content: history.Content{Created: 1}})
	b.request("lease", by(node, "create"), 201, history.Commit{Resource: "leases.coordination.k8s.io", Key: "kube-node-lease/n1", UID: "l1", Op: added})
	return b.wait(int64(lasts / time.Second))
}

// outage stops the apiserver for a time. Nobody asks it for another 10 s.
func (b *builder) outage(lasts time.Duration) *builder {
	b.beginTrouble(downtimeOf("apiserver")).wait(int64(lasts / time.Second)).endTrouble(downtimeOf("apiserver"))
	return b.wait(10)
}

// heardLate renews the node's heartbeat, which the controllers get only by asking for changes after
// a revision. They are answered with a code, and the node returns.
func (b *builder) heardLate(after int64, code int32) *builder {
	had := b.revision + after
	return b.renewLease("heard").wait(6).watchLeases(had, code).returnNode()
}

// watchLeases has the controllers ask for the heartbeats after a revision.
func (b *builder) watchLeases(revision int64, code int32) *builder {
	return b.record("apiserver", "watch", history.OpRead{
		Identity: controllers, Verb: "watch", Resource: leaseResource, Code: code, ReadOptions: history.ReadOptions{Revision: formatRevision(revision)},
	})
}

// listLeases has the controllers list the leases of one namespace.
func (b *builder) listLeases(namespace string) *builder {
	return b.record("apiserver", "list", history.OpRead{Identity: controllers, Verb: "list", Resource: leaseResource, Key: namespace, Code: 200, Revision: b.revision})
}

// renewLease records a heartbeat.
func (b *builder) renewLease(operation string) *builder {
	return b.request(operation, by(node, "update"), 200, history.Commit{Resource: leaseResource, Key: "kube-node-lease/n1", UID: "l1", Op: modified})
}

// returnNode renews the node's heartbeat, and has it tainted unreachable right after.
func (b *builder) returnNode() *builder {
	return b.renewLease("renewed").wait(10).renewLease("again").taintUnreachable()
}

// taintUnreachable has the controllers taint the node unreachable.
func (b *builder) taintUnreachable() *builder {
	return b.request("taint", by(controllers, "update"), 200, history.Commit{
		Resource: "nodes", Key: "n1", UID: "n1", Op: modified, Content: history.Content{Created: 1, NoExecuteTaints: []string{unreachableTaint + "="}},
	})
}

func restartsAll(c *history.Commit)  { c.RestartsAll = true }
func initializing(c *history.Commit) { c.Phase = "Pending" }

// failByOthers has a controller give the pod the phase Failed, which the kubelet sees.
func (b *builder) failByOthers() *builder {
	b.request("failed", by(controllers, "update"), 200, web(modified, failed))
	return b.record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "RECONCILE", Revision: "4"})
}
