package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
)

// outdone is a pod that has succeeded, and that somebody who decided on it before calls failed.
func outdone(call history.OpCall, decided history.Decide) *forge {
	f := newForge().run().ask("ends", by(node, "update"), 200, web(modified, succeeded))
	return f.say(controllers, "fails", decided).ask("fails", call, 200, web(modified, func(c *history.Commit) { c.Phase = "Failed" }))
}

// shown is a watcher that is shown a revision.
func (f *forge) shown(revision int64) *forge {
	return f.say("apiserver", "", history.WatchEvent{Watch: allPods, Type: modified, Revision: revision, UID: uid})
}

func brokenStore() []forged {
	answered := newForge().run()
	answered.say("apiserver", "ghost", by(user, "update")).say("apiserver", "ghost", history.OpReturn{Code: 200, Revision: 9})
	differs := newForge().run().file()
	changed, _ := differs.evidence.Store[2].Fact.(history.Commit)
	changed.UID = "u2"
	differs.evidence.Store[2].Fact = changed
	unasked := newForge().run()
	unasked.commit("nobody", web(modified))
	skipped := newForge().run().ask("a", by(user, "update"), 200, web(modified, revision(5)))
	twice := newForge().run().ask("a", by(user, "update"), 200, web(modified, revision(3)))
	older := newForge().run().restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 2, ChecksumsOK: true})
	shown := newForge().run().shown(4).restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true})
	disordered := newForge().create().ask("a", by(user, "update"), 200, web(modified, revision(4))).ask("b", by(user, "update"), 200, web(modified, revision(3)))
	stale := newForge().run().ask("a", by(user, "update"), 200, web(modified, previous(1)))
	meantRevision := newForge().run().ask("a", by(user, "delete", func(o *history.OpCall) { o.PreRevision = "2" }), 200, web(modified, marked(30, 52)))
	over := newForge().run().ask("a", by(user, "create"), 201, web(added, func(c *history.Commit) { c.UID = "u2" }))
	reused := newForge().run().ask("a", by(user, "create"), 201, web(added, called("default/other", uid)))
	wrongUID := newForge().run().ask("a", by(node, "delete", grace(0), meaning("u0")), 200, web(deleted))
	refusedUID := newForge().run().ask("a", by(user, "delete", meaning(uid)), 409, web(modified, marked(30, 52)))
	moved := newForge().run().ask("a", by(user, "update"), 200, web(modified, func(c *history.Commit) { c.Node = "n2" }))
	back := newForge().run().ask("a", by(user, "update"), 200, web(modified, func(c *history.Commit) { c.Phase = "Pending" }))
	failed := outdone(by(controllers, "patch"), history.Decide{Controller: "job-controller", Action: "patch", Resource: podResource, Key: name})
	undone := newForge().run().mark().ask("a", by(user, "update"), 200, web(modified))
	later := newForge().run().mark().ask("a", by(user, "update"), 200, web(modified, marked(30, 999)))
	taken := newForge().run().say("apiserver", "", history.StoreError{Kind: "no space"}).mark()
	return []forged{
		{"A1", "an answer without a commit", answered},
		{"A1", "a commit that the file has not", newForge().run().file(3)},
		{"A1", "a commit that the file has otherwise", differs},
		{"A2", "a commit without an operation", unasked},
		{"A3", "a revision left out", skipped},
		{"A3", "a revision given twice", twice},
		{"A3", "a store that is older after a restart", older},
		{"A3", "a store that is older after a restart than what a watcher was shown", shown},
		{"A4", "a later write with a lower revision", disordered},
		{"A5", "a write over another revision", stale},
		{"A5", "a delete of another revision", meantRevision},
		{"A6", "a create over what exists", over},
		{"A6", "a uid used twice", reused},
		{"A7", "a delete of another uid", wrongUID},
		{"A7", "a delete that was refused", refusedUID},
		{"A8", "another node", moved},
		{"A8", "a phase that goes back", back},
		{"A8", "a success that somebody else than the pod garbage collector calls a failure", failed},
		{"A8", "a deletion undone", undone},
		{"A8", "a deletion put off", later},
		{"A8", "a deletion put off, by a clock that is an hour behind all the time", broughtUp(skewing(), 10)},
		{"A11", "a write after the disk has failed", taken},
		{"A14", "a refused write", newForge().run().ask("a", by(user, "update"), 422, web(modified))},
	}
}

// broughtUp is a pod whose deadline, which is past, becomes the present by the clock with which the request
// comes; the clock that its commit shows is an hour behind. The trouble begins so long before the request,
// or, at -1, while it is carried out.
func broughtUp(trouble history.Trouble, before int64) *forge {
	f := newForge().run()
	f.ask("hold", by(user, "update"), 200, web(modified, finalizers("a/b")))
	f.ask("mark", by(user, "delete"), 200, web(modified, finalizers("a/b"), marked(30, f.clock+32))).wait(60)
	if before >= 0 {
		f.breaks(trouble).wait(before)
	}
	f.say("apiserver", "again", by(user, "delete", grace(1)))
	present := f.clock
	if before < 0 {
		f.breaks(trouble)
	}
	f.commit("again", web(modified, finalizers("a/b"), marked(1, present)))
	last := &f.evidence.Log.Events[len(f.evidence.Log.Events)-1]
	last.Wall = last.Wall.Add(-time.Hour)
	return f.say("apiserver", "again", history.OpReturn{Code: 200, Revision: f.revision})
}

// sendAll sends what is committed as it is.
func sendAll(_ int, e history.WatchEvent) []history.WatchEvent { return []history.WatchEvent{e} }

// The groups of watches of all pods, and of those of a node.
const (
	allPods  = "watch.cluster.087c2023970ed1456e3bfe87"
	selector = "spec.nodeName=n1"
)

func brokenWatches() []forged {
	change := func(at int, with func(history.WatchEvent) []history.WatchEvent) *forge {
		return watched(func(i int, e history.WatchEvent) []history.WatchEvent {
			if i != at {
				return []history.WatchEvent{e}
			}
			return with(e)
		})
	}
	as := func(f func(*history.WatchEvent)) func(history.WatchEvent) []history.WatchEvent {
		return func(e history.WatchEvent) []history.WatchEvent {
			f(&e)
			return []history.WatchEvent{e}
		}
	}
	seen := newForge().run().say(kubelet, "", history.KubeletSee{UID: uid, Revision: "3"}).restart(kubelet).say(kubelet, "", history.KubeletSee{UID: uid, Revision: "2"})
	return []forged{
		{"W1", "an older revision", change(2, as(func(e *history.WatchEvent) { e.Revision = 1 }))},
		{"W2", "an event twice", change(2, func(e history.WatchEvent) []history.WatchEvent { return []history.WatchEvent{e, e} })},
		{"W3", "an event left out", change(1, func(history.WatchEvent) []history.WatchEvent { return nil })},
		{"W3", "an event of nothing", change(4, as(func(e *history.WatchEvent) { e.Revision = 77 }))},
		{"W6", "another type", change(1, as(func(e *history.WatchEvent) { e.Type = added }))},
		{"W6", "another uid", change(1, as(func(e *history.WatchEvent) { e.UID = "u2" }))},
		{"W6", "another object", change(1, as(func(e *history.WatchEvent) { e.Object = "x" }))},
		{"W8", "an older pod", seen},
		{"W9", "other objects at one revision", change(2, as(func(e *history.WatchEvent) { e.Object = "x" }))},
	}
}
