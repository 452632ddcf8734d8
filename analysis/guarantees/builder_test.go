package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// builder builds histories by hand. Every event takes a second, and begins a second after the one
// before it.
type builder struct {
	evidence Evidence
	clock    int64
	sequence map[string]uint64
	boot     map[string]string
	revision int64
	there    map[string]history.Commit
}

func newBuilder() *builder {
	b := &builder{sequence: map[string]uint64{}, boot: map[string]string{}, there: map[string]history.Commit{}}
	b.record("apiserver", "", history.StoreOpen{ChecksumsOK: true})
	return b
}

// record adds an event of a process.
func (b *builder) record(process, cause string, fact history.Fact) *builder {
	b.clock += 2
	b.sequence[process]++
	b.evidence.Log.Events = append(b.evidence.Log.Events, history.Event{
		Sequence: b.sequence[process], Process: process, Boot: proto.Boot(b.boot[process]),
		Began: (b.clock - 1) * int64(time.Second), Ended: b.clock * int64(time.Second), Wall: time.Unix(b.clock, 0), Cause: cause, Fact: fact,
	})
	return b
}

// restart begins a new boot of a process.
func (b *builder) restart(process string) *builder {
	b.boot[process] += "+"
	b.sequence[process] = 0
	return b
}

// wait lets time pass, in seconds.
func (b *builder) wait(seconds int64) *builder {
	b.clock += seconds
	return b
}

// stall records that a process was not scheduled for a time.
func (b *builder) stall(process string, seconds int64) {
	b.record(process, "", history.Stall{})
	b.evidence.Log.Events[len(b.evidence.Log.Events)-1].Began -= seconds * int64(time.Second)
}

// request records a request, the changes that it makes, and its answer.
func (b *builder) request(cause string, call history.OpCall, code int32, changes ...history.Commit) *builder {
	b.record("apiserver", cause, call)
	last := int64(0)
	for _, change := range changes {
		last = b.commit(cause, change)
	}
	return b.record("apiserver", cause, history.OpReturn{Code: code, Revision: last})
}

// commit records a change, and fills in its revision and the revision that it replaces if they are
// 0.
func (b *builder) commit(cause string, c history.Commit) int64 {
	key := c.Resource + " " + c.Key
	if c.Revision == 0 {
		b.revision++
		c.Revision = b.revision
	}
	if was, there := b.there[key]; there && c.Previous == 0 && c.Op != added {
		c.Previous = was.Revision
	}
	if c.Previous < 0 {
		c.Previous = 0
	}
	b.there[key] = c
	if c.Op == deleted {
		delete(b.there, key)
	}
	b.record("apiserver", cause, c)
	return c.Revision
}

// The pod of most histories.
const (
	name, uid, ctr = "default/web", "u1", "c1"
	kubelet        = "kubelet/n1"
	runtime        = "runtime/n1"
)

func of() history.ContainerRef { return history.ContainerRef{Pod: name, UID: uid, Container: ctr} }

// web is the pod of most histories, as committed.
func web(op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: podResource, Key: name, UID: uid, Op: op, Node: "n1", Phase: "Running"}
	for _, f := range change {
		f(&c)
	}
	return c
}

func pending(c *history.Commit)   { c.Node, c.Phase = "", "Pending" }
func succeeded(c *history.Commit) { c.Phase = "Succeeded" }

// marked sets a deletion with a grace period, and a deadline on the builder's clock, both in
// seconds.
func marked(grace, until int64) func(*history.Commit) {
	return func(c *history.Commit) { c.Grace, c.Deadline = &grace, new(time.Unix(until, 0)) }
}

func finalizers(names ...string) func(*history.Commit) {
	return func(c *history.Commit) { c.Finalizers = names }
}

func called(other, its string) func(*history.Commit) {
	return func(c *history.Commit) { c.Key, c.UID = other, its }
}

func revision(r int64) func(*history.Commit) { return func(c *history.Commit) { c.Revision = r } }

func previous(r int64) func(*history.Commit) { return func(c *history.Commit) { c.Previous = r } }

// by is a request about the pod.
func by(who, verb string, change ...func(*history.OpCall)) history.OpCall {
	call := history.OpCall{Identity: who, Verb: verb, Resource: podResource, Key: name}
	for _, f := range change {
		f(&call)
	}
	return call
}

func evicting(o *history.OpCall) { o.Subresource = "eviction" }

func grace(seconds int64) func(*history.OpCall) {
	return func(o *history.OpCall) { o.Grace = &seconds }
}

func meaning(uid string) func(*history.OpCall) { return func(o *history.OpCall) { o.PreUID = uid } }

const (
	user = "client:admin"
	node = "node:n1"
)

// createPod creates and binds the pod: revisions 1 and 2.
func (b *builder) createPod() *builder {
	b.request("create", by(user, "create"), 201, web(added, pending))
	return b.request("bind", by("controllers", "create"), 201, web(modified, func(c *history.Commit) { c.Phase = "Pending" }))
}

// runPod creates the pod and runs it: revision 3, and a container.
func (b *builder) runPod() *builder {
	b.createPod().record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "2"})
	b.record(runtime, "", history.Create{ContainerRef: of()}).record(runtime, "", history.Start{ContainerRef: of()})
	return b.request("runs", by(node, "update"), 200, web(modified))
}

// markPod deletes the pod gracefully within 30 s, by its user: revision 4.
func (b *builder) markPod() *builder {
	b.request("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, b.clock+2+30)))
	b.record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "DELETE", Revision: "4", Grace: new(int64(30))})
	return b.record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
}

// signalPod sends a signal to the pod's container.
func (b *builder) signalPod(s string) *builder {
	return b.record(runtime, "", history.Signaling{ContainerRef: of(), Signal: s}).record(runtime, "", history.Signal{ContainerRef: of(), Signal: s})
}

func (b *builder) exitPod() *builder { return b.record(runtime, "", history.Exit{ContainerRef: of()}) }

// reportEnd has the kubelet report the last phase.
func (b *builder) reportEnd() *builder {
	b.request("told", by(node, "update"), 200, web(modified, succeeded, b.keepMark()))
	return b.record(kubelet, "", history.KubeletStatus{Pod: name, UID: uid, Phase: "Succeeded"})
}

func (b *builder) keepMark() func(*history.Commit) {
	was := b.there[podResource+" "+name]
	return func(c *history.Commit) { c.Grace, c.Deadline, c.Finalizers = was.Grace, was.Deadline, was.Finalizers }
}

// confirmPod is the kubelet's final delete.
func (b *builder) confirmPod() *builder {
	b.request("final", by(node, "delete", grace(0), meaning(uid)), 200,
		web(modified, succeeded, marked(0, b.clock+2)), web(deleted, succeeded, marked(0, b.clock+2)))
	return b.record(kubelet, "", history.KubeletFinal{Pod: name, UID: uid})
}

// deletePod runs a pod and deletes it as it should be.
func (b *builder) deletePod() *builder {
	return b.runPod().markPod().signalPod("SIGTERM").exitPod().reportEnd().confirmPod()
}

// withStoreFile adds the store's own log to the evidence, without some revisions.
func (b *builder) withStoreFile(without ...int64) *builder {
	lost := map[int64]bool{}
	for _, r := range without {
		lost[r] = true
	}
	b.evidence.Store = []history.Event{{Fact: history.Compact{}}}
	for _, e := range b.evidence.Log.Events {
		if c, is := e.Fact.(history.Commit); is && !lost[c.Revision] {
			b.evidence.Store = append(b.evidence.Store, history.Event{Wall: e.Wall, Cause: e.Cause, Fact: c})
		}
	}
	return b
}
