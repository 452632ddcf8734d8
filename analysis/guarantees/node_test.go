package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

func nodeViolations() []violation {
	run := func() *builder { return newBuilder().runPod() }
	start := history.Start{ContainerRef: of()}
	hook := func(b *builder) *builder { return b.record(kubelet, "", history.PreStopBegin{ContainerRef: of()}) }
	ended := func(b *builder) *builder { return b.record(kubelet, "", history.PreStopEnd{ContainerRef: of()}) }
	long := func(b *builder) *builder { // the recorded end of the hook spans its whole run
		events := ended(b).evidence.Log.Events
		events[len(events)-1].Began = events[len(events)-4].Began
		return b
	}
	elsewhere := run().record("runtime/n2", "", history.Start{ContainerRef: secondRun()})
	under := run().markPod().signalPod("SIGTERM").record(runtime, "", history.SandboxStop{UID: uid}).exitPod()
	untold := run().markPod().signalPod("SIGTERM").exitPod().request("final", by(node, "delete", grace(0), meaning(uid)), 200, web(deleted))
	untold.record(kubelet, "", history.KubeletFinal{Pod: name, UID: uid})
	return []violation{
		{"K1", "a signal during the hook", long(hook(run().markPod()).signalPod("SIGTERM"))},
		{"K1", "a hook that runs twice", ended(hook(ended(hook(run().markPod()))))},
		{"K2", "SIGKILL alone", run().markPod().wait(30).signalPod("SIGKILL").exitPod()},
		{"K2", "SIGKILL alone, after a start that took its time", startsAfter("3s").wait(5).markPod().wait(30).signalPod("SIGKILL").exitPod()},
		{"K3", "SIGKILL early", run().markPod().signalPod("SIGTERM").wait(5).signalPod("SIGKILL").exitPod()},
		{"K3", "SIGKILL early, by a kubelet whose clock was ahead", fastKubelet(5)},
		{"K4", "SIGKILL late", run().markPod().signalPod("SIGTERM").wait(60).signalPod("SIGKILL").exitPod()},
		{"K6", "SIGTERM twice", run().markPod().signalPod("SIGTERM").signalPod("SIGTERM").exitPod()},
		{"K7", "a start after the end has begun", run().markPod().record(runtime, "", start)},
		{"K8", "a start after the end", run().markPod().signalPod("SIGTERM").exitPod().reportEnd().record(runtime, "", start)},
		{"K8", "a start after the kubelet saw an end by others", run().failByOthers().record(runtime, "", start)},
		{"K8", "a start after the stop of the pod began, of a container that a sync had stopped", run().signalPod("SIGTERM").failByOthers().record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30}).exitPod().record(runtime, "", start)},
		{"K9", "two nodes", elsewhere},
		{"K10", "an end that is reported while it runs", run().markPod().record(kubelet, "", history.KubeletStatus{UID: uid, Phase: "Failed"})},
		{"K15", "a second run beside the first", run().record(runtime, "", history.Start{ContainerRef: secondRun()})},
		{"K13", "a sandbox stopped under a container", under},
		{"K13", "a final delete without a last phase", untold},
	}
}

func otherViolations() []violation {
	forced := newBuilder().runPod().record("controllers", "", history.Decide{Controller: "statefulset-controller", Action: "delete", Resource: podResource, Key: name})
	forced.request("a", by("controllers", "delete", grace(0)), 200, web(deleted))
	late := newBuilder().request("create", by(user, "create"), 201, web(added, pending, finalizers("a")))
	late.request("mark", by(user, "delete"), 200, web(modified, pending, finalizers("a"), marked(0, 8))).request("bind", by("controllers", "create"), 200, web(modified, finalizers("a"), marked(0, 8)))
	effect := newBuilder().runPod().request("a", by(user, "update"), 200, web(modified), web(modified))
	foreign := newBuilder().runPod().request("a", history.OpCall{Identity: node, Verb: "update", Resource: "nodes", Key: "n2"}, 200,
		history.Commit{Resource: "nodes", Key: "n2", UID: "n", Op: modified})
	zombie := newBuilder().runPod().record(kubelet, "", history.Lease{}).restart(kubelet).record(kubelet, "", history.Lease{})
	zombie.boot[kubelet] = ""
	zombie.record(kubelet, "", history.Lease{})
	twice := newBuilder().runPod().request("a", by(user, "create"), 201, web(added, called("ns/web-a", "u2")), web(added, called("ns/web-b", "u3")))
	older := newBuilder().runPod().request("a", requestOfBoot("2"), 404).request("b", requestOfBoot("1"), 404)
	over := newBuilder().runPod().request("a", by(user, "create"), 201, web(added, func(c *history.Commit) { c.UID = "u2" }))
	return []violation{
		{"C1", "two at once without force", splitBrain(by(node, "delete", grace(0), meaning(uid)), history.Window{})},
		{"C2", "a window that was not reported", unreportedWindow(history.Exit{ContainerRef: of()})},
		{"C2", "a window of a pod that was known to be bound when pods were listed", unreportedWindowTo(history.Exit{ContainerRef: of()}, relist(2))},
		{"C2", "a window of a pod that had left before controllers restarted", restartedControllers(nil, nil)},
		{"C2", "a window that was none", newBuilder().runPod().record("controllers", "", history.Window{Identity: name, UIDs: []string{uid, "u2"}})},
		{"C2", "a window of a pod that starts after its successor, not reported", lateStart("other", "still other")},
		{"C2", "another end", splitBrain(by(user, "delete", grace(0)), history.Window{End: new(time.Unix(500, 0))})},
		{"C2", "another beginning, by a runtime whose clock is wrong", skewedRuntime(-20)},
		{"C2", "a window whose beginning the controllers have seen", pausedControllers(20)},
		{"C2", "a window with other incarnations reported", splitBrain(by(user, "delete", grace(0)), history.Window{UIDs: []string{"other", "still other"}})},
		{"C3", "two of one name", over},
		{"C7", "a controller with force", forced},
		{"C8", "a pod bound while it is being deleted", late},
		{"N1", "an operation that takes effect twice", effect},
		{"N1", "a create that makes two", twice},
		{"N4", "a kubelet on another node", foreign},
		{"N6", "an answer to an older incarnation", zombie},
		{"N6", "an older kubelet that asks after a short silence, and is answered late", olderKubelet(2)},
		{"N6", "a request of an older incarnation", older},
	}
}

// requestOfBoot is a request by a boot of the kubelet.
func requestOfBoot(boot string) history.OpCall {
	call := by(node, "update")
	call.Boot = boot
	return call
}

// splitBrain force-deletes a pod whose node goes on running it, while its successor runs on another
// node. Unset fields of the reported window get the right values.
func splitBrain(removal history.OpCall, told history.Window) *builder {
	return newBuilder().splitBrain(removal, told)
}

func (b *builder) splitBrain(removal history.OpCall, told history.Window) *builder {
	b.runPod()
	b.record("controllers", "", history.Lease{})
	b.request("remove", removal, 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
	b.request("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	b.record("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	begin := time.Unix(b.clock, 0)
	b.wait(60).exitPod()
	if told.UIDs == nil {
		told.UIDs = []string{uid, "u2"}
	}
	told.Identity, told.Begin = name, begin
	if told.End == nil {
		told.End = new(time.Unix(b.clock, 0))
	}
	return b.record("controllers", "", told)
}

// lateStart force-deletes a pod before its node has heard of it. The pod starts when its successor
// already runs on another node. A window of these UIDs is reported, in this order.
func lateStart(told ...string) *builder {
	b := newBuilder().createPod().record(controllers, "", history.Lease{})
	b.request("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
	b.request("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	other := history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}
	b.record("runtime/n2", "", history.Start{ContainerRef: other}).wait(10)
	b.record(runtime, "", history.Create{ContainerRef: of()}).record(runtime, "", history.Start{ContainerRef: of()})
	begin := time.Unix(b.clock, 0)
	b.wait(60).exitPod()
	window := history.Window{Identity: name, UIDs: told, Begin: begin, End: new(time.Unix(b.clock, 0))}
	return b.record("runtime/n2", "", history.Exit{ContainerRef: other}).record(controllers, "", window)
}

// pausedControllers is a split-brain window that was not reported: the controllers were paused from
// so many seconds after its beginning to its end.
func pausedControllers(after int64) *builder {
	b := newBuilder().runPod()
	b.record(controllers, "", history.Lease{})
	b.request("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
	b.request("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	b.record("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	if after > 0 {
		b.wait(after)
	}
	b.beginTrouble(pauseOf(controllers)).wait(60).exitPod().endTrouble(pauseOf(controllers))
	return b.record(controllers, "", history.Window{Identity: "default/other", UIDs: []string{"other", "still other"}})
}

// watchedDeletion deletes a pod under a watch of all pods and a watch of its node's. The first is
// sent what change makes of the i-th event.
func watchedDeletion(change func(i int, e history.WatchEvent) []history.WatchEvent) *builder {
	b := newBuilder()
	ofNode := nodeWatch()
	b.record("apiserver", "", history.WatchOpen{Watch: allPods, Resource: podResource})
	b.record("apiserver", "", history.WatchOpen{Watch: ofNode, Resource: podResource, Selector: selector})
	b.deletePod()
	i := 0
	for _, e := range b.evidence.Log.Events {
		c, is := e.Fact.(history.Commit)
		if !is {
			continue
		}
		event := history.WatchEvent{Watch: allPods, Type: c.Op, Revision: c.Revision, UID: c.UID, Object: c.Object}
		for _, event := range change(i, event) {
			b.record("apiserver", "", event)
		}
		i++
		if event.Watch = ofNode; c.Node == "" {
			continue
		}
		if c.Revision == 2 {
			event.Type = added
		}
		b.record("apiserver", "", event)
	}
	return b
}

// nodeWatch names the watch group of a node's pods.
func nodeWatch() string {
	return proto.WatchSubject("node.n1", proto.WatchScope{Resource: podResource, FieldSelector: selector})
}
