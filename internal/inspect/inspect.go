// Package inspect defines what the processes of a cluster report about their internals: the kubelet
// its pod workers, the runtime its running containers, the apiserver its refused requests. It is
// telemetry, not the API: it uses the management connection, so that a node that is cut off can
// still be inspected.
//
// The types are plain values. Times are by the clock of the reporting process; zero times have not
// happened.
package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/metrics"
	"github.com/podfall/podfall/proto"
)

// Observers receive what a process does, and may query its state. The zero value is none.
type Observers[T any] struct {
	// History records what the process does.
	History *history.Recorder
	// Metrics counts what the process does; nil counts nothing.
	Metrics *metrics.Registry
	// Inspect is called once, when the process can be inspected, with the function that answers; it
	// may be nil.
	Inspect func(ask func(context.Context) T)
}

// ProvideInspect passes ask to Inspect, if set.
func (o Observers[T]) ProvideInspect(ask func(context.Context) T) {
	if o.Inspect != nil {
		o.Inspect(ask)
	}
}

// Self is what every process reports.
type Self struct {
	Process string     `json:"process"`
	Boot    proto.Boot `json:"boot"`
	// Began is when this boot began.
	Began time.Time `json:"began"`
	// Now is the process's clock at the time of the report.
	Now time.Time `json:"now"`
}

// ReportedAt returns the process's clock at the time of the report; zero if the report has none.
func (s Self) ReportedAt() time.Time { return s.Now }

// shift returns the report by a clock that is ahead of the process's by offset.
func (s Self) shift(offset time.Duration) Self {
	s.Began, s.Now = ShiftTime(s.Began, offset), ShiftTime(s.Now, offset)
	return s
}

// Contact is the state of a process's requests to another process.
type Contact struct {
	// Last is when the last answer arrived, refusals included.
	Last time.Time `json:"last,omitzero"`
	// Failing is since when no request was answered; zero if the last one was.
	Failing time.Time `json:"failing,omitzero"`
	// Err is the error of the last request without an answer.
	Err string `json:"err,omitempty"`
}

// Shift returns the times by a clock that is ahead by offset.
func (c Contact) Shift(offset time.Duration) Contact {
	c.Last, c.Failing = ShiftTime(c.Last, offset), ShiftTime(c.Failing, offset)
	return c
}

// Kubelet is the report of a kubelet.
type Kubelet struct {
	Self
	Node    string  `json:"node"`
	API     Contact `json:"api"`
	Runtime Contact `json:"runtime"`
	// Problems are why the kubelet considers its node not ready.
	Problems []string    `json:"problems,omitempty"`
	Pods     []PodWorker `json:"pods,omitempty"`
	// PodsRevision is the resourceVersion up to which the kubelet has processed pods from the API;
	// empty before its first list.
	PodsRevision string `json:"heard,omitempty"`
	// Calls are the runtime calls that have not returned yet.
	Calls []Call `json:"calls,omitempty"`
	// Refused are the kubelet's requests that the API refused: the last one of each pod.
	Refused []Refusal `json:"refused,omitempty"`
	// Orphans are leftovers of unknown pods.
	Orphans []Orphan `json:"orphans,omitempty"`
}

// Shift returns the report by a clock that is ahead of the kubelet's by offset.
func (k Kubelet) Shift(offset time.Duration) Kubelet {
	k.Self, k.API, k.Runtime = k.shift(offset), k.API.Shift(offset), k.Runtime.Shift(offset)
	k.Pods, k.Calls, k.Refused = slices.Clone(k.Pods), slices.Clone(k.Calls), slices.Clone(k.Refused)
	for i, w := range k.Pods {
		k.Pods[i].Since, k.Pods[i].First = ShiftTime(w.Since, offset), ShiftTime(w.First, offset)
	}
	for i, c := range k.Calls {
		k.Calls[i].Since = ShiftTime(c.Since, offset)
	}
	for i, r := range k.Refused {
		k.Refused[i].First, k.Refused[i].Last = ShiftTime(r.First, offset), ShiftTime(r.Last, offset)
	}
	return k
}

// PodWorker is the state of one pod's worker.
type PodWorker struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// State is Syncing, Stopping, Stopped or Confirming.
	State string `json:"state"`
	// Marked is set if the kubelet knows that the pod is being deleted.
	Marked bool `json:"marked,omitempty"`
	// Removed is set if the kubelet knows that the API has no pod with this UID.
	Removed bool `json:"removed,omitempty"`
	// Grace is the grace period of the current stop in seconds.
	Grace int64 `json:"grace,omitempty"`
	// Step is the current step, empty for none, and Since its beginning.
	Step  string    `json:"doing,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Err is why the last attempt failed, Failed how many attempts failed in a row, and First when
	// the first of them failed.
	Err    string    `json:"err,omitempty"`
	Failed int       `json:"failed,omitempty"`
	First  time.Time `json:"first,omitzero"`
}

// The steps of a pod worker.
const (
	StepSync       = "sync"
	StepStop       = "stop containers"
	StepUnmount    = "unmount volumes"
	StepRemoveDirs = "remove volume directories"
	StepCgroup     = "destroy cgroup"
)

// Call is a request without an answer yet.
type Call struct {
	// Method is a method of the Container Runtime Interface: StopContainer.
	Method string `json:"method"`
	// ID is the container or sandbox; empty for other calls.
	ID    string    `json:"id,omitempty"`
	Since time.Time `json:"since"`
}

// Refusal is a request that was refused repeatedly.
type Refusal struct {
	// Requester is empty if the reporting process made the request.
	Requester string `json:"who,omitempty"`
	Verb      string `json:"verb"`
	// Resource includes the subresource: pods/status.
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

// Orphan is a leftover of an unknown pod on a node.
type Orphan struct {
	UID string `json:"uid"`
	// What is left: volumes.
	What string `json:"what"`
	Err  string `json:"err,omitempty"`
}

// Runtime is the report of a container runtime.
type Runtime struct {
	Self
	// ClockOffset is how far the runtime's clock, which Now and the containers' times use, is ahead
	// of the cluster's.
	ClockOffset time.Duration `json:"ahead,omitempty"`
	Node        string        `json:"node"`
	// Programs describes how real programs run on this machine, and which isolation the machine
	// refuses; empty if none may run.
	Programs   string      `json:"programs,omitempty"`
	Containers []Container `json:"containers,omitempty"`
}

// Shift returns the report by a clock that is ahead of the runtime's by offset.
func (r Runtime) Shift(offset time.Duration) Runtime {
	r.Self, r.ClockOffset, r.Containers = r.shift(offset), r.ClockOffset+offset, slices.Clone(r.Containers)
	for i, c := range r.Containers {
		r.Containers[i].Times = c.Shift(offset)
	}
	return r
}

// Container is an existing container.
type Container struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	// Alive is set if the container's process runs, or is about to.
	Alive bool `json:"alive"`
	// PID is the process id on the machine; 0 if there is no process or its id is not known yet.
	PID int `json:"pid,omitempty"`
	// Scripted containers follow a script and have no process.
	Scripted bool `json:"scripted,omitempty"`
	Times
	// Code is the exit code, 0 to 255.
	Code int32 `json:"code,omitempty"`
	// Unreachable is set if no signal can be sent to the container.
	Unreachable bool `json:"unreachable,omitempty"`
}

// Times are the times of a container's events.
type Times struct {
	Started time.Time `json:"started,omitzero"`
	// Signaled is when the stop signal was first sent, and Killed when SIGKILL was.
	Signaled time.Time `json:"signaled,omitzero"`
	Killed   time.Time `json:"killed,omitzero"`
	Exited   time.Time `json:"exited,omitzero"`
}

// Shift returns the times by a clock that is ahead by offset.
func (t Times) Shift(offset time.Duration) Times {
	return Times{
		Started: ShiftTime(t.Started, offset), Signaled: ShiftTime(t.Signaled, offset), Killed: ShiftTime(t.Killed, offset), Exited: ShiftTime(t.Exited, offset),
	}
}

// ShiftTime converts at to a clock that is ahead by offset. A reported time stays as long before
// the report as it was, whatever that clock read then. The zero time, for events that have not
// happened, stays zero.
func ShiftTime(at time.Time, offset time.Duration) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(offset)
}

// Controllers is the report of the controllers' process.
type Controllers struct {
	Self
	// Running are the names of the running controllers.
	Running []string `json:"running"`
}

// APIServer is the report of an apiserver.
type APIServer struct {
	Self
	Revision int64 `json:"revision"`
	// Writing is since when a commit has waited for the disk; zero if none waits.
	Writing time.Time `json:"writing,omitzero"`
	// Refused are recently refused requests, the last of each kind.
	Refused []Refusal `json:"refused,omitempty"`
}

// Bus is the report of the bus: the state of its links, as a switch knows its ports.
type Bus struct {
	Self
	Links []Link `json:"links"`
}

// Shift returns the report by a clock that is ahead of the bus's by offset.
func (b Bus) Shift(offset time.Duration) Bus {
	b.Self, b.Links = b.shift(offset), slices.Clone(b.Links)
	for i, l := range b.Links {
		b.Links[i].Since = ShiftTime(l.Since, offset)
	}
	return b
}

// Link is the connection between one member and the hub.
type Link struct {
	// Member is the link's member: a node, apiserver, controllers, gateway.
	Member string `json:"party"`
	// Silent describes which direction carries nothing at present, and Since when that began; empty
	// for a link that carries.
	Silent string    `json:"silent,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Answer is a process's report, or the fact that there was none.
type Answer[T any] struct {
	// At is when the report arrived, or the query failed.
	At time.Time `json:"at"`
	// RoundTrip is how long the query took: the report is at most that old.
	RoundTrip time.Duration `json:"took,omitempty"`
	// Report is nil without an answer.
	Report *T `json:"said,omitempty"`
	// Err is why there was no answer.
	Err string `json:"err,omitempty"`
}

// WasAsked reports whether the process was queried.
func (a Answer[T]) WasAsked() bool { return a.Report != nil || a.Err != "" }

// IsSilent reports whether the process was queried and did not answer.
func (a Answer[T]) IsSilent() bool { return a.Report == nil && a.Err != "" }
