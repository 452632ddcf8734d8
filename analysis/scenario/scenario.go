// Package scenario plays a story in a cluster and checks that it goes as told: objects are
// applied, things are broken, something is deleted, and what people and programs then see
// is compared with what the file says. The files in chaos/scenarios are documentation as
// much as tests: each says in two sentences what it shows.
//
//	scenario.go  what a file can say
//	parse.go     reads one, strictly
//	world.go     what a scenario asks of the cluster that it plays in
//	player.go    plays the steps one after the other
//	act.go       the steps that change something
//	expect.go    the step that only looks
//	like.go      compares what is with what was wanted (pure)
//	report.go    what became of it, also as JUnit
//
// # Time
//
// Every duration is in the cluster's time. A step ends when it is done: nothing waits for a
// time that has not been written down.
package scenario

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/partition"
)

// Scenario is a story.
type Scenario struct {
	// Name is a DNS label, such as stk-06.
	Name string `json:"scenario"`
	// Title says in one line what happens.
	Title string `json:"title"`
	// About says in two sentences what it shows.
	About string `json:"about"`
	// Cluster is what the scenario needs; whoever plays it brings it.
	Cluster Cluster `json:"cluster,omitzero"`
	// Steps are played in order. The first that fails ends the scenario.
	Steps []Step `json:"steps"`
}

// Cluster is what a scenario needs to be played in.
type Cluster struct {
	// Nodes is how many there are at least, named node-1 and so on; 1 when zero.
	Nodes int `json:"nodes,omitempty"`
	// Controllers says which run, as --controllers; all when empty.
	Controllers []string `json:"controllers,omitempty"`
	// DisableAdmission are admission plugins to leave out.
	DisableAdmission []string `json:"disableAdmission,omitempty"`
}

// Step is one thing that is done, or looked at. Exactly one of the fields from Apply on is
// set.
type Step struct {
	// Say is told before the step.
	Say string `json:"say,omitempty"`
	// Breaks says that the step is a part of what is wrong, although it is no break: a
	// finalizer that is added, say.
	Breaks bool `json:"breaks,omitempty"`
	// Unbroken is what to apply in place of Apply where nothing is to be wrong.
	Unbroken string `json:"unbroken,omitempty"`

	// Apply is a manifest of one or more objects.
	Apply  string  `json:"apply,omitempty"`
	Delete *Delete `json:"delete,omitempty"`
	Evict  *Evict  `json:"evict,omitempty"`
	Patch  *Patch  `json:"patch,omitempty"`
	Break  *Break  `json:"break,omitempty"`
	Mend   *Mend   `json:"mend,omitempty"`
	// Remember gives the UIDs of objects names: pod/web: first.
	Remember map[Ref]string `json:"remember,omitempty"`
	// Wait lets time pass.
	Wait   *metav1.Duration `json:"wait,omitempty"`
	Expect *Expect          `json:"expect,omitempty"`
}

// Delete is a DELETE, as kubectl sends it.
type Delete struct {
	Object Ref `json:"object"`
	// Grace in seconds; without it the object's own.
	Grace *int64 `json:"grace,omitempty"`
	// Propagation is Background, Foreground or Orphan.
	Propagation metav1.DeletionPropagation `json:"propagation,omitempty"`
	// Refused is a part of the error that is wanted in place of success.
	Refused string `json:"refused,omitempty"`
	// Background does not wait for the answer: what comes of it is for later steps to see.
	Background bool `json:"background,omitempty"`
}

// Evict asks for a pod's eviction.
type Evict struct {
	Object  Ref    `json:"object"`
	Refused string `json:"refused,omitempty"`
}

// Patch changes an object by a merge patch.
type Patch struct {
	Object      Ref             `json:"object"`
	Subresource string          `json:"subresource,omitempty"`
	Merge       json.RawMessage `json:"merge"`
	Refused     string          `json:"refused,omitempty"`
}

// Break breaks something. Exactly one field is set.
type Break struct {
	// Cut cuts links; it is named after its parties.
	Cut *partition.Spec `json:"cut,omitempty"`
	// Fault is a named fault.
	Fault *Fault `json:"fault,omitempty"`
	// Crash kills a process, such as kubelet/node-1, at once; Pause stops it where it is.
	Crash string `json:"crash,omitempty"`
	Pause string `json:"pause,omitempty"`
}

// Fault is a fault with its name.
type Fault struct {
	Name string     `json:"name"`
	Spec fault.Spec `json:"spec"`
}

// Mend undoes what Break did. Exactly one field is set.
type Mend struct {
	// Heal are the parties whose links are whole again.
	Heal []string `json:"heal,omitempty"`
	// Clear is the name of a fault.
	Clear string `json:"clear,omitempty"`
	// Start starts a process that was crashed; Resume lets a paused one go on.
	Start  string `json:"start,omitempty"`
	Resume string `json:"resume,omitempty"`
}

// Expect is what is to be seen. All that it says must be so at the same time.
type Expect struct {
	// Within is how long it may take to become so; a minute when zero.
	Within metav1.Duration `json:"within,omitzero"`
	// Stays is how long it must then stay so.
	Stays metav1.Duration `json:"stays,omitzero"`

	Object Ref `json:"object,omitempty"`
	// UID is a remembered name: that very object. With a leading ! any but that one.
	UID string `json:"uid,omitempty"`
	// Gone wants no such object, or, with UID, not that one.
	Gone bool `json:"gone,omitempty"`
	// Like is what the object holds, see [Like].
	Like map[string]any `json:"like,omitempty"`
	// Shows are columns as kubectl get prints them: STATUS: Terminating.
	Shows map[string]string `json:"shows,omitempty"`
	// Event is one about the object.
	Event *Event `json:"event,omitempty"`
	// Why are the blockers that podfall why names, all of them, in any order; an empty
	// list wants none.
	Why  *[]string `json:"why,omitempty"`
	Node *Node     `json:"node,omitempty"`
}

// Event is an event about an object.
type Event struct {
	Reason string `json:"reason"`
	// Message is a part of the message.
	Message string `json:"message,omitempty"`
}

// Node is what runs on a node and what was sent to it, whatever the API says.
type Node struct {
	// Pod is a remembered name.
	Pod string `json:"pod"`
	// Alive is how many containers of the pod run, on all nodes.
	Alive *int `json:"alive,omitempty"`
	// Signals are those that its containers were sent, in order.
	Signals *[]string `json:"signals,omitempty"`
	// KilledAfter is how long after the first signal the first SIGKILL came.
	KilledAfter *Range `json:"killedAfter,omitempty"`
}

// Range is a stretch of time, its ends included.
type Range struct {
	From metav1.Duration `json:"from"`
	To   metav1.Duration `json:"to"`
}
