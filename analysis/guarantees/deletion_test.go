package guarantees

import "github.com/podfall/podfall/internal/history"

func deletionViolations() []violation {
	run := func() *builder { return newBuilder().runPod() }
	asked := func(call history.OpCall, changes ...history.Commit) *builder {
		return run().request("a", call, 200, changes...)
	}
	longer := run().markPod()
	longer.request("a", by(user, "delete", grace(60)), 200, web(modified, marked(60, 100)))
	shortened := run().markPod()
	shortened.request("a", by(user, "delete", grace(20)), 200, web(modified, marked(20, 47)))
	held := newBuilder().request("create", by(user, "create"), 201, web(added, pending, finalizers("a")))
	held.request("a", by(user, "delete"), 200, web(modified, pending, finalizers("a"), marked(0, 8)), web(deleted, pending, finalizers("a"), marked(0, 8)))
	late := run().markPod()
	late.request("a", by(user, "update"), 200, web(modified, late.keepMark(), finalizers("b")))
	foreground := run().markPod()
	foreground.request("a", by(user, "update"), 200, web(modified, foreground.keepMark(), finalizers("foregroundDeletion")))
	stays := run().markPod().signalPod("SIGTERM").exitPod().reportEnd()
	stays.request("a", by(node, "delete", grace(0), meaning(uid)), 200, web(modified, succeeded, marked(0, stays.clock+2)))
	stays.request("other", by(user, "create"), 201, web(added, called("default/other", "u2")))
	mounted := run().record(kubelet, "", history.Mount{UID: uid, Volume: "v"}).markPod().signalPod("SIGTERM").exitPod().reportEnd().confirmPod()
	stranger := run().request("a", by("node:n2", "update"), 200, web(modified))
	other := run().request("a", by(node, "delete", grace(0), meaning("u0")), 200, web(modified, marked(0, 22)))
	again := newBuilder().deletePod()
	again.revision += 2
	again.request("b", by(node, "delete", grace(0), meaning(uid)), 200, web(deleted, succeeded))
	answered := run().markPod().request("a", by(user, "delete", grace(30)), 410)
	cascade := run().record("controllers", "", history.Decide{Controller: "garbage-collector-controller", Action: "delete", Resource: podResource, Key: name})
	cascade.request("a", by("controllers", "delete", grace(0)), 200, web(deleted))
	shop := run().request("a", by("controllers", "deletecollection", grace(0)), 200, web(deleted))
	return []violation{
		{"D1", "a graceful delete that removes", asked(by(user, "delete", grace(30)), web(modified, marked(30, 52)), web(deleted, marked(30, 52)))},
		{"D1", "a deadline that is not the grace period", asked(by(user, "delete", grace(30)), web(modified, marked(30, 99)))},
		{"D2", "a grace period for a pod without a node", newBuilder().request("create", by(user, "create"), 201, web(added, pending)).
			request("a", by(user, "delete"), 200, web(modified, pending, marked(30, 40)))},
		{"D2", "a negative one", asked(by(user, "delete", grace(-5)), web(modified, marked(5, 25)))},
		{"D2", "another one", asked(by(user, "delete", grace(30)), web(modified, marked(20, 45)))},
		{"D3", "a longer one", longer},
		{"D3", "a deadline out of nowhere", shortened},
		{"D4", "a removal in spite of a finalizer", held},
		{"D4", "a finalizer that is late", late},
		{"D4", "a cascade's finalizer that no delete adds", foreground},
		{"D4", "a pod that stays without any", stays},
		{"D5", "another node's kubelet", asked(by("node:n2", "delete", grace(0), meaning(uid)), web(deleted))},
		{"D5", "a user without force", asked(by(user, "delete"), web(deleted))},
		{"D5", "an eviction without force", asked(by(user, "create", grace(30), evicting), web(modified), web(modified, marked(0, 22)), web(deleted, marked(0, 22)))},
		{"D5", "an update", asked(by(user, "update"), web(deleted))},
		{"D6", "a container that runs", run().markPod().reportEnd().confirmPod()},
		{"D6", "a volume that is mounted", mounted},
		{"D6", "a phase that is not the last", run().markPod().signalPod("SIGTERM").exitPod().confirmPod()},
		{"D7", "a pod that the kubelet has not seen", stranger},
		{"D7", "a pod that the kubelet did not mean", other},
		{"D8", "a force delete that marks", asked(by(user, "delete", grace(0)), web(modified, marked(0, 22)))},
		{"D9", "a pod that is removed twice", again},
		{"D9", "a second delete that is answered with 410", answered},
		{"D10", "a cascade with force", cascade},
		{"D10", "a namespace with force", shop},
	}
}
