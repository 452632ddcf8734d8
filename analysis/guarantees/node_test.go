package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

func brokenNodes() []forged {
	run := func() *forge { return newForge().run() }
	start := history.Start{ContainerRef: of()}
	hook := func(f *forge) *forge { return f.say(kubelet, "", history.PreStopBegin{ContainerRef: of()}) }
	ended := func(f *forge) *forge { return f.say(kubelet, "", history.PreStopEnd{ContainerRef: of()}) }
	long := func(f *forge) *forge { // the hook's end, as it is written down: from its beginning on
		events := ended(f).evidence.Log.Events
		events[len(events)-1].Began = events[len(events)-4].Began
		return f
	}
	elsewhere := run().say("runtime/n2", "", history.Start{ContainerRef: secondRun()})
	under := run().mark().signal("SIGTERM").say(runtime, "", history.SandboxStop{UID: uid}).exit()
	untold := run().mark().signal("SIGTERM").exit().ask("final", by(node, "delete", grace(0), meaning(uid)), 200, web(deleted))
	untold.say(kubelet, "", history.KubeletFinal{Pod: name, UID: uid})
	return []forged{
		{"K1", "a signal during the hook", long(hook(run().mark()).signal("SIGTERM"))},
		{"K1", "a hook that runs twice", ended(hook(ended(hook(run().mark()))))},
		{"K2", "SIGKILL alone", run().mark().wait(30).signal("SIGKILL").exit()},
		{"K2", "SIGKILL alone, after a start that took its time", startsAfter("3s").wait(5).mark().wait(30).signal("SIGKILL").exit()},
		{"K3", "SIGKILL early", run().mark().signal("SIGTERM").wait(5).signal("SIGKILL").exit()},
		{"K3", "SIGKILL early, by a kubelet whose clock was ahead", ahead(5)},
		{"K4", "SIGKILL late", run().mark().signal("SIGTERM").wait(60).signal("SIGKILL").exit()},
		{"K6", "SIGTERM twice", run().mark().signal("SIGTERM").signal("SIGTERM").exit()},
		{"K7", "a start after the end has begun", run().mark().say(runtime, "", start)},
		{"K8", "a start after the end", run().mark().signal("SIGTERM").exit().told().say(runtime, "", start)},
		{"K9", "two nodes", elsewhere},
		{"K10", "an end that is told while it runs", run().mark().say(kubelet, "", history.KubeletStatus{UID: uid, Phase: "Failed"})},
		{"K15", "a second run beside the first", run().say(runtime, "", history.Start{ContainerRef: secondRun()})},
		{"K13", "a sandbox stopped under a container", under},
		{"K13", "a final delete without a last phase", untold},
	}
}

func brokenOthers() []forged {
	forced := newForge().run().say("controllers", "", history.Decide{Controller: "statefulset-controller", Action: "delete", Resource: podResource, Key: name})
	forced.ask("a", by("controllers", "delete", grace(0)), 200, web(deleted))
	late := newForge().ask("create", by(user, "create"), 201, web(added, pending, finalizers("a")))
	late.ask("mark", by(user, "delete"), 200, web(modified, pending, finalizers("a"), marked(0, 8))).ask("bind", by("controllers", "create"), 200, web(modified, finalizers("a"), marked(0, 8)))
	effect := newForge().run().ask("a", by(user, "update"), 200, web(modified), web(modified))
	foreign := newForge().run().ask("a", history.OpCall{Identity: node, Verb: "update", Resource: "nodes", Key: "n2"}, 200,
		history.Commit{Resource: "nodes", Key: "n2", UID: "n", Op: modified})
	zombie := newForge().run().say(kubelet, "", history.Lease{}).restart(kubelet).say(kubelet, "", history.Lease{})
	zombie.boot[kubelet] = ""
	zombie.say(kubelet, "", history.Lease{})
	twice := newForge().run().ask("a", by(user, "create"), 201, web(added, called("ns/web-a", "u2")), web(added, called("ns/web-b", "u3")))
	older := newForge().run().ask("a", booted("2"), 404).ask("b", booted("1"), 404)
	over := newForge().run().ask("a", by(user, "create"), 201, web(added, func(c *history.Commit) { c.UID = "u2" }))
	return []forged{
		{"C1", "two at once without force", splitBrain(by(node, "delete", grace(0), meaning(uid)), history.Window{})},
		{"C2", "a window of which nobody was told", unshown(history.Exit{ContainerRef: of()})},
		{"C2", "a window of a pod that was known to be bound when pods were listed", unshownTo(history.Exit{ContainerRef: of()}, relists(2))},
		{"C2", "a window of a pod that had left before controllers began anew", beganAnew(nil, nil)},
		{"C2", "a window that was none", newForge().run().say("controllers", "", history.Window{Identity: name, UIDs: []string{uid, "u2"}})},
		{"C2", "a window of a pod that starts after its successor, and nobody was told", startsLate("other", "still other")},
		{"C2", "another end", splitBrain(by(user, "delete", grace(0)), history.Window{End: new(time.Unix(500, 0))})},
		{"C2", "another beginning, by a runtime whose clock is wrong", misledRuntime(-20)},
		{"C2", "a window whose beginning the controllers have seen", standStill(20)},
		{"C2", "a window that nobody was told of", splitBrain(by(user, "delete", grace(0)), history.Window{UIDs: []string{"other", "still other"}})},
		{"C3", "two of one name", over},
		{"C7", "a controller with force", forced},
		{"C8", "a pod bound while it is being deleted", late},
		{"N1", "an operation that takes effect twice", effect},
		{"N1", "a create that makes two", twice},
		{"N4", "a kubelet on another node", foreign},
		{"N6", "an answer to an older incarnation", zombie},
		{"N6", "an older kubelet that asks after a short silence, and is told late", waited(2)},
		{"N6", "a request of an older incarnation", older},
	}
}

// booted is a request of an incarnation of the kubelet.
func booted(boot string) history.OpCall {
	call := by(node, "update")
	call.Boot = boot
	return call
}

// splitBrain forces a pod away whose node goes on running it, while its successor runs on
// another. What is not said of the window that users are told of is as it was.
func splitBrain(removal history.OpCall, told history.Window) *forge {
	return newForge().splitBrain(removal, told)
}

func (f *forge) splitBrain(removal history.OpCall, told history.Window) *forge {
	f.run()
	f.say("controllers", "", history.Lease{})
	f.ask("remove", removal, 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
	f.ask("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	f.say("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	begin := time.Unix(f.clock, 0)
	f.wait(60).exit()
	if told.UIDs == nil {
		told.UIDs = []string{uid, "u2"}
	}
	told.Identity, told.Begin = name, begin
	if told.End == nil {
		told.End = new(time.Unix(f.clock, 0))
	}
	return f.say("controllers", "", told)
}

// startsLate forces a pod away before its node has heard of it: it starts when its successor runs
// already, on another node. Users are told of a window of the incarnations told, in this order.
func startsLate(told ...string) *forge {
	f := newForge().create().say(controllers, "", history.Lease{})
	f.ask("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
	f.ask("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	other := history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}
	f.say("runtime/n2", "", history.Start{ContainerRef: other}).wait(10)
	f.say(runtime, "", history.Create{ContainerRef: of()}).say(runtime, "", history.Start{ContainerRef: of()})
	begin := time.Unix(f.clock, 0)
	f.wait(60).exit()
	window := history.Window{Identity: name, UIDs: told, Begin: begin, End: new(time.Unix(f.clock, 0))}
	return f.say("runtime/n2", "", history.Exit{ContainerRef: other}).say(controllers, "", window)
}

// standStill is a split-brain window of which nobody was told: the controllers stood still from
// so many seconds after its beginning to its end.
func standStill(after int64) *forge {
	f := newForge().run()
	f.say(controllers, "", history.Lease{})
	f.ask("remove", by(user, "delete", grace(0)), 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
	f.ask("create2", by(user, "create"), 201, web(added, pending, called(name, "u2")))
	f.say("runtime/n2", "", history.Start{ContainerRef: history.ContainerRef{Pod: name, UID: "u2", Container: "c2"}})
	if after > 0 {
		f.wait(after)
	}
	f.breaks(paused(controllers)).wait(60).exit().mends(paused(controllers))
	return f.say(controllers, "", history.Window{Identity: "default/other", UIDs: []string{"other", "still other"}})
}

// watched is a pod's life, with a watch of all pods and one of its node's, each of which is
// sent what change makes of the i-th event.
func watched(change func(i int, e history.WatchEvent) []history.WatchEvent) *forge {
	f := newForge()
	ofNode := nodeWatch()
	f.say("apiserver", "", history.WatchOpen{Watch: allPods, Resource: podResource})
	f.say("apiserver", "", history.WatchOpen{Watch: ofNode, Resource: podResource, Selector: selector})
	f.whole()
	i := 0
	for _, e := range f.evidence.Log.Events {
		c, is := e.Fact.(history.Commit)
		if !is {
			continue
		}
		event := history.WatchEvent{Watch: allPods, Type: c.Op, Revision: c.Revision, UID: c.UID, Object: c.Object}
		for _, event := range change(i, event) {
			f.say("apiserver", "", event)
		}
		i++
		if event.Watch = ofNode; c.Node == "" {
			continue
		}
		if c.Revision == 2 {
			event.Type = added
		}
		f.say("apiserver", "", event)
	}
	return f
}

// nodeWatch is the group of the watches of a node's pods.
func nodeWatch() string {
	return proto.WatchSubject("node.n1", proto.WatchScope{Resource: podResource, FieldSelector: selector})
}
