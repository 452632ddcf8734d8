package guarantees

import (
	"strconv"
	"time"

	"github.com/podfall/podfall/internal/boltfile"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// answers is a request whose answer says more than its code.
func (f *forge) answers(cause string, call history.OpCall, answer history.OpReturn, changes ...history.Commit) *forge {
	f.say("apiserver", cause, call)
	for _, change := range changes {
		answer.Revision = f.commit(cause, change)
	}
	return f.say("apiserver", cause, answer)
}

// tenSecondsLeft is a request whose deadline is in ten seconds.
func tenSecondsLeft(o *history.OpCall) { o.TimeLeft = new(int64(10000)) }

func dry(o *history.OpCall) { o.DryRun = true }

// its are what a commit tells besides.
func its(content history.Content) func(*history.Commit) {
	return func(c *history.Commit) { c.Content = content }
}

// meansRevision is an update of the pod that runs, which says which version it was made from.
func meansRevision(revision string) *forge {
	return newForge().run().answers("a", by(user, "update"), history.OpReturn{Code: 200, BodyRevision: revision}, web(modified))
}

func meansUID(uid string) *forge {
	return newForge().run().answers("a", by(node, "update"), history.OpReturn{Code: 200, BodyUID: uid}, web(modified))
}

// verified is a history whose file was verified.
func (f *forge) verified(revision int64, objects int) *forge {
	f.evidence.Disk = &Disk{Revision: revision, Objects: objects}
	return f.file()
}

func damaged(bucket, record, what string) *forge {
	f := newForge().run()
	f.evidence.Disk = &Disk{Damage: &boltfile.DamageError{Path: "apiserver.db", Bucket: bucket, Record: record, What: what}}
	return f
}

// replicas are a ReplicaSet of two and some pods of it, each made after the one before it was
// answered.
func replicas(pods ...string) *forge { return newForge().replicas(2, pods...) }

func (f *forge) replicas(wanted int32, pods ...string) *forge {
	f.ask("set", by(user, "create"), 201, history.Commit{
		Resource: "replicasets.apps", Key: "default/rs", UID: "rs", Op: added, Content: history.Content{Workload: history.Workload{Replicas: new(wanted)}},
	})
	return f.say(controllers, "", history.Lease{}).wait(120).replica(pods...)
}

// replica makes further ones.
func (f *forge) replica(pods ...string) *forge {
	for _, one := range pods {
		f.wait(5).ask("make "+one, by(controllers, "create"), 201, web(added, pending, called("default/"+one, one), its(history.Content{Owner: "rs"})))
	}
	return f
}

// cutShort has something go down right after the only pod of a ReplicaSet was made, which makes
// another and then asks for what came after a revision.
func cutShort(what string, after int64) *forge {
	f := watchedForge().replicas(1, "a").breaks(down(what)).wait(40).mends(down(what)).replica("b")
	return f.say("apiserver", "watch", history.OpRead{Identity: controllers, Verb: "watch", Resource: podResource, Code: 200, ReadOptions: history.ReadOptions{Revision: formatRevision(after)}})
}

// indexes are pods of an Indexed Job, each made for an index after the one before it was answered;
// the first has ended before, if it says so.
func indexes(phase string, numbers ...string) *forge {
	f := newForge().ask("job", by(user, "create"), 201, history.Commit{
		Resource: "jobs.batch", Key: "default/sum", UID: "job", Op: added, Content: history.Content{Workload: history.Workload{Counted: new(int32(0))}},
	})
	f.say(controllers, "", history.Lease{}).wait(120)
	for i, number := range numbers {
		one, content := "sum-"+strconv.Itoa(i), history.Content{Owner: "job", Labels: map[string]string{indexLabel: number}}
		f.wait(5).ask("make "+one, by(controllers, "create"), 201, web(added, pending, called("default/"+one, one), its(content)))
		if i == 0 && phase != "" {
			f.ask("ends", by(node, "update"), 200, web(modified, called("default/"+one, one), its(content), func(c *history.Commit) { c.Phase = phase }))
		}
	}
	return f
}

// indexedLater is a pod of an Indexed Job that is given its index after it was made, and another
// that is made for the index number.
func indexedLater(number string) *forge {
	f := indexes("")
	late := history.Content{Owner: "job"}
	f.ask("make", by(controllers, "create"), 201, web(added, pending, called("default/sum-l", "sum-l"), its(late))).wait(5)
	late.Labels = map[string]string{indexLabel: "0"}
	f.ask("label", by(user, "patch"), 200, web(modified, pending, called("default/sum-l", "sum-l"), its(late))).wait(5)
	one := history.Content{Owner: "job", Labels: map[string]string{indexLabel: number}}
	return f.ask("make another", by(controllers, "create"), 201, web(added, pending, called("default/sum-m", "sum-m"), its(one)))
}

// counts is a Job that counts so many pods, one after the other, of which the first of two has
// failed, and has had other owners since.
func counts(counted int32, owners ...string) *forge {
	f := indexes("Failed", "0", "1")
	for _, owner := range owners {
		f.ask("hand over to "+owner, by(controllers, "patch"), 200, web(modified, called("default/sum-0", "sum-0"), its(history.Content{Owner: owner}),
			func(c *history.Commit) { c.Phase = "Failed" }))
	}
	return f.counting(counted)
}

// counting is a Job that counts so many pods, one after the other.
func (f *forge) counting(counted int32) *forge {
	for i := range counted {
		f.ask("count "+strconv.Itoa(int(i)), by(controllers, "update"), 200, history.Commit{
			Resource: "jobs.batch", Key: "default/sum", UID: "job", Op: modified, Content: history.Content{Workload: history.Workload{Counted: new(i + 1)}},
		})
	}
	return f
}

// inTurn is a StatefulSet with two pods, the first of which is ready or not.
func inTurn(ready bool) *forge {
	f := newForge().ask("set", by(user, "create"), 201, history.Commit{
		Resource: "statefulsets.apps", Key: "default/set", UID: "set", Op: added, Content: history.Content{Workload: history.Workload{Replicas: new(int32(2)), InOrder: true}},
	})
	f.ask("zero", by(controllers, "create"), 201, web(added, pending, called("default/set-0", "u0"), its(history.Content{Owner: "set"})))
	f.ask("ready", by(node, "update"), 200, web(modified, called("default/set-0", "u0"), its(history.Content{Owner: "set", Ready: ready})))
	return f.ask("one", by(controllers, "create"), 201, web(added, pending, called("default/set-1", "u1"), its(history.Content{Owner: "set"})))
}

// twice is a controller that changes a pod two times, the second time by a version that it
// has read.
func twice(read string) *forge {
	return newForge().run().decides("c", "update", "3").decides("c", "update", read)
}

// decides has a controller change the pod by a version that it has read.
func (f *forge) decides(controller, verb, read string) *forge {
	cause := verb + " by " + read
	f.say(controllers, cause, history.Decide{Controller: controller, ReadRevision: read, Action: verb, Resource: podResource, Key: name})
	if verb == "delete" {
		return f.ask(cause, by(controllers, verb), 200, web(modified, marked(30, f.clock+32)))
	}
	return f.ask(cause, by(controllers, verb), 200, web(modified))
}

// lost is a node that is not heard of for so many seconds before it is called unreachable, and
// a pod of it that is evicted so many seconds later, which tolerates that for 300.
func lost(silent, tolerated int64) *forge { return newForge().lost(silent, tolerated) }

func (f *forge) lost(silent, tolerated int64) *forge { return f.tainted(silent, tolerated).evicted() }

// tainted is one whose pod has not been evicted yet.
func (f *forge) tainted(silent, tolerated int64) *forge {
	f.ask("node", by(node, "create"), 201, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: added, Content: history.Content{Created: 1}})
	content := its(history.Content{Created: 1, PodSpec: history.PodSpec{Tolerations: []string{"node.kubernetes.io/not-ready:300", "node.kubernetes.io/unreachable:300"}}})
	f.ask("create", by(user, "create"), 201, web(added, pending, content))
	f.ask("bind", by(controllers, "create"), 201, web(modified, content))
	f.say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "3"})
	f.ask("lease", by(node, "create"), 201, history.Commit{Resource: "leases.coordination.k8s.io", Key: "kube-node-lease/n1", UID: "l1", Op: added})
	f.wait(silent).ask("taint", by(controllers, "update"), 200, history.Commit{
		Resource: "nodes", Key: "n1", UID: "n1", Op: modified, Content: history.Content{Created: 1, NoExecuteTaints: []string{"node.kubernetes.io/unreachable="}},
	})
	return f.wait(tolerated)
}

// evicted has the pod of a lost node be evicted.
func (f *forge) evicted() *forge {
	content := its(f.there[podResource+" "+name].Content)
	f.say(controllers, "evict", history.Decide{Controller: "taint-eviction-controller", Action: "delete", Resource: podResource, Key: name})
	return f.ask("evict", by(controllers, "delete"), 200, web(modified, content, marked(30, f.clock+2+30)))
}

// untainted is a lost node whose taint is taken off when what its pod tolerates is over: so many
// seconds after that its controllers hear nothing for a minute, and evict the pod so many
// seconds after it.
func untainted(deaf history.Trouble, before, after int64) *forge {
	f := watchedForge().tainted(50, 300).untaint()
	f.wait(before).breaks(deaf).wait(60).mends(deaf)
	return f.wait(after).evicted()
}

// untaint takes the taints of a node off.
func (f *forge) untaint() *forge {
	return f.ask("untaint", by(user, "patch"), 200, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: modified, Content: history.Content{Created: 1}})
}

// interrupted is a lost node whose taint is taken off when the condition of its pod has been
// written, and so many seconds before the pod is evicted.
func interrupted(seconds int64) *forge {
	f := watchedForge().tainted(50, 300)
	f.say(controllers, "mark", history.Decide{Controller: "taint-eviction-controller", Action: "patch", Resource: podResource, Key: name})
	f.ask("mark", by(controllers, "patch"), 200, web(modified, its(f.there[podResource+" "+name].Content)))
	return f.untaint().wait(seconds).evicted()
}

// status is what the kubelet tells of the container.
func (f *forge) status(state string, code int32) *forge {
	return f.say(kubelet, "", history.KubeletStatus{Pod: name, UID: uid, Phase: "Running", Containers: []history.ContainerState{{Container: ctr, State: state, Code: code}}})
}

func ofStatus(o *history.OpCall) { o.Subresource = "status" }

// refused is a status of the pod that a webhook denies.
func (f *forge) refused(who string) *forge {
	return f.consult("denied", by(who, "update", ofStatus), says(history.HookDenied)).finish("denied", 403)
}

// sidecar is a container that runs beside the first.
func sidecar() history.ContainerRef {
	return history.ContainerRef{Pod: name, UID: uid, Container: "c2", ContainerName: "sidecar"}
}

// accompanied is a pod that runs with a sidecar.
func accompanied() *forge {
	return watchedForge().run().say(runtime, "", history.Create{ContainerRef: sidecar()}).say(runtime, "", history.Start{ContainerRef: sidecar()})
}

// ownGrace is a pod with a grace period of its own that is deleted without one.
func ownGrace(own, holds int64) *forge {
	f := newForge().create()
	f.ask("runs", by(node, "update"), 200, web(modified, its(history.Content{SpecGrace: &own})))
	return f.ask("a", by(user, "delete"), 200, web(modified, marked(holds, f.clock+2+holds), its(history.Content{SpecGrace: &own})))
}

// forcedOff is a pod that is forced away from a node that is not ready, with so many warnings.
func forcedOff(warnings int) *forge {
	f := newForge()
	f.ask("node", by(node, "create"), 201, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: added, Content: history.Content{Created: 1}})
	f.run()
	return f.answers("a", by(user, "delete", grace(0)), history.OpReturn{Code: 200, Warnings: warnings},
		web(modified, marked(0, f.clock+4)), web(deleted, marked(0, f.clock+4)))
}

// volume is where a volume of the pod is, or of another.
func volume(f *forge, uid, path string) *forge {
	return f.say(kubelet, "", history.Mount{UID: uid, Volume: "v", Path: path}).say(kubelet, "", history.Unmount{UID: uid, Volume: "v", Path: path})
}

// finished is a pod's life whose last delete says what the runtime had.
func finished(listed bool, running int) *forge {
	f := newForge().run().mark().signal("SIGTERM").exit().told()
	f.ask("final", by(node, "delete", grace(0), meaning(uid)), 200, web(modified, succeeded, marked(0, f.clock+2)), web(deleted, succeeded, marked(0, f.clock+2)))
	return f.say(kubelet, "", history.KubeletFinal{Pod: name, UID: uid, Listed: &listed, Left: running})
}

// shortened is a pod that is stopped again after its grace period has become 5 s.
func shortened(again int64) *forge {
	f := newForge().run().mark()
	f.say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "UPDATE", Revision: "5", Grace: new(int64(5))})
	return f.say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: again})
}

// strange is what is no request, and is answered with a code.
func strange(code int32) *forge {
	return newForge().run().say("apiserver", "", history.OpRefused{Subject: "api.x", Code: code, Count: 1}).ask("a", by(user, "update"), 200, web(modified))
}

// limitedTo is a request with ten seconds left, whose change comes after so many.
func limitedTo(seconds int64) *forge {
	f := newForge().run().say("apiserver", "a", by(user, "update", tenSecondsLeft))
	f.wait(seconds).commit("a", web(modified))
	return f.say("apiserver", "a", history.OpReturn{Code: 200})
}

// telling are histories that tell of what older releases did not, and keep every promise.
func telling() map[string]*forge {
	dryRun := newForge().run().ask("a", by(user, "update", dry), 200)
	collection := newForge().run()
	collection.ask("a", by(user, "deletecollection", grace(0), tenSecondsLeft), 200, web(modified, marked(0, collection.clock+4)), web(deleted, marked(0, collection.clock+4)))
	ends := newForge().run().status("running", 0).mark().signal("SIGTERM").exit().status("terminated", 0).told().remove()
	return map[string]*forge{
		"meant revision": meansRevision("3"), "meant uid": meansUID(uid), "verified": newForge().run().verified(3, 1), "dry": dryRun, "own grace": ownGrace(20, 20),
		"own grace of 0": ownGrace(0, 0), "collection": collection, "warned": forcedOff(1), "statuses": ends, "finished": finished(true, 0),
		"volumes": volume(volume(newForge().run(), uid, "pods/u1/volumes/v"), "u2", "pods/u2/volumes/v"), "shortened": shortened(5),
		"replicas": replicas("a", "b"), "indexes": indexes("Failed", "0", "1", "0"), "indexed later": indexedLater("1"), "counted": counts(1), "counted again": counts(2, "", "job"), "ordered": inTurn(true), "own writes": twice("4"), "pods freed meanwhile": newForge().run().decides(jobController, "patch", "3").decides(jobController, "delete", "2"), "evicted": lost(50, 300), "in time": limitedTo(0), "strange": strange(400),
		"never ran":    newForge().run().mark().signal("SIGKILL").say(runtime, "", history.Exit{ContainerRef: of(), Code: 128, Unstarted: true}),
		"ran too late": startsAfter("60s").mark().wait(60).signal("SIGKILL").exit(),
		"restarted":    newForge().run().exit().say(runtime, "", history.Start{ContainerRef: secondRun()}),
	}
}

// startsAfter is a pod whose container's script holds up its start.
func startsAfter(takes string) *forge {
	f := newForge().create().say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "2"})
	f.say(runtime, "", history.Create{ContainerRef: of(), Script: "exits 0, starts after " + takes + ", ignores TERM"})
	f.say(runtime, "", history.Start{ContainerRef: of()})
	return f.ask("runs", by(node, "update"), 200, web(modified))
}

// secondRun is the container that the pod's restarts as.
func secondRun() history.ContainerRef {
	return history.ContainerRef{Pod: name, UID: uid, Container: "c2"}
}

func brokenTellings() []forged {
	created := newForge().create().ask("a", by(user, "update"), 200, web(modified, its(history.Content{Created: 5, Generation: 2})))
	fell := newForge().create().ask("a", by(user, "update"), 200, web(modified, its(history.Content{Created: 5, Generation: 2})))
	created.ask("b", by(user, "update"), 200, web(modified, its(history.Content{Created: 6, Generation: 2})))
	fell.ask("b", by(user, "update"), 200, web(modified, its(history.Content{Created: 5, Generation: 1})))
	collection := newForge().run().ask("a", by(user, "deletecollection", grace(30), tenSecondsLeft), 200, web(deleted))
	shared := newForge().run().say(runtime, "", history.Create{ContainerRef: history.ContainerRef{Pod: "default/other", UID: "u2", Container: ctr}})
	unsound := newForge().run().restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 3})
	early := newForge().run().mark().status("terminated", 0).signal("SIGTERM").exit()
	unstarted := newForge().create().say(runtime, "", history.Create{ContainerRef: of()}).status("running", 0).restart(runtime).exit()
	late := watchedForge().run().mark().signal("SIGTERM").exit().idles(60).status("running", 0)
	others, refused := watchedForge().run().mark().signal("SIGTERM").exit(), watchedForge().run().mark().signal("SIGTERM").exit().refused(node)
	stopped := accompanied().mark().signal("SIGTERM").exit().idles(10).say(runtime, "", history.Exit{ContainerRef: sidecar()}).idles(40)
	again := accompanied().mark().signal("SIGTERM").exit().idles(40).say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
	return []forged{
		{"A5", "an update of another version", meansRevision("2")},
		{"A7", "a status of another uid", meansUID("u0")},
		{"A8", "another creation", created},
		{"A8", "a generation that falls", fell},
		{"A9", "another counter", newForge().run().verified(4, 1)},
		{"A9", "another number of objects", newForge().run().verified(3, 2)},
		{"A9", "a revision missing", damaged("history", "revision 2", "missing")},
		{"A10", "a record", damaged("history", "revision 2", "checksum mismatch")},
		{"A10", "a page", damaged("", "page 7", "it is used twice")},
		{"A10", "records that were not verified", with(unsound, &Disk{Revision: 3, Objects: 1})},
		{"A14", "a dry run", newForge().run().ask("a", by(user, "update", dry), 200, web(modified))},
		{"D2", "another one than its own", ownGrace(20, 30)},
		{"D5", "a collection without force", collection},
		{"D8", "no warning", forcedOff(0)},
		{"K5", "the longer one again", shortened(30)},
		{"K10", "an end before it was", early},
		{"K10", "a start that never was", unstarted},
		{"K10", "another code", newForge().run().mark().signal("SIGTERM").exit().status("terminated", 1)},
		{"K10", "a container that has ended runs", late},
		{"K10", "a container that has ended runs, and a user is refused", others.idles(50).refused(user).idles(10).status("running", 0)},
		{"K10", "a container that has ended runs, which was refused long ago", refused.idles(60).status("running", 0)},
		{"K10", "a container that has ended runs, long after its pod's last", stopped.status("running", 0)},
		{"K10", "a container that had ended long before its pod was stopped runs", accompanied().exit().idles(40).mark().status("running", 0)},
		{"K10", "a container that had ended long before its pod was stopped again runs", again.status("running", 0)},
		{"K10", "a container that has ended runs, to a kubelet that does not stop it", accompanied().mark().exit().restart(kubelet).idles(50).status("running", 0)},
		{"K11", "a runtime that was not asked", finished(false, 0)},
		{"K11", "a container that runs", finished(true, 1)},
		{"K12", "a volume under no uid", volume(newForge().run(), uid, "pods/v")},
		{"K12", "a volume of two", volume(volume(newForge().run(), uid, "pods/u1/u2/v"), "u2", "pods/u1/u2/v")},
		{"K12", "a container of two", shared},
		{"C3", "a pod before the one before it is ready", inTurn(false)},
		{"C4", "two of one, where the answer was heard", cutShort("runtime/n1", 1)},
		{"C4", "two of one, of which the controllers were told", cutShort("bus", 2)},
		{"C4", "three of two", replicas("a", "b", "c")},
		{"C5", "an older version than its own write", twice("2")},
		{"C5", "a Job that changes a pod by an older version than its own write", newForge().run().decides(jobController, "patch", "3").decides(jobController, "patch", "2")},
		{"C10", "an index of two", indexes("", "0", "1", "0")},
		{"C10", "an index of two, of which one has it later", indexedLater("0")},
		{"C11", "a pod that is counted twice", counts(2)},
		{"C11", "a pod that was taken from a Job, and is counted twice", takenAway(jobController, "4", 3, ownedBy(""))},
		{"C11", "a pod that was taken from a Job before it looked", takenAway(jobController, "5", 2, ownedBy(""))},
		{"C11", "a pod that was taken from a Job, and that others delete", takenAway(garbageCollector, "4", 2, ownedBy(""))},
		{"C11", "a pod that a Job let go of and another took, and is counted twice", takenAway(jobController, "4", 3, ownedBy(""), ownedBy("other"))},
		{"C11", "a pod that is given back to a Job, and is counted twice", takenAway(jobController, "4", 3, ownedBy(""), ownedBy("job"))},
		{"C11", "a pod that has failed when it is given back to a Job, and is counted twice", takenAway(jobController, "4", 3, failedUnder("other"), failedUnder("job"))},
		{"C6", "a node that was just heard of", lost(10, 300)},
		{"C6", "a node that was just heard of twice", undelivered(fault.Duplicate)},
		{"C6", "an eviction that is early", lost(50, 100)},
		{"C6", "a node whose heartbeat was sent to who asks for more", watchedForge().silent(31*time.Second).asksAnew(1, 200)},
		{"C6", "a node whose heartbeat was sent to who then has to ask for everything", watchedForge().silent(10*time.Second).asksAnew(1, 410)},
		{"C6", "a node that was heard of a while ago, and is heard of late after that", watchedForge().silent(10*time.Second).renews("heard").wait(6).unheardOf().wait(20).asksAfter(2, 200)},
		{"C6", "a node that is heard of by who has asked for everything", watchedForge().silent(10*time.Second).asksAnew(0, 200)},
		{"C6", "an eviction that goes on long after the taint is gone", interrupted(60)},
		{"C6", "controllers that had long heard that the taint is gone when they stood still", untainted(paused(controllers), 20, 0)},
		{"C6", "controllers that have gone on for long since the taint is gone", untainted(paused(controllers), 0, 20)},
		{"C6", "controllers that have long asked for everything since the taint is gone", untainted(down("apiserver"), 0, 40)},
		{"N2", "a change after the deadline", limitedTo(20)},
		{"N2", "a pause of who knew that it is late", stoodStill(-1)},
		{"N2", "a change after the deadline while others stood still", starved(func(f *forge) { f.wait(20).stalls(controllers, 20) })},
		{"N5", "an error of its own", strange(500)},
	}
}

func with(f *forge, disk *Disk) *forge {
	f.evidence.Disk = disk
	return f
}
