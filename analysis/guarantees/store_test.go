package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
)

// failAfterSuccess is a pod that has succeeded, and that a client which decided before calls
// failed.
func failAfterSuccess(call history.OpCall, decided history.Decide) *builder {
	b := newBuilder().runPod().request("ends", by(node, "update"), 200, web(modified, succeeded))
	return b.record(controllers, "fails", decided).request("fails", call, 200, web(modified, func(c *history.Commit) { c.Phase = "Failed" }))
}

// sendEvent sends a watcher a revision.
func (b *builder) sendEvent(revision int64) *builder {
	return b.record("apiserver", "", history.WatchEvent{Watch: allPods, Type: modified, Revision: revision, UID: uid})
}

func storeViolations() []violation {
	answered := newBuilder().runPod()
	answered.record("apiserver", "ghost", by(user, "update")).record("apiserver", "ghost", history.OpReturn{Code: 200, Revision: 9})
	differs := newBuilder().runPod().withStoreFile()
	changed, _ := differs.evidence.Store[2].Fact.(history.Commit)
	changed.UID = "u2"
	differs.evidence.Store[2].Fact = changed
	unasked := newBuilder().runPod()
	unasked.commit("nobody", web(modified))
	skipped := newBuilder().runPod().request("a", by(user, "update"), 200, web(modified, revision(5)))
	twice := newBuilder().runPod().request("a", by(user, "update"), 200, web(modified, revision(3)))
	older := newBuilder().runPod().restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 2, ChecksumsOK: true})
	shown := newBuilder().runPod().sendEvent(4).restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true})
	disordered := newBuilder().createPod().request("a", by(user, "update"), 200, web(modified, revision(4))).request("b", by(user, "update"), 200, web(modified, revision(3)))
	stale := newBuilder().runPod().request("a", by(user, "update"), 200, web(modified, previous(1)))
	meantRevision := newBuilder().runPod().request("a", by(user, "delete", func(o *history.OpCall) { o.PreRevision = "2" }), 200, web(modified, marked(30, 52)))
	over := newBuilder().runPod().request("a", by(user, "create"), 201, web(added, func(c *history.Commit) { c.UID = "u2" }))
	reused := newBuilder().runPod().request("a", by(user, "create"), 201, web(added, called("default/other", uid)))
	wrongUID := newBuilder().runPod().request("a", by(node, "delete", grace(0), meaning("u0")), 200, web(deleted))
	refusedUID := newBuilder().runPod().request("a", by(user, "delete", meaning(uid)), 409, web(modified, marked(30, 52)))
	moved := newBuilder().runPod().request("a", by(user, "update"), 200, web(modified, func(c *history.Commit) { c.Node = "n2" }))
	back := newBuilder().runPod().request("a", by(user, "update"), 200, web(modified, func(c *history.Commit) { c.Phase = "Pending" }))
	failed := failAfterSuccess(by(controllers, "patch"), history.Decide{Controller: "job-controller", Action: "patch", Resource: podResource, Key: name})
	undone := newBuilder().runPod().markPod().request("a", by(user, "update"), 200, web(modified))
	later := newBuilder().runPod().markPod().request("a", by(user, "update"), 200, web(modified, marked(30, 999)))
	taken := newBuilder().runPod().record("apiserver", "", history.StoreError{Kind: "no space"}).markPod()
	return []violation{
		{"A1", "an answer without a commit", answered},
		{"A1", "a commit that the file has not", newBuilder().runPod().withStoreFile(3)},
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
		{"A8", "a success that another controller than the pod garbage collector turns into a failure", failed},
		{"A8", "a deletion undone", undone},
		{"A8", "a deletion put off", later},
		{"A8", "a deletion put off, by a clock that is an hour behind all the time", presentDeadline(skewedClock(), 10)},
		{"A11", "a write after the disk has failed", taken},
		{"A14", "a refused write", newBuilder().runPod().request("a", by(user, "update"), 422, web(modified))},
	}
}

// presentDeadline is a pod with a passed deadline that becomes the present, by the clock of the
// request. The commit's clock is an hour behind. The trouble begins so many seconds before the
// request, or, at -1, during it.
func presentDeadline(trouble history.Trouble, before int64) *builder {
	b := newBuilder().runPod()
	b.request("hold", by(user, "update"), 200, web(modified, finalizers("a/b")))
	b.request("mark", by(user, "delete"), 200, web(modified, finalizers("a/b"), marked(30, b.clock+32))).wait(60)
	if before >= 0 {
		b.beginTrouble(trouble).wait(before)
	}
	b.record("apiserver", "again", by(user, "delete", grace(1)))
	present := b.clock
	if before < 0 {
		b.beginTrouble(trouble)
	}
	b.commit("again", web(modified, finalizers("a/b"), marked(1, present)))
	last := &b.evidence.Log.Events[len(b.evidence.Log.Events)-1]
	last.Wall = last.Wall.Add(-time.Hour)
	return b.record("apiserver", "again", history.OpReturn{Code: 200, Revision: b.revision})
}

// sendAll sends every event unchanged.
func sendAll(_ int, e history.WatchEvent) []history.WatchEvent { return []history.WatchEvent{e} }

// The watch group of all pods, and the selector of a node's pods.
const (
	allPods  = "watch.cluster.087c2023970ed1456e3bfe87"
	selector = "spec.nodeName=n1"
)

func watchViolations() []violation {
	change := func(at int, with func(history.WatchEvent) []history.WatchEvent) *builder {
		return watchedDeletion(func(i int, e history.WatchEvent) []history.WatchEvent {
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
	seen := newBuilder().runPod().record(kubelet, "", history.KubeletSee{UID: uid, Revision: "3"}).restart(kubelet).record(kubelet, "", history.KubeletSee{UID: uid, Revision: "2"})
	return []violation{
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
