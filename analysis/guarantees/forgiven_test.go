package guarantees

import (
	"slices"
	"strconv"
	"time"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// paused is a process that stands still.
func paused(process string) history.Trouble {
	return history.Trouble{Kind: history.TroublePaused, What: process}
}

// stoodStill is a request with so many seconds left when an apiserver looked that then stood
// still for twenty.
func stoodStill(left int64) *forge {
	f := newForge().run().say("apiserver", "a", by(user, "update", func(o *history.OpCall) { o.TimeLeft = new(left * 1000) }))
	f.breaks(paused("apiserver")).wait(20).mends(paused("apiserver")).commit("a", web(modified))
	return f.say("apiserver", "a", history.OpReturn{Code: 200})
}

// starved is a request with ten seconds left that takes effect after those, when this has
// befallen the apiserver.
func starved(befalls func(f *forge)) *forge {
	f := newForge().run().say("apiserver", "a", by(user, "update", tenSecondsLeft))
	befalls(f)
	f.commit("a", web(modified))
	return f.say("apiserver", "a", history.OpReturn{Code: 200})
}

// unrecorded is a history that has lost what was told of one revision, which the store's file
// still has.
func (f *forge) unrecorded(revision int64) *forge {
	f.file()
	log := &f.evidence.Log
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
	return f
}

// forgiven are histories that look like a broken promise, and keep it: each has sounded an
// alarm in some life.
func forgiven() map[string]*forge {
	begun := history.PreStopBegin{ContainerRef: of()}
	hooks := newForge().run().mark().say(kubelet, "", begun).restart(kubelet).signal("SIGTERM")
	hooks.say(kubelet, "", begun).say(kubelet, "", history.PreStopEnd{ContainerRef: of()})

	standing := watchedForge().run().mark().signal("SIGTERM").breaks(paused(runtime)).idles(60).mends(paused(runtime)).signal("SIGKILL").exit()

	unstarted := newForge().create().say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "2"})
	unstarted.say(runtime, "", history.Create{ContainerRef: of()}).status("running", 0).restart(runtime).say(runtime, "", history.Recover{ContainerRef: of(), Scripted: true}).exit()

	reborn := watchedForge().run().breaks(down(kubelet)).forced().idles(10).restart(kubelet).say(kubelet, "", history.KubeletBoot{Node: "n1"})
	reborn.mends(down(kubelet)).signal("SIGTERM").exit().idles(100)

	written := newForge().run().say("apiserver", "a", by(user, "update", tenSecondsLeft))
	written.wait(8).say("apiserver", "a", history.OpReturn{Code: 504}).wait(40).commit("a", web(modified))
	written.long(50)

	rejects := newForge().run().status("running", 0).restart(kubelet).say(kubelet, "", history.KubeletBoot{Node: "n1"})
	rejects.say(kubelet, "", history.KubeletStatus{Pod: name, UID: uid, Phase: "Failed", Containers: []history.ContainerState{{Container: ctr, State: "running"}}})

	late := newForge().run()
	late.say(controllers, "", history.Lease{})
	late.ask("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, late.clock+2)), web(deleted, marked(0, late.clock+2)))
	late.ask("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	late.say("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	begin := time.Unix(late.clock, 0)
	late.breaks(paused(runtime)).wait(60).mends(paused(runtime)).exit()
	late.say(controllers, "", history.Window{Identity: name, UIDs: []string{uid, "u2"}, Begin: begin, End: new(begin.Add(time.Second))})

	held := newForge().run()
	held.ask("hold", by(user, "update"), 200, web(modified, finalizers("a/b")))
	held.ask("mark", by(user, "delete", grace(0)), 200, web(modified, finalizers("a/b"), marked(0, held.clock+2))).idles(30)
	held.say(controllers, "", history.Blocker{UID: uid, Reason: "finalizer-not-removed"}).idles(30)
	held.ask("free", by(user, "patch"), 200, web(modified, held.stillMarked(), finalizers())).idles(30)

	unheard := watchedForge().tainted(50, 300).untaint().wait(20).breaks(down("apiserver")).wait(20)
	unheard.stalls(controllers, 46)
	unheard.wait(20).mends(down("apiserver")).evicted()

	collected := outdone(by(controllers, "patch"), history.Decide{Controller: podCollector, Action: "patch", Resource: podResource, Key: name})

	refused := watchedForge().run().mark().signal("SIGTERM").exit().idles(50).refused(node).idles(10).status("running", 0)

	heldOn := newForge().run()
	heldOn.ask("hold", by(user, "update"), 200, web(modified, finalizers("a/b"))).breaks(skewing())
	heldOn.ask("mark", by(user, "delete", grace(0)), 200, web(modified, finalizers("a/b"), marked(0, heldOn.clock+2+3600))).mends(skewing()).wait(10)
	heldOn.ask("confirm", by(node, "delete", grace(0), meaning(uid)), 200, web(modified, finalizers("a/b"), marked(0, heldOn.clock+2)))

	away := history.Trouble{Kind: history.TroubleCut, What: "c", CutOff: []string{controllers}}
	return map[string]*forge{
		"A8: the present, by a clock that is set meanwhile":                 broughtUp(skewing(), -1),
		"A8: a success that the pod garbage collector has not seen":         collected,
		"C2: a pod that was forced away, and starts after its successor":    startsLate(uid, "u2"),
		"C2: a window of a pod whose runtime has a clock that is behind":    misledRuntime(0),
		"D3: the present, where a clock that was ahead had set a deadline":  heldOn,
		"C2: a pod that was forced away while its container was starting":   unshown(history.Exit{ContainerRef: of(), Code: 128, Unstarted: true}),
		"K1: a hook of a kubelet that was killed, and that of the next one": hooks,
		"K4: a runtime that is paused is late":                              standing,
		"K10: a start that its runtime did not live to write down":          unstarted,
		"C2: a pod that was bound and gone when pods were listed":           unshownTo(history.Exit{ContainerRef: of()}, relists(1)),
		"C2: a pod that had left before controllers began anew, which tell": beganAnew(nil, []string{uid, "u2"}),
		"C2: one that had left, of controllers whose apiserver is down":     beganAnew(func(f *forge) { f.breaks(down("apiserver")) }, nil),
		"C2: one that had left a node that is not in the API any more": beganAnew(func(f *forge) {
			f.ask("node", by(user, "delete"), 200, history.Commit{Resource: nodeResource, Key: "n1", UID: "n", Op: deleted})
		}, nil),
		"C2: an end that its runtime was about to write when it was paused": late,
		"K10: what a webhook refused until then":                            refused,
		"K10: what was seen when a stop began that still goes on":           accompanied().mark().signal("SIGTERM").exit().idles(50).status("running", 0),
		"K10: a kubelet that begins anew and does not take the pod":         rejects,
		"L5: a pod of a set of which nobody wrote down that it was made":    watchedForge().set().makes(name).unrecorded(2),
		"L5: one in the way of a set of which nobody wrote it down":         watchedForge().inOrder("default/db-0", nil).unrecorded(2),
		"L4: a kubelet that begins anew has never had what is gone":         reborn,
		"N2: a change that is begun in time, and long in being written":     written,
		"N2: an apiserver that stands still when it has looked":             starved(func(f *forge) { f.wait(20).stalls("apiserver", 20) }),
		"N2: an apiserver that is paused, and then stands still": starved(func(f *forge) {
			f.breaks(paused("apiserver")).wait(20).mends(paused("apiserver")).wait(20).stalls("apiserver", 20)
		}),
		"N2: an apiserver that stands still, and is paused meanwhile": starved(func(f *forge) {
			f.wait(4).breaks(paused("apiserver")).wait(2).mends(paused("apiserver")).wait(20).stalls("apiserver", 32)
		}),
		"N2: an apiserver that is paused when it has looked":                  stoodStill(10),
		"D7: a change of which nobody knows when it was":                      newForge().run().unrecorded(3),
		"L8: what it waited for ended at a time that nobody knows":            held.unrecorded(6),
		"C4: a pod whose answer was lost":                                     cutShort("bus", 1),
		"C6: an eviction that had begun when the taint was taken off":         interrupted(15),
		"C6: controllers whose watches deliver nothing":                       undelivered(fault.Hang),
		"C5: a pod that is let go of before its own delete is heard of":       released(),
		"C11: a pod that is taken from a Job before its own delete":           takenAway(jobController, "4", 2, ownedBy("")),
		"C11: a pod that is let go of, and taken, before its own delete":      takenAway(jobController, "4", 2, ownedBy(""), ownedBy("other")),
		"C11: a pod that is taken from a Job, and from who took it":           takenAway(jobController, "4", 2, ownedBy("other"), ownedBy("third")),
		"C11: a pod that is given back before its own delete":                 takenAway(jobController, "4", 2, ownedBy("other"), ownedBy("job")),
		"N6: an older kubelet that asks in a silence, and is told late":       waited(10),
		"K3: a kubelet whose clock was ahead when it began":                   ahead(30),
		"C6: controllers that were cut off":                                   watchedForge().breaks(away).lost(10, 300).mends(away),
		"C6: controllers that stood still until the apiserver was down":       unheard,
		"C6: controllers that stood still when a taint was taken off":         untainted(paused(controllers), 0, 0),
		"C6: controllers that have not asked for everything yet":              untainted(down("apiserver"), 0, 20),
		"C6: a node that is heard of again before somebody looks":             watchedForge().silent(50 * time.Second).returned(),
		"C6: a node that is heard of late, by who has just come back":         watchedForge().silent(6 * time.Second).outage(10 * time.Second).returned(),
		"C6: a node that is heard of late, by who was not sent its heartbeat": watchedForge().silent(31*time.Second).asksAnew(0, 200),
		"C6: a node that is not heard of by who has to ask for everything":    watchedForge().silent(10*time.Second).asksAnew(0, 410),
		"C6: a node that is not heard of by who asks of a namespace only":     watchedForge().silent(10*time.Second).renews("heard").wait(6).asksAfter(2, 410).asksOf("shop").returned(),
	}
}

// unshown is a pod that is forced away, and whose container comes to an end long after its
// successor's has begun, of which users are told nothing.
func unshown(end history.Exit) *forge { return unshownTo(end, nil) }

// unshownTo has the controllers hear of pods in a way of their own when the first is gone.
func unshownTo(end history.Exit, hears func(*forge)) *forge {
	f := newForge().run().idles(10)
	f.ask("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
	if hears != nil {
		hears(f)
	}
	f.ask("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	f.say("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	f.idles(100).say(runtime, "", end).idles(20)
	return f.say(controllers, "", history.Window{Identity: "default/other", UIDs: []string{"u3", "u4"}})
}

// beganAnew is a pod that is forced away, goes on, and is not known to the controllers that begin anew
// before its successor runs; something befalls them, and they tell users of the window of these uids.
func beganAnew(befalls func(*forge), told []string) *forge {
	f := newForge().run().idles(10).say(controllers, "", history.Lease{})
	f.ask("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
	f.restart(controllers)
	for _, resource := range []string{nodeResource, podResource} {
		f.say("apiserver", "list "+resource, history.OpRead{Identity: controllers, Verb: "list", Resource: resource, Code: 200, Revision: f.revision})
	}
	f.say(controllers, "", history.Lease{})
	f.ask("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	if befalls != nil {
		befalls(f)
	}
	f.say("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	window := history.Window{Identity: name, UIDs: told, Begin: time.Unix(f.clock, 0)}
	f.idles(100).say(runtime, "", history.Exit{ContainerRef: of()})
	window.End = new(time.Unix(f.clock, 0))
	if told == nil {
		window = history.Window{Identity: "default/other", UIDs: []string{"u3", "u4"}}
	}
	return f.idles(20).say(controllers, "", window)
}

// relists has the controllers be refused what came after a revision, and list all pods.
func relists(after int64) func(*forge) {
	return func(f *forge) {
		f.say("apiserver", "watch", history.OpRead{Identity: controllers, Verb: "watch", Resource: podResource, Code: 410, ReadOptions: history.ReadOptions{Revision: formatRevision(after)}})
		f.say("apiserver", "list", history.OpRead{Identity: controllers, Verb: "list", Resource: podResource, Code: 200, Revision: f.revision})
	}
}

// released is a pod that a ReplicaSet deletes, and lets go of by the version before.
func released() *forge {
	const of = "replicaset-controller"
	f := newForge().run()
	f.ask("own", by(controllers, "patch"), 200, web(modified, owned))
	f.say(controllers, "delete", history.Decide{Controller: of, ReadRevision: "4", Action: "delete", Resource: podResource, Key: name})
	f.ask("delete", by(controllers, "delete"), 200, web(modified, owned, marked(30, f.clock+32)))
	f.say(controllers, "let go", history.Decide{Controller: of, ReadRevision: "4", Action: "patch", Resource: podResource, Key: name})
	return f.ask("let go", by(controllers, "patch"), 200, web(modified, f.stillMarked()))
}

// takenAway is a Job of two pods, of which the first has failed and the second passes through hands; a
// controller deletes that by a version that it has read, and the Job counts so many.
func takenAway(controller, read string, counted int32, hands ...func(*history.Commit)) *forge {
	f, pod := indexes("Failed", "0", "1"), called("default/sum-1", "sum-1")
	for i, hand := range hands {
		f.ask("take "+strconv.Itoa(i), by(controllers, "patch"), 200, web(modified, pending, pod, hand))
	}
	f.say(controllers, "delete", history.Decide{Controller: controller, ReadRevision: read, Action: "delete", Resource: podResource, Key: "default/sum-1"})
	f.ask("delete", by(controllers, "delete"), 200, web(deleted, pending, pod, hands[len(hands)-1], marked(0, f.clock+2)))
	return f.counting(counted)
}

// ownedBy is a pod of an owner, or of nobody.
func ownedBy(owner string) func(*history.Commit) {
	return func(c *history.Commit) { c.Owner = owner }
}

// failedUnder is a pod of an owner that has failed.
func failedUnder(owner string) func(*history.Commit) {
	return func(c *history.Commit) { c.Owner, c.Phase = owner, "Failed" }
}

// waited is an older incarnation of a kubelet that asks when the newer has been silent for so many
// seconds, and is answered only after that has been heard again.
func waited(silent int64) *forge {
	f := newForge().run().say(kubelet, "", history.Lease{}).restart(kubelet).say(kubelet, "", history.Lease{}).wait(silent).say(kubelet, "", history.Lease{})
	f.boot[kubelet] = ""
	f.sequence[kubelet] = 3
	f.say(kubelet, "", history.Lease{})
	f.evidence.Log.Events[len(f.evidence.Log.Events)-1].Began -= 3 * int64(time.Second)
	return f
}

// undelivered is a node that is called unreachable although it is heard of, while what watches deliver to
// controllers meets a fault.
func undelivered(effect fault.Kind) *forge {
	broken := faulty(fault.WatchDeliver, fault.Attributes{Client: controllers}, fault.Effect{Kind: effect})
	return watchedForge().breaks(broken).lost(10, 300).mends(broken)
}

// ahead is a pod whose kubelet begins to stop it with a clock that is 20 s ahead until then, and
// which is killed after so many seconds; all that in a cluster whose clock runs fast.
func ahead(seconds int64) *forge {
	wrong := faulty(fault.ClockSkew, fault.Attributes{Process: kubelet}, fault.Effect{Kind: fault.Value, Value: "20s"})
	f := newForge().run().breaks(wrong).mark().mends(wrong).signal("SIGTERM").wait(seconds).signal("SIGKILL").exit()
	for i := range f.evidence.Log.Events {
		e := &f.evidence.Log.Events[i]
		if _, begins := e.Fact.(history.KubeletTerm); begins {
			e.Wall = e.Wall.Add(20 * time.Second)
		}
		e.Began, e.Ended = e.Began/20, e.Ended/20
	}
	return f
}

// misledRuntime is a split-brain window that a runtime whose clock is an hour behind has begun; users are
// told of its beginning, so many seconds off.
func misledRuntime(off int64) *forge {
	wrong := faulty(fault.ClockSkew, fault.Attributes{Process: "runtime/n2"}, fault.Effect{Kind: fault.Value, Value: "-1h"})
	f := newForge().breaks(wrong).splitBrain(by(user, "delete", grace(0)), history.Window{})
	events := f.evidence.Log.Events
	for i := range events {
		window, is := events[i].Fact.(history.Window)
		if is {
			window.Begin = window.Begin.Add(time.Duration(off) * time.Second)
			events[i].Fact = window
		} else if events[i].Process == "runtime/n2" {
			events[i].Wall = events[i].Wall.Add(-time.Hour)
		}
	}
	return f
}

// silent is a node that is not heard of for a time after its first heartbeat.
func (f *forge) silent(lasts time.Duration) *forge {
	f.ask("node", by(node, "create"), 201, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: added, Content: history.Content{Created: 1}})
	f.ask("lease", by(node, "create"), 201, history.Commit{Resource: "leases.coordination.k8s.io", Key: "kube-node-lease/n1", UID: "l1", Op: added})
	return f.wait(int64(lasts / time.Second))
}

// outage has the apiserver be down for a time, and then be asked by nobody for ten seconds.
func (f *forge) outage(lasts time.Duration) *forge {
	f.breaks(down("apiserver")).wait(int64(lasts / time.Second)).mends(down("apiserver"))
	return f.wait(10)
}

// asksAnew has the node be heard of, but by its controllers only when they ask for what came
// after a revision, so many after the last that they had, and are answered with a code; then it
// is returned.
func (f *forge) asksAnew(after int64, code int32) *forge {
	had := f.revision + after
	return f.renews("heard").wait(6).asksAfter(had, code).returned()
}

// asksAfter has the controllers ask for the heartbeats that came after a revision.
func (f *forge) asksAfter(revision int64, code int32) *forge {
	return f.say("apiserver", "watch", history.OpRead{
		Identity: controllers, Verb: "watch", Resource: leaseResource, Code: code, ReadOptions: history.ReadOptions{Revision: formatRevision(revision)},
	})
}

// asksOf has the controllers list the leases of one namespace.
func (f *forge) asksOf(namespace string) *forge {
	return f.say("apiserver", "list", history.OpRead{Identity: controllers, Verb: "list", Resource: leaseResource, Key: namespace, Code: 200, Revision: f.revision})
}

// renews is a heartbeat.
func (f *forge) renews(operation string) *forge {
	return f.ask(operation, by(node, "update"), 200, history.Commit{Resource: leaseResource, Key: "kube-node-lease/n1", UID: "l1", Op: modified})
}

// returned has the node be heard of again, and be called unreachable right after.
func (f *forge) returned() *forge { return f.renews("renewed").wait(10).renews("again").unheardOf() }

// unheardOf has the controllers call the node unreachable.
func (f *forge) unheardOf() *forge {
	return f.ask("taint", by(controllers, "update"), 200, history.Commit{
		Resource: "nodes", Key: "n1", UID: "n1", Op: modified, Content: history.Content{Created: 1, NoExecuteTaints: []string{unreachableTaint + "="}},
	})
}
