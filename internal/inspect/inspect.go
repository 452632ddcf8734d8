// Package inspect is what processes of a cluster say of their insides when they are
// asked: the kubelet what each pod's worker is at, the runtime which containers are
// alive, the apiserver what it refused. It is telemetry, not the API: it travels on the
// management connection, so that a node that is cut off is still seen.
//
// The types are plain values. Times are as the clock of the process that tells shows
// them; zero times are things that have not happened.
package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/metrics"
	"github.com/podfall/podfall/proto"
)

// Observers are who is told what a process does, and who may ask how it is. The zero
// value is nobody.
type Observers[T any] struct {
	// History is told what the process does.
	History *history.Recorder
	// Metrics counts what the process does; nil counts nothing.
	Metrics *metrics.Registry
	// Inspect is called once, when the process can be asked, with what answers; it may be
	// nil.
	Inspect func(ask func(context.Context) T)
}

// Ready hands ask over, if somebody wants it.
func (o Observers[T]) Ready(ask func(context.Context) T) {
	if o.Inspect != nil {
		o.Inspect(ask)
	}
}

// Self is what every process says.
type Self struct {
	Process string     `json:"process"`
	Boot    proto.Boot `json:"boot"`
	// Began is when this boot did.
	Began time.Time `json:"began"`
	// Now is what the process's clock shows.
	Now time.Time `json:"now"`
}

// Shown is what the process's clock showed when it said so; the zero time is of one that does not tell.
func (s Self) Shown() time.Time { return s.Now }

// moved is the same as a clock shows it that is so far ahead of the process's.
func (s Self) moved(ahead time.Duration) Self {
	s.Began, s.Now = Moved(s.Began, ahead), Moved(s.Now, ahead)
	return s
}

// Contact is how a process gets on with another that it depends on.
type Contact struct {
	// Last is when an answer came, a refusal included.
	Last time.Time `json:"last,omitzero"`
	// Failing is since when no request has been answered; zero when the last one was.
	Failing time.Time `json:"failing,omitzero"`
	// Err is what the last request that was not answered came to.
	Err string `json:"err,omitempty"`
}

// Moved is the same as a clock shows it that is so far ahead of the one that it is by.
func (c Contact) Moved(ahead time.Duration) Contact {
	c.Last, c.Failing = Moved(c.Last, ahead), Moved(c.Failing, ahead)
	return c
}

// Kubelet is what a kubelet says.
type Kubelet struct {
	Self
	Node    string  `json:"node"`
	API     Contact `json:"api"`
	Runtime Contact `json:"runtime"`
	// Problems are why the kubelet thinks that its node is not ready.
	Problems []string `json:"problems,omitempty"`
	Pods     []Work   `json:"pods,omitempty"`
	// Heard is the resourceVersion of pods up to which the kubelet has taken over what the API
	// has shown it; empty before its first list.
	Heard string `json:"heard,omitempty"`
	// Calls are those that have not returned yet.
	Calls []Call `json:"calls,omitempty"`
	// Refused is what the API did not let the kubelet do, by pod, the last of each.
	Refused []Refusal `json:"refused,omitempty"`
	// Orphans are leftovers of pods that nobody knows.
	Orphans []Orphan `json:"orphans,omitempty"`
}

// Moved is the same as a clock shows it that is so far ahead of the kubelet's.
func (k Kubelet) Moved(ahead time.Duration) Kubelet {
	k.Self, k.API, k.Runtime = k.moved(ahead), k.API.Moved(ahead), k.Runtime.Moved(ahead)
	k.Pods, k.Calls, k.Refused = slices.Clone(k.Pods), slices.Clone(k.Calls), slices.Clone(k.Refused)
	for i, w := range k.Pods {
		k.Pods[i].Since, k.Pods[i].First = Moved(w.Since, ahead), Moved(w.First, ahead)
	}
	for i, c := range k.Calls {
		k.Calls[i].Since = Moved(c.Since, ahead)
	}
	for i, r := range k.Refused {
		k.Refused[i].First, k.Refused[i].Last = Moved(r.First, ahead), Moved(r.Last, ahead)
	}
	return k
}

// Work is what the worker of one pod is at.
type Work struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is the worker's: Syncing, Stopping, Stopped, Confirming.
	State string `json:"state"`
	// Marked says that the kubelet has seen that the pod is being deleted.
	Marked bool `json:"marked,omitempty"`
	// Removed says that the kubelet knows that the API has no such UID.
	Removed bool `json:"removed,omitempty"`
	// Grace is what the stop that is under way began with, in seconds.
	Grace int64 `json:"grace,omitempty"`
	// Doing is the step that is under way, empty for none, and Since its beginning.
	Doing string    `json:"doing,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Err is why the last attempt failed, Failed how many did in a row, and First when
	// the first of them did.
	Err    string    `json:"err,omitempty"`
	Failed int       `json:"failed,omitempty"`
	First  time.Time `json:"first,omitzero"`
}

// The steps that a worker can be at.
const (
	StepSync       = "sync"
	StepStop       = "stop containers"
	StepUnmount    = "unmount volumes"
	StepRemoveDirs = "remove volume directories"
	StepCgroup     = "destroy cgroup"
)

// Call is a request that has not been answered yet.
type Call struct {
	// Method is of the Container Runtime Interface: StopContainer.
	Method string `json:"method"`
	// ID is the container or sandbox; empty where the call is about none.
	ID    string    `json:"id,omitempty"`
	Since time.Time `json:"since"`
}

// Refusal is a request that was refused again and again.
type Refusal struct {
	// Who asked; empty when it is who tells.
	Who  string `json:"who,omitempty"`
	Verb string `json:"verb"`
	// Resource is what was asked about, with its subresource: pods/status.
	Resource string `json:"resource"`
	// Key is namespace/name, or name.
	Key     string    `json:"key"`
	UID     string    `json:"uid,omitempty"`
	Code    int32     `json:"code"`
	Message string    `json:"message"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Count   int       `json:"count"`
}

// Orphan is what is left on a node of a pod that nobody knows.
type Orphan struct {
	UID string `json:"uid"`
	// What is left: volumes.
	What string `json:"what"`
	Err  string `json:"err,omitempty"`
}

// Runtime is what a container runtime says.
type Runtime struct {
	Self
	// Ahead is by how much its clock, which Now and the containers' times go by, is ahead of the
	// cluster's.
	Ahead time.Duration `json:"ahead,omitempty"`
	Node  string        `json:"node"`
	// Programs is how real programs run on this machine, and what it refuses them, in words;
	// empty when none may run.
	Programs   string      `json:"programs,omitempty"`
	Containers []Container `json:"containers,omitempty"`
}

// Moved is the same as a clock shows it that is so far ahead of the runtime's.
func (r Runtime) Moved(ahead time.Duration) Runtime {
	r.Self, r.Ahead, r.Containers = r.moved(ahead), r.Ahead+ahead, slices.Clone(r.Containers)
	for i, c := range r.Containers {
		r.Containers[i].Times = c.Moved(ahead)
	}
	return r
}

// Container is one that exists.
type Container struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	// Alive says that its process runs, or is about to.
	Alive bool `json:"alive"`
	// PID is the process's on the machine; 0 when there is none, or nobody knows yet.
	PID int `json:"pid,omitempty"`
	// Scripted means that it follows a script, and never has a process.
	Scripted bool `json:"scripted,omitempty"`
	Times
	// Code is its exit code, 0 to 255.
	Code int32 `json:"code,omitempty"`
	// Unreachable means that no signal can be sent to it.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Times are when what has happened to a container did.
type Times struct {
	Started time.Time `json:"started,omitzero"`
	// Signaled is when the stop signal was sent, Killed when SIGKILL was, first.
	Signaled time.Time `json:"signaled,omitzero"`
	Killed   time.Time `json:"killed,omitzero"`
	Exited   time.Time `json:"exited,omitzero"`
}

// Moved is the same as a clock shows it that is so far ahead of the one that it is by.
func (t Times) Moved(ahead time.Duration) Times {
	return Times{
		Started: Moved(t.Started, ahead), Signaled: Moved(t.Signaled, ahead), Killed: Moved(t.Killed, ahead), Exited: Moved(t.Exited, ahead),
	}
}

// Moved is an instant as a clock shows it that is so far ahead of the one that it is by: what a
// process tells is as long before what its clock shows as it was, whatever that showed then. The
// zero time, of what has not happened, stays zero.
func Moved(at time.Time, ahead time.Duration) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(ahead)
}

// Controllers is what the process of the controllers says.
type Controllers struct {
	Self
	// Running are the names of the controllers that run.
	Running []string `json:"running"`
}

// APIServer is what an apiserver says.
type APIServer struct {
	Self
	Revision int64 `json:"revision"`
	// Writing is since when a commit has waited for the disk; zero when none does.
	Writing time.Time `json:"writing,omitzero"`
	// Refused are requests that were refused lately, the last of each kind.
	Refused []Refusal `json:"refused,omitempty"`
}

// Bus is what the cluster's network says: what a switch knows of its own ports.
type Bus struct {
	Self
	Links []Link `json:"links"`
}

// Moved is the same as a clock shows it that is so far ahead of the network's.
func (b Bus) Moved(ahead time.Duration) Bus {
	b.Self, b.Links = b.moved(ahead), slices.Clone(b.Links)
	for i, l := range b.Links {
		b.Links[i].Since = Moved(l.Since, ahead)
	}
	return b
}

// Link is the way between one party and all others.
type Link struct {
	// Party is whose link it is: a node, apiserver, controllers, gateway.
	Party string `json:"party"`
	// Silent says in words which direction carries nothing at present, and Since when that
	// began; empty for a link that carries.
	Silent string    `json:"silent,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Answer is what a process said, or that it said nothing.
type Answer[T any] struct {
	// At is when it was heard, or not.
	At time.Time `json:"at"`
	// Took is how long that took: it was said so much before at most.
	Took time.Duration `json:"took,omitempty"`
	// Said is nil when there was no answer.
	Said *T `json:"said,omitempty"`
	// Err is why there was none.
	Err string `json:"err,omitempty"`
}

// Asked reports whether the process was asked at all.
func (a Answer[T]) Asked() bool { return a.Said != nil || a.Err != "" }

// Silent reports whether the process was asked and did not answer.
func (a Answer[T]) Silent() bool { return a.Said == nil && a.Err != "" }
