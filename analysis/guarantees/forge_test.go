package guarantees

import (
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// forge makes histories by hand: every event takes a second, and is a second behind the one
// before it.
type forge struct {
	evidence Evidence
	clock    int64
	sequence map[string]uint64
	boot     map[string]string
	revision int64
	there    map[string]history.Commit
}

func newForge() *forge {
	f := &forge{sequence: map[string]uint64{}, boot: map[string]string{}, there: map[string]history.Commit{}}
	f.say("apiserver", "", history.StoreOpen{ChecksumsOK: true})
	return f
}

// say is a process that tells something.
func (f *forge) say(process, cause string, fact history.Fact) *forge {
	f.clock += 2
	f.sequence[process]++
	f.evidence.Log.Events = append(f.evidence.Log.Events, history.Event{
		Sequence: f.sequence[process], Process: process, Boot: proto.Boot(f.boot[process]),
		Began: (f.clock - 1) * int64(time.Second), Ended: f.clock * int64(time.Second), Wall: time.Unix(f.clock, 0), Cause: cause, Fact: fact,
	})
	return f
}

// restart has a process begin anew.
func (f *forge) restart(process string) *forge {
	f.boot[process] += "+"
	f.sequence[process] = 0
	return f
}

// wait lets time go by.
func (f *forge) wait(seconds int64) *forge {
	f.clock += seconds
	return f
}

// stalls is a process that notices that it has stood still for a time.
func (f *forge) stalls(process string, seconds int64) {
	f.say(process, "", history.Stall{})
	f.evidence.Log.Events[len(f.evidence.Log.Events)-1].Began -= seconds * int64(time.Second)
}

// ask is a request that is answered with a code, after the changes that it makes.
func (f *forge) ask(cause string, call history.OpCall, code int32, changes ...history.Commit) *forge {
	f.say("apiserver", cause, call)
	last := int64(0)
	for _, change := range changes {
		last = f.commit(cause, change)
	}
	return f.say("apiserver", cause, history.OpReturn{Code: code, Revision: last})
}

// commit is a change; the revision and what it replaces are filled in where they are 0.
func (f *forge) commit(cause string, c history.Commit) int64 {
	key := c.Resource + " " + c.Key
	if c.Revision == 0 {
		f.revision++
		c.Revision = f.revision
	}
	if was, there := f.there[key]; there && c.Previous == 0 && c.Op != added {
		c.Previous = was.Revision
	}
	if c.Previous < 0 {
		c.Previous = 0
	}
	f.there[key] = c
	if c.Op == deleted {
		delete(f.there, key)
	}
	f.say("apiserver", cause, c)
	return c.Revision
}

// The pod of most histories.
const (
	name, uid, ctr = "default/web", "u1", "c1"
	kubelet        = "kubelet/n1"
	runtime        = "runtime/n1"
)

func of() history.ContainerRef { return history.ContainerRef{Pod: name, UID: uid, Container: ctr} }

// web is the pod as it is committed.
func web(op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: podResource, Key: name, UID: uid, Op: op, Node: "n1", Phase: "Running"}
	for _, f := range change {
		f(&c)
	}
	return c
}

func pending(c *history.Commit)   { c.Node, c.Phase = "", "Pending" }
func succeeded(c *history.Commit) { c.Phase = "Succeeded" }

// marked is being deleted with a grace period, until a moment of the forge's clock.
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

// create is a pod that is created and bound, revisions 1 and 2.
func (f *forge) create() *forge {
	f.ask("create", by(user, "create"), 201, web(added, pending))
	return f.ask("bind", by("controllers", "create"), 201, web(modified, func(c *history.Commit) { c.Phase = "Pending" }))
}

// run is one that also runs: a third revision, and a container.
func (f *forge) run() *forge {
	f.create().say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "ADD", Revision: "2"})
	f.say(runtime, "", history.Create{ContainerRef: of()}).say(runtime, "", history.Start{ContainerRef: of()})
	return f.ask("runs", by(node, "update"), 200, web(modified))
}

// mark is one that is gracefully deleted with 30 seconds, by its user: revision 4.
func (f *forge) mark() *forge {
	f.ask("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, f.clock+2+30)))
	f.say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "DELETE", Revision: "4", Grace: new(int64(30))})
	return f.say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
}

// signal is one to the container.
func (f *forge) signal(s string) *forge {
	return f.say(runtime, "", history.Signaling{ContainerRef: of(), Signal: s}).say(runtime, "", history.Signal{ContainerRef: of(), Signal: s})
}

func (f *forge) exit() *forge { return f.say(runtime, "", history.Exit{ContainerRef: of()}) }

// told is the last phase, which the kubelet has told.
func (f *forge) told() *forge {
	f.ask("told", by(node, "update"), 200, web(modified, succeeded, f.stillMarked()))
	return f.say(kubelet, "", history.KubeletStatus{Pod: name, UID: uid, Phase: "Succeeded"})
}

func (f *forge) stillMarked() func(*history.Commit) {
	was := f.there[podResource+" "+name]
	return func(c *history.Commit) { c.Grace, c.Deadline, c.Finalizers = was.Grace, was.Deadline, was.Finalizers }
}

// remove is the kubelet's final delete.
func (f *forge) remove() *forge {
	f.ask("final", by(node, "delete", grace(0), meaning(uid)), 200,
		web(modified, succeeded, marked(0, f.clock+2)), web(deleted, succeeded, marked(0, f.clock+2)))
	return f.say(kubelet, "", history.KubeletFinal{Pod: name, UID: uid})
}

// whole is a pod's life as it should be.
func (f *forge) whole() *forge { return f.run().mark().signal("SIGTERM").exit().told().remove() }

// file puts the store's own log beside the history, all commits but those left out.
func (f *forge) file(without ...int64) *forge {
	lost := map[int64]bool{}
	for _, r := range without {
		lost[r] = true
	}
	f.evidence.Store = []history.Event{{Fact: history.Compact{}}}
	for _, e := range f.evidence.Log.Events {
		if c, is := e.Fact.(history.Commit); is && !lost[c.Revision] {
			f.evidence.Store = append(f.evidence.Store, history.Event{Wall: e.Wall, Cause: e.Cause, Fact: c})
		}
	}
	return f
}
