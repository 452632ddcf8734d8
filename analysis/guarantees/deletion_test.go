package guarantees

import "github.com/podfall/podfall/internal/history"

func brokenDeletions() []forged {
	run := func() *forge { return newForge().run() }
	asked := func(call history.OpCall, changes ...history.Commit) *forge {
		return run().ask("a", call, 200, changes...)
	}
	longer := run().mark()
	longer.ask("a", by(user, "delete", grace(60)), 200, web(modified, marked(60, 100)))
	shortened := run().mark()
	shortened.ask("a", by(user, "delete", grace(20)), 200, web(modified, marked(20, 47)))
	held := newForge().ask("create", by(user, "create"), 201, web(added, pending, finalizers("a")))
	held.ask("a", by(user, "delete"), 200, web(modified, pending, finalizers("a"), marked(0, 8)), web(deleted, pending, finalizers("a"), marked(0, 8)))
	late := run().mark()
	late.ask("a", by(user, "update"), 200, web(modified, late.stillMarked(), finalizers("b")))
	foreground := run().mark()
	foreground.ask("a", by(user, "update"), 200, web(modified, foreground.stillMarked(), finalizers("foregroundDeletion")))
	stays := run().mark().signal("SIGTERM").exit().told()
	stays.ask("a", by(node, "delete", grace(0), meaning(uid)), 200, web(modified, succeeded, marked(0, stays.clock+2)))
	stays.ask("other", by(user, "create"), 201, web(added, called("default/other", "u2")))
	mounted := run().say(kubelet, "", history.Mount{UID: uid, Volume: "v"}).mark().signal("SIGTERM").exit().told().remove()
	stranger := run().ask("a", by("node:n2", "update"), 200, web(modified))
	other := run().ask("a", by(node, "delete", grace(0), meaning("u0")), 200, web(modified, marked(0, 22)))
	again := newForge().whole()
	again.revision += 2
	again.ask("b", by(node, "delete", grace(0), meaning(uid)), 200, web(deleted, succeeded))
	answered := run().mark().ask("a", by(user, "delete", grace(30)), 410)
	cascade := run().say("controllers", "", history.Decide{Controller: "garbage-collector-controller", Action: "delete", Resource: podResource, Key: name})
	cascade.ask("a", by("controllers", "delete", grace(0)), 200, web(deleted))
	shop := run().ask("a", by("controllers", "deletecollection", grace(0)), 200, web(deleted))
	return []forged{
		{"D1", "a graceful delete that removes", asked(by(user, "delete", grace(30)), web(modified, marked(30, 52)), web(deleted, marked(30, 52)))},
		{"D1", "a deadline that is not the grace period", asked(by(user, "delete", grace(30)), web(modified, marked(30, 99)))},
		{"D2", "a grace period for a pod without a node", newForge().ask("create", by(user, "create"), 201, web(added, pending)).
			ask("a", by(user, "delete"), 200, web(modified, pending, marked(30, 40)))},
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
		{"D6", "a container that runs", run().mark().told().remove()},
		{"D6", "a volume that is mounted", mounted},
		{"D6", "a phase that is not the last", run().mark().signal("SIGTERM").exit().remove()},
		{"D7", "a pod that the kubelet has not seen", stranger},
		{"D7", "a pod that the kubelet did not mean", other},
		{"D8", "a force delete that marks", asked(by(user, "delete", grace(0)), web(modified, marked(0, 22)))},
		{"D9", "a pod that is removed twice", again},
		{"D9", "a second delete that is answered with 410", answered},
		{"D10", "a cascade with force", cascade},
		{"D10", "a namespace with force", shop},
	}
}
