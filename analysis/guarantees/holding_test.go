package guarantees

import "github.com/podfall/podfall/internal/history"

const (
	setResource = "replicasets.apps"
	setKey      = "default/rs"
)

// set is the owner as it is committed.
func set(op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: setResource, Key: setKey, UID: "rs", Op: op}
	for _, f := range change {
		f(&c)
	}
	return c
}

func aboutSet(o *history.OpCall) { o.Resource, o.Key = setResource, setKey }

func blocks(owners ...string) func(*history.Commit) {
	return its(history.Content{Holding: history.Holding{Blocks: owners}})
}

func in(resource, key string) func(*history.Commit) {
	return func(c *history.Commit) { c.Resource, c.Key, c.Node, c.Phase = resource, key, "", "" }
}

// waiting is an owner that is deleted in the foreground so many seconds after a dependent of it
// was made.
func (f *forge) waiting(seconds int64, change ...func(*history.Commit)) *forge {
	f.ask("set", by(user, "create", aboutSet), 201, set(added))
	f.ask("make", by(controllers, "create"), 201, web(added, append([]func(*history.Commit){pending, blocks("rs")}, change...)...))
	return f.wait(seconds).foreground()
}

func (f *forge) foreground() *forge {
	return f.ask("foreground", by(user, "delete", aboutSet), 200, set(modified, finalizers("foregroundDeletion"), marked(0, f.clock+2)))
}

// marks is the owner's deletionTimestamp, as it is.
func (f *forge) marks() func(*history.Commit) {
	was := f.there[setResource+" "+setKey]
	return func(c *history.Commit) { c.Grace, c.Deadline = was.Grace, was.Deadline }
}

// letsGo is what the garbage collector does when nothing blocks the owner any more.
func (f *forge) letsGo() *forge {
	f.say(controllers, "finish", history.Decide{Controller: garbageCollector, Action: "patch", Resource: setResource, Key: setKey})
	return f.ask("finish", by(controllers, "patch", aboutSet), 200, set(deleted, finalizers("foregroundDeletion"), marked(0, f.clock)))
}

// leaves has the dependent be deleted, which waits for no node.
func (f *forge) leaves() *forge {
	last := f.there[podResource+" "+name]
	return f.ask("leave", by(controllers, "delete"), 200, web(deleted, pending, its(last.Content)))
}

func brokenDependents() []forged {
	held := newForge().waiting(100)
	held.ask("hold", by(user, "delete", aboutSet), 200, set(modified, finalizers("foregroundDeletion", "a/b"), marked(0, held.clock+2)))
	held.say(controllers, "finish", history.Decide{Controller: garbageCollector, Action: "patch", Resource: setResource, Key: setKey})
	held.ask("finish", by(controllers, "patch", aboutSet), 200, set(modified, finalizers("a/b"), marked(0, held.clock)))
	again := watchedForge().waiting(100).breaks(down(controllers)).wait(10).restart(controllers).mends(down(controllers))
	late := newForge().waiting(100, blocks())
	late.ask("adopt", by(controllers, "patch"), 200, web(modified, pending, blocks("rs")))
	return []forged{
		{"D11", "a dependent that is there", newForge().waiting(100).letsGo()},
		{"D11", "an owner that another finalizer holds", held},
		{"D11", "a collector that has begun anew", again.letsGo()},
		{"D11", "a dependent that was adopted long ago", late.wait(100).letsGo()},
	}
}

// dependents are histories with owners that are deleted in the foreground, as it should be.
func dependents() map[string]*forge {
	unblocked := newForge().waiting(100)
	unblocked.ask("unblock", by(controllers, "patch"), 200, web(modified, pending, blocks()))
	byHand := newForge().waiting(100)
	byHand.ask("hand", by(user, "patch", aboutSet), 200, set(deleted, finalizers("foregroundDeletion"), byHand.marks()))
	adopted := newForge().waiting(100, blocks())
	adopted.ask("adopt", by(controllers, "patch"), 200, web(modified, pending, blocks("rs")))
	cutOff := watchedForge().breaks(down("apiserver")).wait(200).mends(down("apiserver")).waiting(20)
	deaf := watchedForge().waiting(5).breaks(down("apiserver")).wait(200).mends(down("apiserver"))
	orphans := newForge().waiting(100)
	orphans.say(controllers, "orphan", history.Decide{Controller: garbageCollector, Action: "patch", Resource: setResource, Key: setKey})
	orphans.ask("orphan", by(controllers, "patch", aboutSet), 200, set(modified, finalizers("foregroundDeletion"), orphans.marks()))
	return map[string]*forge{
		"D11: an owner that goes last":                               newForge().waiting(100).leaves().letsGo(),
		"D11: a dependent that was made a moment ago":                newForge().waiting(30).letsGo(),
		"D11: a dependent that blocks no more":                       unblocked.letsGo(),
		"D11: a dependent that was adopted a moment ago":             adopted.letsGo(),
		"D11: an owner that a user lets go":                          byHand,
		"D11: a dependent that was made when there was no apiserver": cutOff.letsGo(),
		"D11: a dependent that nobody could hear of":                 deaf.letsGo(),
		"D11: a dependent in another namespace":                      newForge().waiting(100, in(podResource, "other/web")).letsGo(),
		"D11: a dependent of a kind that users have defined":         newForge().waiting(100, in("widgets.example.com", "default/w")).letsGo(),
		"D11: another patch":                                         orphans,
	}
}

// pdb is a version of a budget of what has the label app=web, of that generation.
func pdb(op, key string, generation int64, budget history.Budget) history.Commit {
	content := history.Content{Generation: generation, Holding: history.Holding{Budget: &budget}}
	return history.Commit{Resource: budgetResource, Key: key, UID: key, Op: op, Content: content}
}

const pdbKey = "default/web"

// allows is a budget of web that was counted for generation 1 and allows so many disruptions.
func allows(disruptions int32) history.Budget {
	return history.Budget{Selector: "app=web", Observed: 1, Allowed: disruptions, Healthy: 1 + disruptions, Desired: 2}
}

// covered is the pod that runs, and is ready or not, and a budget that has been counted.
func covered(ready bool, generation int64, budget history.Budget) *forge {
	f := newForge().run().ask("ready", by(node, "update"), 200, web(modified, labeled(ready)))
	f.ask("budget", by(user, "create"), 201, pdb(added, pdbKey, generation, history.Budget{Selector: budget.Selector, All: budget.All}))
	return f.ask("count", by(controllers, "update"), 200, pdb(modified, pdbKey, generation, budget))
}

func labeled(ready bool) func(*history.Commit) {
	return its(history.Content{Labels: map[string]string{"app": "web"}, Ready: ready})
}

// evicts is an eviction that is allowed, and what it changes of budgets.
func (f *forge) evicts(budgets ...history.Commit) *forge {
	last := f.there[podResource+" "+name]
	as := func(c *history.Commit) { c.Content, c.Node, c.Phase = last.Content, last.Node, last.Phase }
	ends := f.stillMarked()
	if last.Deadline == nil {
		ends = marked(30, f.clock+32)
	}
	changes := append(budgets, web(modified, as, f.stillMarked()), web(modified, as, ends))
	return f.ask("evict", by(user, "create", evicting), 201, changes...)
}

func brokenBudgets() []forged {
	two := covered(true, 1, allows(1)).ask("second", by(user, "create"), 201, pdb(added, "default/other", 1, allows(1)))
	other := covered(true, 1, allows(1))
	other.ask("second", by(user, "create"), 201, pdb(added, "default/other", 1, history.Budget{Selector: "app=other", Observed: 1, Allowed: 1}))
	few := history.Budget{Selector: "app=web", Observed: 1, Healthy: 1, Desired: 2}
	return []forged{
		{"C9", "a budget that allows none", covered(true, 1, allows(0)).evicts(pdb(modified, pdbKey, 1, allows(-1)))},
		{"C9", "a budget that was changed", covered(true, 2, allows(1)).evicts(pdb(modified, pdbKey, 2, allows(0)))},
		{"C9", "a budget of all pods that stays as it is", covered(true, 1, history.Budget{All: true, Observed: 1, Desired: 2}).evicts()},
		{"C9", "a budget that stays as it is", covered(true, 1, allows(1)).evicts()},
		{"C9", "a budget that is spent twice", covered(true, 1, allows(2)).evicts(pdb(modified, pdbKey, 1, allows(0)))},
		{"C9", "two budgets", two.evicts(pdb(modified, pdbKey, 1, allows(0)))},
		{"C9", "another pod's budget", other.evicts(pdb(modified, "default/other", 1, history.Budget{Selector: "app=other", Observed: 1}))},
		{"C9", "a pod that is not ready, of too few", covered(false, 1, few).evicts()},
		{"C9", "a pod that is ready, where others would pass", covered(true, 1, history.Budget{Selector: "app=web", AlwaysAllow: true}).evicts()},
	}
}

// budgets are histories with evictions that are as they should be.
func budgets() map[string]*forge {
	meanwhile := newForge().run().ask("ready", by(node, "update"), 200, web(modified, labeled(true)))
	meanwhile.say("apiserver", "evict", by(user, "create", evicting))
	meanwhile.ask("budget", by(user, "create"), 201, pdb(added, pdbKey, 1, allows(0)))
	meanwhile.commit("evict", web(modified, labeled(true)))
	meanwhile.commit("evict", web(modified, labeled(true), marked(30, meanwhile.clock+32)))
	meanwhile.say("apiserver", "evict", history.OpReturn{Code: 201})
	healthy := history.Budget{Selector: "app=web", Observed: 1, Healthy: 2, Desired: 2}
	ended := covered(true, 1, allows(0)).ask("ends", by(node, "update"), 200, web(modified, succeeded, labeled(false)))
	ends := covered(true, 1, allows(0))
	ends.ask("delete", by(user, "delete", grace(60)), 200, web(modified, labeled(true), marked(60, ends.clock+62)))
	empty := covered(true, 1, history.Budget{})
	removed := covered(true, 1, allows(0)).ask("remove", by(user, "delete"), 200, pdb(deleted, pdbKey, 1, allows(0)))
	silent := newForge().run().ask("budget", by(user, "create"), 201, history.Commit{Resource: budgetResource, Key: pdbKey, UID: "b", Op: added})
	return map[string]*forge{
		"C9: a budget that allows it":                    covered(true, 1, allows(1)).evicts(pdb(modified, pdbKey, 1, allows(0))),
		"C9: a pod that is not ready, and others are":    covered(false, 1, healthy).evicts(),
		"C9: a pod that is not ready, and always may":    covered(false, 2, history.Budget{Selector: "app=web", AlwaysAllow: true}).evicts(),
		"C9: a budget that is made meanwhile":            meanwhile,
		"C9: a pod that has ended":                       ended.evicts(),
		"C9: a pod that is being deleted":                ends.evicts(),
		"C9: a budget of nothing":                        empty.evicts(),
		"C9: a budget that is gone":                      removed.evicts(),
		"C9: a budget of which the history tells little": silent.evicts(),
	}
}
