// Package scenario runs scripted scenarios in a cluster and checks their outcome. A scenario
// applies objects, injects faults and deletes something. Then it compares what users and programs
// observe with the file's expectations. The files in chaos/scenarios are documentation as much as
// tests: each says in two sentences what it shows.
//
//	scenario.go  the file format
//	parse.go     parses a file strictly
//	world.go     what a scenario needs of its cluster
//	player.go    runs the steps one after the other
//	act.go       the steps that change something
//	expect.go    the step that checks expectations
//	like.go      compares values with expectations (pure)
//	report.go    the result, also as JUnit
//
// # Time
//
// Every duration is cluster time. A step ends when it is done: there are no waits except those in
// the file.
package scenario

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/partition"
)

// Scenario is a sequence of steps in a cluster, with expectations.
type Scenario struct {
	// Name is a DNS label, for example stk-06.
	Name string `json:"scenario"`
	// Title says in one line what happens.
	Title string `json:"title"`
	// About says in two sentences what the scenario shows.
	About string `json:"about"`
	// Cluster is what the scenario requires of its cluster.
	Cluster Requirements `json:"cluster,omitzero"`
	// Steps run in order. The first failure ends the scenario.
	Steps []Step `json:"steps"`
}

// Requirements say which cluster a scenario needs.
type Requirements struct {
	// Nodes is the minimum number of nodes, named node-1 and so on; zero means 1.
	Nodes int `json:"nodes,omitempty"`
	// Controllers selects the controllers to run, like --controllers; empty means all.
	Controllers []string `json:"controllers,omitempty"`
	// DisableAdmission lists the admission plugins to disable.
	DisableAdmission []string `json:"disableAdmission,omitempty"`
}

// Step is one action or check. Exactly one of the fields from Apply on is set.
type Step struct {
	// Say is printed before the step.
	Say string `json:"say,omitempty"`
	// Breaks marks a step that is part of the fault although it is no break, for example adding a
	// finalizer.
	Breaks bool `json:"breaks,omitempty"`
	// Unbroken is applied instead of Apply if the scenario runs without faults.
	Unbroken string `json:"unbroken,omitempty"`

	// Apply is a manifest of one or more objects.
	Apply  string  `json:"apply,omitempty"`
	Delete *Delete `json:"delete,omitempty"`
	Evict  *Evict  `json:"evict,omitempty"`
	Patch  *Patch  `json:"patch,omitempty"`
	Break  *Break  `json:"break,omitempty"`
	Mend   *Mend   `json:"mend,omitempty"`
	// Remember names the UIDs of objects: pod/web: first.
	Remember map[Ref]string `json:"remember,omitempty"`
	// Wait lets time pass.
	Wait   *metav1.Duration `json:"wait,omitempty"`
	Expect *Expect          `json:"expect,omitempty"`
}

// Delete is a DELETE request, as kubectl sends it.
type Delete struct {
	Object Ref `json:"object"`
	// Grace in seconds; nil means the object's own.
	Grace *int64 `json:"grace,omitempty"`
	// Propagation is Background, Foreground or Orphan.
	Propagation metav1.DeletionPropagation `json:"propagation,omitempty"`
	// Refused is part of the expected error; empty expects success.
	Refused string `json:"refused,omitempty"`
	// Background does not wait for the answer. Later steps check the result.
	Background bool `json:"background,omitempty"`
}

// Evict requests the eviction of a pod.
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

// Break injects a fault. Exactly one field is set.
type Break struct {
	// Cut cuts links; the cut is named after its members.
	Cut *partition.Spec `json:"cut,omitempty"`
	// Fault is a named fault.
	Fault *Fault `json:"fault,omitempty"`
	// Crash kills a process, for example kubelet/node-1; Pause stops it with SIGSTOP.
	Crash string `json:"crash,omitempty"`
	Pause string `json:"pause,omitempty"`
}

// Fault is a named fault.
type Fault struct {
	Name string     `json:"name"`
	Spec fault.Spec `json:"spec"`
}

// Mend ends what a Break began. Exactly one field is set.
type Mend struct {
	// Heal lists the members to reconnect.
	Heal []string `json:"heal,omitempty"`
	// Clear is the name of a fault.
	Clear string `json:"clear,omitempty"`
	// Start starts a crashed process; Resume continues a paused one.
	Start  string `json:"start,omitempty"`
	Resume string `json:"resume,omitempty"`
}

// Expect describes what must be observed. All its parts must hold at the same time.
type Expect struct {
	// Within is how long the expectation may take to hold; zero means a minute.
	Within metav1.Duration `json:"within,omitzero"`
	// Stays is how long it must hold then.
	Stays metav1.Duration `json:"stays,omitzero"`

	Object Ref `json:"object,omitempty"`
	// UID is a remembered name: the object must have that UID. With a leading ! it must have
	// another.
	UID string `json:"uid,omitempty"`
	// Gone expects no such object, or, with UID, none with that UID.
	Gone bool `json:"gone,omitempty"`
	// Like lists expected fields of the object, see [Mismatches].
	Like map[string]any `json:"like,omitempty"`
	// Shows lists columns as kubectl get prints them: STATUS: Terminating.
	Shows map[string]string `json:"shows,omitempty"`
	// Event is an event about the object.
	Event *Event `json:"event,omitempty"`
	// Why lists all blockers that podfall why reports, in any order; an empty list expects none.
	Why  *[]string `json:"why,omitempty"`
	Node *Node     `json:"node,omitempty"`
}

// Event is an event about an object.
type Event struct {
	Reason string `json:"reason"`
	// Message is part of the message.
	Message string `json:"message,omitempty"`
}

// Node describes what runs on a node and which signals were sent, whatever the API says.
type Node struct {
	// Pod is a remembered name.
	Pod string `json:"pod"`
	// Alive is how many containers of the pod run on all nodes.
	Alive *int `json:"alive,omitempty"`
	// Signals are the signals sent to its containers, in order.
	Signals *[]string `json:"signals,omitempty"`
	// KilledAfter bounds the time from the first signal to the first SIGKILL.
	KilledAfter *Range `json:"killedAfter,omitempty"`
}

// Range is a range of durations, both ends included.
type Range struct {
	From metav1.Duration `json:"from"`
	To   metav1.Duration `json:"to"`
}
