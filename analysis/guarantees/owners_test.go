package guarantees

import "github.com/podfall/podfall/internal/history"

const (
	setResource = "replicasets.apps"
	setKey      = "default/rs"
)

// replicaSet is the owner as committed.
func replicaSet(op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: setResource, Key: setKey, UID: "rs", Op: op}
	for _, f := range change {
		f(&c)
	}
	return c
}

func aboutReplicaSet(o *history.OpCall) { o.Resource, o.Key = setResource, setKey }

func blocks(owners ...string) func(*history.Commit) {
	return withContent(history.Content{Blocking: history.Blocking{Blocks: owners}})
}

func in(resource, key string) func(*history.Commit) {
	return func(c *history.Commit) { c.Resource, c.Key, c.Node, c.Phase = resource, key, "", "" }
}

// foregroundOwner is an owner that is deleted in the foreground so many seconds after a dependent
// was created.
func (b *builder) foregroundOwner(seconds int64, change ...func(*history.Commit)) *builder {
	b.request("set", by(user, "create", aboutReplicaSet), 201, replicaSet(added))
	b.request("make", by(controllers, "create"), 201, web(added, append([]func(*history.Commit){pending, blocks("rs")}, change...)...))
	return b.wait(seconds).deleteForeground()
}

func (b *builder) deleteForeground() *builder {
	return b.request("foreground", by(user, "delete", aboutReplicaSet), 200, replicaSet(modified, finalizers("foregroundDeletion"), marked(0, b.clock+2)))
}

// ownerMark keeps the owner's deletionTimestamp.
func (b *builder) ownerMark() func(*history.Commit) {
	was := b.there[setResource+" "+setKey]
	return func(c *history.Commit) { c.Grace, c.Deadline = was.Grace, was.Deadline }
}

// releaseOwner has the garbage collector release the owner.
func (b *builder) releaseOwner() *builder {
	b.record(controllers, "finish", history.Decide{Controller: garbageCollector, Action: "patch", Resource: setResource, Key: setKey})
	return b.request("finish", by(controllers, "patch", aboutReplicaSet), 200, replicaSet(deleted, finalizers("foregroundDeletion"), marked(0, b.clock)))
}

// removeDependent deletes the dependent, which waits for no node.
func (b *builder) removeDependent() *builder {
	last := b.there[podResource+" "+name]
	return b.request("leave", by(controllers, "delete"), 200, web(deleted, pending, withContent(last.Content)))
}

func dependentViolations() []violation {
	held := newBuilder().foregroundOwner(100)
	held.request("hold", by(user, "delete", aboutReplicaSet), 200, replicaSet(modified, finalizers("foregroundDeletion", "a/b"), marked(0, held.clock+2)))
	held.record(controllers, "finish", history.Decide{Controller: garbageCollector, Action: "patch", Resource: setResource, Key: setKey})
	held.request("finish", by(controllers, "patch", aboutReplicaSet), 200, replicaSet(modified, finalizers("a/b"), marked(0, held.clock)))
	again := newWatchedBuilder().foregroundOwner(100).beginTrouble(downtimeOf(controllers)).wait(10).restart(controllers).endTrouble(downtimeOf(controllers))
	late := newBuilder().foregroundOwner(100, blocks())
	late.request("adopt", by(controllers, "patch"), 200, web(modified, pending, blocks("rs")))
	return []violation{
		{"D11", "a dependent that is there", newBuilder().foregroundOwner(100).releaseOwner()},
		{"D11", "an owner that another finalizer holds", held},
		{"D11", "a collector that has restarted", again.releaseOwner()},
		{"D11", "a dependent that was adopted long ago", late.wait(100).releaseOwner()},
	}
}

// validDependents returns histories in which owners are deleted in the foreground as they should
// be.
func validDependents() map[string]*builder {
	unblocked := newBuilder().foregroundOwner(100)
	unblocked.request("unblock", by(controllers, "patch"), 200, web(modified, pending, blocks()))
	byHand := newBuilder().foregroundOwner(100)
	byHand.request("hand", by(user, "patch", aboutReplicaSet), 200, replicaSet(deleted, finalizers("foregroundDeletion"), byHand.ownerMark()))
	adopted := newBuilder().foregroundOwner(100, blocks())
	adopted.request("adopt", by(controllers, "patch"), 200, web(modified, pending, blocks("rs")))
	cutOff := newWatchedBuilder().beginTrouble(downtimeOf("apiserver")).wait(200).endTrouble(downtimeOf("apiserver")).foregroundOwner(20)
	deaf := newWatchedBuilder().foregroundOwner(5).beginTrouble(downtimeOf("apiserver")).wait(200).endTrouble(downtimeOf("apiserver"))
	orphans := newBuilder().foregroundOwner(100)
	orphans.record(controllers, "orphan", history.Decide{Controller: garbageCollector, Action: "patch", Resource: setResource, Key: setKey})
	orphans.request("orphan", by(controllers, "patch", aboutReplicaSet), 200, replicaSet(modified, finalizers("foregroundDeletion"), orphans.ownerMark()))
	return map[string]*builder{
		"D11: an owner that goes last":                               newBuilder().foregroundOwner(100).removeDependent().releaseOwner(),
		"D11: a dependent that was made a moment ago":                newBuilder().foregroundOwner(30).releaseOwner(),
		"D11: a dependent that blocks no more":                       unblocked.releaseOwner(),
		"D11: a dependent that was adopted a moment ago":             adopted.releaseOwner(),
		"D11: an owner that a user lets go":                          byHand,
		"D11: a dependent that was made when there was no apiserver": cutOff.releaseOwner(),
		"D11: a dependent behind a broken watch":                     deaf.releaseOwner(),
		"D11: a dependent in another namespace":                      newBuilder().foregroundOwner(100, in(podResource, "other/web")).releaseOwner(),
		"D11: a dependent of a kind that users have defined":         newBuilder().foregroundOwner(100, in("widgets.example.com", "default/w")).releaseOwner(),
		"D11: another patch":                                         orphans,
	}
}

// pdb is a version of a budget for pods with the label app=web.
func pdb(op, key string, generation int64, budget history.Budget) history.Commit {
	content := history.Content{Generation: generation, Blocking: history.Blocking{Budget: &budget}}
	return history.Commit{Resource: budgetResource, Key: key, UID: key, Op: op, Content: content}
}

const pdbKey = "default/web"

// allowing is a budget that was counted for generation 1 and allows so many disruptions.
func allowing(disruptions int32) history.Budget {
	return history.Budget{Selector: "app=web", Observed: 1, Allowed: disruptions, Healthy: 1 + disruptions, Desired: 2}
}

// coveredPod is a running pod, ready or not, and a budget that has been counted.
func coveredPod(ready bool, generation int64, budget history.Budget) *builder {
	b := newBuilder().runPod().request("ready", by(node, "update"), 200, web(modified, labeled(ready)))
	b.request("budget", by(user, "create"), 201, pdb(added, pdbKey, generation, history.Budget{Selector: budget.Selector, All: budget.All}))
	return b.request("count", by(controllers, "update"), 200, pdb(modified, pdbKey, generation, budget))
}

func labeled(ready bool) func(*history.Commit) {
	return withContent(history.Content{Labels: map[string]string{"app": "web"}, Ready: ready})
}

// evict is an eviction that is allowed, with its changes of budgets.
func (b *builder) evict(budgets ...history.Commit) *builder {
	last := b.there[podResource+" "+name]
	as := func(c *history.Commit) { c.Content, c.Node, c.Phase = last.Content, last.Node, last.Phase }
	ends := b.keepMark()
	if last.Deadline == nil {
		ends = marked(30, b.clock+32)
	}
	changes := append(budgets, web(modified, as, b.keepMark()), web(modified, as, ends))
	return b.request("evict", by(user, "create", evicting), 201, changes...)
}

func budgetViolations() []violation {
	two := coveredPod(true, 1, allowing(1)).request("second", by(user, "create"), 201, pdb(added, "default/other", 1, allowing(1)))
	other := coveredPod(true, 1, allowing(1))
	other.request("second", by(user, "create"), 201, pdb(added, "default/other", 1, history.Budget{Selector: "app=other", Observed: 1, Allowed: 1}))
	few := history.Budget{Selector: "app=web", Observed: 1, Healthy: 1, Desired: 2}
	return []violation{
		{"C9", "a budget that allows none", coveredPod(true, 1, allowing(0)).evict(pdb(modified, pdbKey, 1, allowing(-1)))},
		{"C9", "a budget that was changed", coveredPod(true, 2, allowing(1)).evict(pdb(modified, pdbKey, 2, allowing(0)))},
		{"C9", "a budget of all pods that stays as it is", coveredPod(true, 1, history.Budget{All: true, Observed: 1, Desired: 2}).evict()},
		{"C9", "a budget that stays as it is", coveredPod(true, 1, allowing(1)).evict()},
		{"C9", "a budget that is spent twice", coveredPod(true, 1, allowing(2)).evict(pdb(modified, pdbKey, 1, allowing(0)))},
		{"C9", "two budgets", two.evict(pdb(modified, pdbKey, 1, allowing(0)))},
		{"C9", "another pod's budget", other.evict(pdb(modified, "default/other", 1, history.Budget{Selector: "app=other", Observed: 1}))},
		{"C9", "a pod that is not ready, of too few", coveredPod(false, 1, few).evict()},
		{"C9", "a ready pod, where unready ones would pass", coveredPod(true, 1, history.Budget{Selector: "app=web", AlwaysAllow: true}).evict()},
	}
}

// validBudgets returns histories with evictions as they should be.
func validBudgets() map[string]*builder {
	meanwhile := newBuilder().runPod().request("ready", by(node, "update"), 200, web(modified, labeled(true)))
	meanwhile.record("apiserver", "evict", by(user, "create", evicting))
	meanwhile.request("budget", by(user, "create"), 201, pdb(added, pdbKey, 1, allowing(0)))
	meanwhile.commit("evict", web(modified, labeled(true)))
	meanwhile.commit("evict", web(modified, labeled(true), marked(30, meanwhile.clock+32)))
	meanwhile.record("apiserver", "evict", history.OpReturn{Code: 201})
	healthy := history.Budget{Selector: "app=web", Observed: 1, Healthy: 2, Desired: 2}
	ended := coveredPod(true, 1, allowing(0)).request("ends", by(node, "update"), 200, web(modified, succeeded, labeled(false)))
	ends := coveredPod(true, 1, allowing(0))
	ends.request("delete", by(user, "delete", grace(60)), 200, web(modified, labeled(true), marked(60, ends.clock+62)))
	empty := coveredPod(true, 1, history.Budget{})
	removed := coveredPod(true, 1, allowing(0)).request("remove", by(user, "delete"), 200, pdb(deleted, pdbKey, 1, allowing(0)))
	silent := newBuilder().runPod().request("budget", by(user, "create"), 201, history.Commit{Resource: budgetResource, Key: pdbKey, UID: "b", Op: added})
	return map[string]*builder{
		"C9: a budget that allows it":                    coveredPod(true, 1, allowing(1)).evict(pdb(modified, pdbKey, 1, allowing(0))),
		"C9: a pod that is not ready, and others are":    coveredPod(false, 1, healthy).evict(),
		"C9: a pod that is not ready, and always may":    coveredPod(false, 2, history.Budget{Selector: "app=web", AlwaysAllow: true}).evict(),
		"C9: a budget that is made meanwhile":            meanwhile,
		"C9: a pod that has ended":                       ended.evict(),
		"C9: a pod that is being deleted":                ends.evict(),
		"C9: a budget of nothing":                        empty.evict(),
		"C9: a budget that is gone":                      removed.evict(),
		"C9: a budget of which the history tells little": silent.evict(),
	}
}
