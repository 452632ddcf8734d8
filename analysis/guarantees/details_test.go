package guarantees

import (
	"strconv"
	"time"

	"github.com/podfall/podfall/internal/boltfile"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// requestWithAnswer records a request with a detailed answer.
func (b *builder) requestWithAnswer(cause string, call history.OpCall, answer history.OpReturn, changes ...history.Commit) *builder {
	b.record("apiserver", cause, call)
	for _, change := range changes {
		answer.Revision = b.commit(cause, change)
	}
	return b.record("apiserver", cause, answer)
}

// tenSecondsLeft puts the deadline of a request 10 s ahead.
func tenSecondsLeft(o *history.OpCall) { o.TimeLeft = new(int64(10000)) }

func dry(o *history.OpCall) { o.DryRun = true }

// withContent sets what a commit records besides.
func withContent(content history.Content) func(*history.Commit) {
	return func(c *history.Commit) { c.Content = content }
}

// meansRevision is an update of the running pod that says which version it was made from.
func meansRevision(revision string) *builder {
	return newBuilder().runPod().requestWithAnswer("a", by(user, "update"), history.OpReturn{Code: 200, BodyRevision: revision}, web(modified))
}

func meansUID(uid string) *builder {
	return newBuilder().runPod().requestWithAnswer("a", by(node, "update"), history.OpReturn{Code: 200, BodyUID: uid}, web(modified))
}

// verifyFile adds the result of a file verification.
func (b *builder) verifyFile(revision int64, objects int) *builder {
	b.evidence.Disk = &Disk{Revision: revision, Objects: objects}
	return b.withStoreFile()
}

func damaged(bucket, record, what string) *builder {
	b := newBuilder().runPod()
	b.evidence.Disk = &Disk{Damage: &boltfile.DamageError{Path: "apiserver.db", Bucket: bucket, Record: record, What: what}}
	return b
}

// replicas is a ReplicaSet of two and some of its pods, each created after the one before it was
// answered.
func replicas(pods ...string) *builder { return newBuilder().replicas(2, pods...) }

func (b *builder) replicas(wanted int32, pods ...string) *builder {
	b.request("set", by(user, "create"), 201, history.Commit{
		Resource: "replicasets.apps", Key: "default/rs", UID: "rs", Op: added, Content: history.Content{Workload: history.Workload{Replicas: new(wanted)}},
	})
	return b.record(controllers, "", history.Lease{}).wait(120).addReplicas(pods...)
}

// addReplicas creates more pods.
func (b *builder) addReplicas(pods ...string) *builder {
	for _, one := range pods {
		b.wait(5).request("make "+one, by(controllers, "create"), 201, web(added, pending, called("default/"+one, one), withContent(history.Content{Owner: "rs"})))
	}
	return b
}

// lostAnswer stops a process right after the only pod of a ReplicaSet was created. The ReplicaSet
// creates another pod, and then asks for the changes after a revision.
func lostAnswer(what string, after int64) *builder {
	b := newWatchedBuilder().replicas(1, "a").beginTrouble(downtimeOf(what)).wait(40).endTrouble(downtimeOf(what)).addReplicas("b")
	return b.record("apiserver", "watch", history.OpRead{Identity: controllers, Verb: "watch", Resource: podResource, Code: 200, ReadOptions: history.ReadOptions{Revision: formatRevision(after)}})
}

// indexes creates pods of an Indexed Job, each after the one before it was answered. The first has
// ended with the phase, if it is set.
func indexes(phase string, numbers ...string) *builder {
	b := newBuilder().request("job", by(user, "create"), 201, history.Commit{
		Resource: "jobs.batch", Key: "default/sum", UID: "job", Op: added, Content: history.Content{Workload: history.Workload{Counted: new(int32(0))}},
	})
	b.record(controllers, "", history.Lease{}).wait(120)
	for i, number := range numbers {
		one, content := "sum-"+strconv.Itoa(i), history.Content{Owner: "job", Labels: map[string]string{indexLabel: number}}
		b.wait(5).request("make "+one, by(controllers, "create"), 201, web(added, pending, called("default/"+one, one), withContent(content)))
		if i == 0 && phase != "" {
			b.request("ends", by(node, "update"), 200, web(modified, called("default/"+one, one), withContent(content), func(c *history.Commit) { c.Phase = phase }))
		}
	}
	return b
}

// indexedLater is a pod of an Indexed Job that gets its index after its creation, and another that
// is created for the index `number`.
func indexedLater(number string) *builder {
	b := indexes("")
	late := history.Content{Owner: "job"}
	b.request("make", by(controllers, "create"), 201, web(added, pending, called("default/sum-l", "sum-l"), withContent(late))).wait(5)
	late.Labels = map[string]string{indexLabel: "0"}
	b.request("label", by(user, "patch"), 200, web(modified, pending, called("default/sum-l", "sum-l"), withContent(late))).wait(5)
	one := history.Content{Owner: "job", Labels: map[string]string{indexLabel: number}}
	return b.request("make another", by(controllers, "create"), 201, web(added, pending, called("default/sum-m", "sum-m"), withContent(one)))
}

// jobCounts is a Job that counts so many pods one by one. The first of its two pods has failed, and
// has had other owners since.
func jobCounts(counted int32, owners ...string) *builder {
	b := indexes("Failed", "0", "1")
	for _, owner := range owners {
		b.request("hand over to "+owner, by(controllers, "patch"), 200, web(modified, called("default/sum-0", "sum-0"), withContent(history.Content{Owner: owner}),
			func(c *history.Commit) { c.Phase = "Failed" }))
	}
	return b.countPods(counted)
}

// countPods has the Job count so many pods one by one.
func (b *builder) countPods(counted int32) *builder {
	for i := range counted {
		b.request("count "+strconv.Itoa(int(i)), by(controllers, "update"), 200, history.Commit{
			Resource: "jobs.batch", Key: "default/sum", UID: "job", Op: modified, Content: history.Content{Workload: history.Workload{Counted: new(i + 1)}},
		})
	}
	return b
}

// orderedSet is a StatefulSet with two pods. The first is ready or not.
func orderedSet(ready bool) *builder {
	b := newBuilder().request("set", by(user, "create"), 201, history.Commit{
		Resource: "statefulsets.apps", Key: "default/set", UID: "set", Op: added, Content: history.Content{Workload: history.Workload{Replicas: new(int32(2)), InOrder: true}},
	})
	b.request("zero", by(controllers, "create"), 201, web(added, pending, called("default/set-0", "u0"), withContent(history.Content{Owner: "set"})))
	b.request("ready", by(node, "update"), 200, web(modified, called("default/set-0", "u0"), withContent(history.Content{Owner: "set", Ready: ready})))
	return b.request("one", by(controllers, "create"), 201, web(added, pending, called("default/set-1", "u1"), withContent(history.Content{Owner: "set"})))
}

// decideTwice is a controller that changes a pod twice, the second time by a version that it has
// read.
func decideTwice(read string) *builder {
	return newBuilder().runPod().decide("c", "update", "3").decide("c", "update", read)
}

// decide has a controller change the pod by a version that it has read.
func (b *builder) decide(controller, verb, read string) *builder {
	cause := verb + " by " + read
	b.record(controllers, cause, history.Decide{Controller: controller, ReadRevision: read, Action: verb, Resource: podResource, Key: name})
	if verb == "delete" {
		return b.request(cause, by(controllers, verb), 200, web(modified, marked(30, b.clock+32)))
	}
	return b.request(cause, by(controllers, verb), 200, web(modified))
}

// lostNode is a node without heartbeats for `silent` seconds before it is tainted unreachable. Its
// pod, which tolerates the taint for 300 s, is evicted `tolerated` seconds later.
func lostNode(silent, tolerated int64) *builder { return newBuilder().loseNode(silent, tolerated) }

func (b *builder) loseNode(silent, tolerated int64) *builder {
	return b.taintNode(silent, tolerated).evictByTaint()
}

// taintNode is a lost node whose pod has not been evicted yet.
func (b *builder) taintNode(silent, tolerated int64) *builder {
	b.request("node", by(node, "create"), 201, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: added, Content: history.Content{Created: 1}})
	content := withContent(history.Content{Created: 1, PodSpec: history.PodSpec{Tolerations: []string{"node.kubernetes.io/not-ready:300", "node.kubernetes.io/unreachable:300"}}})
	b.request("create", by(user, "create"), 201, web(added, pending, content))
	b.request("bind", by(controllers, "create"), 201, web(modified, content))
	b.record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "3"})
	b.request("lease", by(node, "create"), 201, history.Commit{Resource: "leases.coordination.k8s.io", Key: "kube-node-lease/n1", UID: "l1", Op: added})
	b.wait(silent).request("taint", by(controllers, "update"), 200, history.Commit{
		Resource: "nodes", Key: "n1", UID: "n1", Op: modified, Content: history.Content{Created: 1, NoExecuteTaints: []string{"node.kubernetes.io/unreachable="}},
	})
	return b.wait(tolerated)
}

// evictByTaint evicts the pod of a lost node.
func (b *builder) evictByTaint() *builder {
	content := withContent(b.there[podResource+" "+name].Content)
	b.record(controllers, "evict", history.Decide{Controller: "taint-eviction-controller", Action: "delete", Resource: podResource, Key: name})
	return b.request("evict", by(controllers, "delete"), 200, web(modified, content, marked(30, b.clock+2+30)))
}

// untaintedNode is a lost node whose taint is removed when its pod's toleration ends. So many
// seconds later its controllers hear nothing for a minute. They evict the pod so many seconds after
// that.
func untaintedNode(deaf history.Trouble, before, after int64) *builder {
	b := newWatchedBuilder().taintNode(50, 300).untaint()
	b.wait(before).beginTrouble(deaf).wait(60).endTrouble(deaf)
	return b.wait(after).evictByTaint()
}

// untaint removes the taints of a node.
func (b *builder) untaint() *builder {
	return b.request("untaint", by(user, "patch"), 200, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: modified, Content: history.Content{Created: 1}})
}

// interruptedEviction is a lost node whose taint is removed after the pod's condition was written,
// and so many seconds before the pod is evicted.
func interruptedEviction(seconds int64) *builder {
	b := newWatchedBuilder().taintNode(50, 300)
	b.record(controllers, "mark", history.Decide{Controller: "taint-eviction-controller", Action: "patch", Resource: podResource, Key: name})
	b.request("mark", by(controllers, "patch"), 200, web(modified, withContent(b.there[podResource+" "+name].Content)))
	return b.untaint().wait(seconds).evictByTaint()
}

// reportContainer has the kubelet report the state of the container.
func (b *builder) reportContainer(state string, code int32) *builder {
	return b.record(kubelet, "", history.KubeletStatus{Pod: name, UID: uid, Phase: "Running", Containers: []history.ContainerState{{Container: ctr, State: state, Code: code}}})
}

func ofStatus(o *history.OpCall) { o.Subresource = "status" }

// refuseStatus has a webhook deny a status of the pod.
func (b *builder) refuseStatus(who string) *builder {
	return b.consult("denied", by(who, "update", ofStatus), webhookSays(history.HookDenied)).finish("denied", 403)
}

// sidecar is a container that runs beside the first.
func sidecar() history.ContainerRef {
	return history.ContainerRef{Pod: name, UID: uid, Container: "c2", ContainerName: "sidecar"}
}

// podWithSidecar is a pod that runs with a sidecar.
func podWithSidecar() *builder {
	return newWatchedBuilder().runPod().record(runtime, "", history.Create{ContainerRef: sidecar()}).record(runtime, "", history.Start{ContainerRef: sidecar()})
}

// ownGrace is a pod with its own grace period that is deleted without one.
func ownGrace(own, holds int64) *builder {
	b := newBuilder().createPod()
	b.request("runs", by(node, "update"), 200, web(modified, withContent(history.Content{SpecGrace: &own})))
	return b.request("a", by(user, "delete"), 200, web(modified, marked(holds, b.clock+2+holds), withContent(history.Content{SpecGrace: &own})))
}

// forcedFromNode is a pod that is force-deleted on a node that is not ready, with so many warnings.
func forcedFromNode(warnings int) *builder {
	b := newBuilder()
	b.request("node", by(node, "create"), 201, history.Commit{Resource: "nodes", Key: "n1", UID: "n1", Op: added, Content: history.Content{Created: 1}})
	b.runPod()
	return b.requestWithAnswer("a", by(user, "delete", grace(0)), history.OpReturn{Code: 200, Warnings: warnings},
		web(modified, marked(0, b.clock+4)), web(deleted, marked(0, b.clock+4)))
}

// mountedVolume mounts and unmounts a volume at a path.
func mountedVolume(b *builder, uid, path string) *builder {
	return b.record(kubelet, "", history.Mount{UID: uid, Volume: "v", Path: path}).record(kubelet, "", history.Unmount{UID: uid, Volume: "v", Path: path})
}

// finalDelete is a deleted pod whose final delete says what the runtime had.
func finalDelete(listed bool, running int) *builder {
	b := newBuilder().runPod().markPod().signalPod("SIGTERM").exitPod().reportEnd()
	b.request("final", by(node, "delete", grace(0), meaning(uid)), 200, web(modified, succeeded, marked(0, b.clock+2)), web(deleted, succeeded, marked(0, b.clock+2)))
	return b.record(kubelet, "", history.KubeletFinal{Pod: name, UID: uid, Listed: &listed, Left: running})
}

// shortenedGrace is a pod that is stopped again after its grace period became 5 s.
func shortenedGrace(again int64) *builder {
	b := newBuilder().runPod().markPod()
	b.record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "UPDATE", Revision: "5", Grace: new(int64(5))})
	return b.record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: again})
}

// malformedRequest is a malformed request that is answered with a code.
func malformedRequest(code int32) *builder {
	return newBuilder().runPod().record("apiserver", "", history.OpRefused{Subject: "api.x", Code: code, Count: 1}).request("a", by(user, "update"), 200, web(modified))
}

// changeAfter is a request with 10 s left whose change comes after so many seconds.
func changeAfter(seconds int64) *builder {
	b := newBuilder().runPod().record("apiserver", "a", by(user, "update", tenSecondsLeft))
	b.wait(seconds).commit("a", web(modified))
	return b.record("apiserver", "a", history.OpReturn{Code: 200})
}

// validDetails returns histories with details that older releases did not record. They keep every
// invariant.
func validDetails() map[string]*builder {
	dryRun := newBuilder().runPod().request("a", by(user, "update", dry), 200)
	collection := newBuilder().runPod()
	collection.request("a", by(user, "deletecollection", grace(0), tenSecondsLeft), 200, web(modified, marked(0, collection.clock+4)), web(deleted, marked(0, collection.clock+4)))
	ends := newBuilder().runPod().reportContainer("running", 0).markPod().signalPod("SIGTERM").exitPod().reportContainer("terminated", 0).reportEnd().confirmPod()
	return map[string]*builder{
		"meant revision": meansRevision("3"), "meant uid": meansUID(uid), "verified": newBuilder().runPod().verifyFile(3, 1), "dry": dryRun, "own grace": ownGrace(20, 20),
		"own grace of 0": ownGrace(0, 0), "collection": collection, "warned": forcedFromNode(1), "statuses": ends, "finished": finalDelete(true, 0),
		"volumes": mountedVolume(mountedVolume(newBuilder().runPod(), uid, "pods/u1/volumes/v"), "u2", "pods/u2/volumes/v"), "shortened": shortenedGrace(5),
		"replicas": replicas("a", "b"), "indexes": indexes("Failed", "0", "1", "0"), "indexed later": indexedLater("1"), "counted": jobCounts(1), "counted again": jobCounts(2, "", "job"), "ordered": orderedSet(true), "own writes": decideTwice("4"), "pods freed meanwhile": newBuilder().runPod().decide(jobController, "patch", "3").decide(jobController, "delete", "2"), "evicted": lostNode(50, 300), "in time": changeAfter(0), "strange": malformedRequest(400),
		"never ran":    newBuilder().runPod().markPod().signalPod("SIGKILL").record(runtime, "", history.Exit{ContainerRef: of(), Code: 128, Unstarted: true}),
		"ran too late": startsAfter("60s").markPod().wait(60).signalPod("SIGKILL").exitPod(),
		"restarted":    newBuilder().runPod().exitPod().record(runtime, "", history.Start{ContainerRef: secondRun()}),
	}
}

// startsAfter is a pod with a container whose script delays its start.
func startsAfter(takes string) *builder {
	b := newBuilder().createPod().record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "2"})
	b.record(runtime, "", history.Create{ContainerRef: of(), Script: "exits 0, starts after " + takes + ", ignores TERM"})
	b.record(runtime, "", history.Start{ContainerRef: of()})
	return b.request("runs", by(node, "update"), 200, web(modified))
}

// secondRun is the container of the pod's restart.
func secondRun() history.ContainerRef {
	return history.ContainerRef{Pod: name, UID: uid, Container: "c2"}
}

func detailViolations() []violation {
	created := newBuilder().createPod().request("a", by(user, "update"), 200, web(modified, withContent(history.Content{Created: 5, Generation: 2})))
	fell := newBuilder().createPod().request("a", by(user, "update"), 200, web(modified, withContent(history.Content{Created: 5, Generation: 2})))
	created.request("b", by(user, "update"), 200, web(modified, withContent(history.Content{Created: 6, Generation: 2})))
	fell.request("b", by(user, "update"), 200, web(modified, withContent(history.Content{Created: 5, Generation: 1})))
	collection := newBuilder().runPod().request("a", by(user, "deletecollection", grace(30), tenSecondsLeft), 200, web(deleted))
	shared := newBuilder().runPod().record(runtime, "", history.Create{ContainerRef: history.ContainerRef{Pod: "default/other", UID: "u2", Container: ctr}})
	unsound := newBuilder().runPod().restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 3})
	early := newBuilder().runPod().markPod().reportContainer("terminated", 0).signalPod("SIGTERM").exitPod()
	unstarted := newBuilder().createPod().record(runtime, "", history.Create{ContainerRef: of()}).reportContainer("running", 0).restart(runtime).exitPod()
	late := newWatchedBuilder().runPod().markPod().signalPod("SIGTERM").exitPod().idle(60).reportContainer("running", 0)
	others, refused := newWatchedBuilder().runPod().markPod().signalPod("SIGTERM").exitPod(), newWatchedBuilder().runPod().markPod().signalPod("SIGTERM").exitPod().refuseStatus(node)
	stopped := podWithSidecar().markPod().signalPod("SIGTERM").exitPod().idle(10).record(runtime, "", history.Exit{ContainerRef: sidecar()}).idle(40)
	again := podWithSidecar().markPod().signalPod("SIGTERM").exitPod().idle(40).record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
	return []violation{
		{"A5", "an update of another version", meansRevision("2")},
		{"A7", "a status of another uid", meansUID("u0")},
		{"A8", "another creation", created},
		{"A8", "a generation that falls", fell},
		{"A9", "another counter", newBuilder().runPod().verifyFile(4, 1)},
		{"A9", "another number of objects", newBuilder().runPod().verifyFile(3, 2)},
		{"A9", "a revision missing", damaged("history", "revision 2", "missing")},
		{"A10", "a record", damaged("history", "revision 2", "checksum mismatch")},
		{"A10", "a page", damaged("", "page 7", "it is used twice")},
		{"A10", "records that were not verified", withDisk(unsound, &Disk{Revision: 3, Objects: 1})},
		{"A14", "a dry run", newBuilder().runPod().request("a", by(user, "update", dry), 200, web(modified))},
		{"D2", "another one than its own", ownGrace(20, 30)},
		{"D5", "a collection without force", collection},
		{"D8", "no warning", forcedFromNode(0)},
		{"K5", "the longer one again", shortenedGrace(30)},
		{"K10", "an end before it was", early},
		{"K10", "a start that never was", unstarted},
		{"K10", "another code", newBuilder().runPod().markPod().signalPod("SIGTERM").exitPod().reportContainer("terminated", 1)},
		{"K10", "an unknown end of a container that ended while its pod was stopped", newBuilder().runPod().markPod().exitPod().reportContainer("terminated", 137)},
		{"K10", "a container that has ended runs", late},
		{"K10", "a container that has ended runs, and a user is refused", others.idle(50).refuseStatus(user).idle(10).reportContainer("running", 0)},
		{"K10", "a container that has ended runs, which was refused long ago", refused.idle(60).reportContainer("running", 0)},
		{"K10", "a container that has ended runs, long after its pod's last", stopped.reportContainer("running", 0)},
		{"K10", "a container that had ended long before its pod was stopped runs", podWithSidecar().exitPod().idle(40).markPod().reportContainer("running", 0)},
		{"K10", "a container that had ended long before its pod was stopped again runs", again.reportContainer("running", 0)},
		{"K10", "a container that has ended runs, to a kubelet that does not stop it", podWithSidecar().markPod().exitPod().restart(kubelet).idle(50).reportContainer("running", 0)},
		{"K11", "a runtime that was not asked", finalDelete(false, 0)},
		{"K11", "a container that runs", finalDelete(true, 1)},
		{"K12", "a volume under no uid", mountedVolume(newBuilder().runPod(), uid, "pods/v")},
		{"K12", "a volume of two", mountedVolume(mountedVolume(newBuilder().runPod(), uid, "pods/u1/u2/v"), "u2", "pods/u1/u2/v")},
		{"K12", "a container of two", shared},
		{"C3", "a pod before the one before it is ready", orderedSet(false)},
		{"C4", "two of one, where the answer was heard", lostAnswer("runtime/n1", 1)},
		{"C4", "two of one, although a watch delivered the first", lostAnswer("bus", 2)},
		{"C4", "three of two", replicas("a", "b", "c")},
		{"C5", "an older version than its own write", decideTwice("2")},
		{"C5", "a Job that changes a pod by an older version than its own write", newBuilder().runPod().decide(jobController, "patch", "3").decide(jobController, "patch", "2")},
		{"C10", "an index of two", indexes("", "0", "1", "0")},
		{"C10", "an index of two, of which one has it later", indexedLater("0")},
		{"C11", "a pod that is counted twice", jobCounts(2)},
		{"C11", "a pod that was taken from a Job, and is counted twice", takenPod(jobController, "4", 3, ownedBy(""))},
		{"C11", "a pod that was taken from a Job before it looked", takenPod(jobController, "5", 2, ownedBy(""))},
		{"C11", "a pod that was taken from a Job, and that another controller deletes", takenPod(garbageCollector, "4", 2, ownedBy(""))},
		{"C11", "a pod that a Job let go of and another took, and is counted twice", takenPod(jobController, "4", 3, ownedBy(""), ownedBy("other"))},
		{"C11", "a pod that is given back to a Job, and is counted twice", takenPod(jobController, "4", 3, ownedBy(""), ownedBy("job"))},
		{"C11", "a pod that has failed when it is given back to a Job, and is counted twice", takenPod(jobController, "4", 3, failedUnder("other"), failedUnder("job"))},
		{"C6", "a node that was just heard of", lostNode(10, 300)},
		{"C6", "a node that was just heard of twice", faultyWatch(fault.Duplicate)},
		{"C6", "an eviction that is early", lostNode(50, 100)},
		{"C6", "a node whose heartbeat was sent before the controllers asked for more", newWatchedBuilder().silentNode(31*time.Second).heardLate(1, 200)},
		{"C6", "a node whose heartbeat was sent before the controllers had to list again", newWatchedBuilder().silentNode(10*time.Second).heardLate(1, 410)},
		{"C6", "a node with a heartbeat a while ago, and a late one after that", newWatchedBuilder().silentNode(10*time.Second).renewLease("heard").wait(6).taintUnreachable().wait(20).watchLeases(2, 200)},
		{"C6", "a node whose heartbeat is in a list", newWatchedBuilder().silentNode(10*time.Second).heardLate(0, 200)},
		{"C6", "an eviction that goes on long after the taint is gone", interruptedEviction(60)},
		{"C6", "controllers that were paused long after they heard that the taint is gone", untaintedNode(pauseOf(controllers), 20, 0)},
		{"C6", "controllers that have gone on for long since the taint is gone", untaintedNode(pauseOf(controllers), 0, 20)},
		{"C6", "controllers that listed again long after the taint was gone", untaintedNode(downtimeOf("apiserver"), 0, 40)},
		{"N2", "a change after the deadline", changeAfter(20)},
		{"N2", "a pause of an apiserver that knew the deadline had passed", pausedRequest(-1)},
		{"N2", "a change after the deadline while other processes were paused", lateRequest(func(b *builder) { b.wait(20).stall(controllers, 20) })},
		{"N5", "an error of its own", malformedRequest(500)},
	}
}

func withDisk(b *builder, disk *Disk) *builder {
	b.evidence.Disk = disk
	return b
}
