// Package fault injects faults. A Fault says what goes wrong, where and how often. A Table holds
// the faults of one process. The process asks its Table at each injection point.
//
//	podfall fault add, kind: Fault ──> fault state ──> Table.Set   (a cluster of processes)
//	podfalltest's AddFault ──────────────────────────> Table.Set   (a cluster in a test)
//
//	Table.Inject      waits, or returns the injected error        cri.*, volume.*, api.request, …
//	Table.FindEffect  other effects: a dropped reply, a lie …     watch.deliver, node.pressure, …
//
// Points lists the injection points and their possible effects; docs/faults.md is generated from
// it. [Fault.triggers] decides whether a fault takes effect. It is pure; a seed makes chance
// repeatable.
//
// A nil *Table has no faults, so that callers need no nil check.
package fault

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is one injected fault.
type Fault struct {
	// Name is the fault's name: a DNS subdomain.
	Name string `json:"name"`
	Spec Spec   `json:"spec"`
	// Since is when the fault was added, and Until when it expires; zero means never. Both are
	// cluster time.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Owner is the UID of the API object that defines the fault; empty without one.
	Owner string `json:"owner,omitempty"`
}

// Spec is what goes wrong, where, and how often. It is the spec of the kind Fault.
type Spec struct {
	// Point is one of [Points], or a prefix and a *, for example cri.*.
	Point Point `json:"point"`
	// Where selects actions at the point; an empty Where selects all.
	Where Attributes `json:"where,omitzero"`
	// Effect is what happens instead of the action.
	Effect Effect `json:"effect"`

	// Probability is the chance that a selected action is affected, up to 1; 0 means always. The
	// Seed, the fault's name and the action determine the outcome.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
	// Skip leaves the first so many actions alone, and Count affects so many at most; 0 means no
	// limit. Each process counts for itself.
	Skip  uint64 `json:"skip,omitempty"`
	Count uint64 `json:"count,omitempty"`
	// Duration is how long the fault lasts in cluster time; 0 means until it is cleared.
	Duration metav1.Duration `json:"duration,omitzero"`
}

// Attributes describe an action at a point. In a [Spec] they select actions: an empty field selects
// everything, a * at the end matches any suffix, and commas separate alternatives.
type Attributes struct {
	// Process is the process of the [Table], for example apiserver or kubelet/node-1. The table
	// sets it, and Node too if the process belongs to a node.
	Process string `json:"process,omitempty"`
	// Node is the node of the action, or the node that a client acts for.
	Node string `json:"node,omitempty"`
	// Namespace and Name are those of the object; for a container, those of the pod.
	Namespace string `json:"namespace,omitempty"`
	// Pod and Container are API names.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Volume    string `json:"volume,omitempty"`
	Image     string `json:"image,omitempty"`
	// Client is the requester: a bus identity, for example node:node-1 or controllers. Requests of
	// one controller have controllers/ and its name. Requests through the gateway have gateway/ and
	// the program's name.
	Client string `json:"client,omitempty"`
	// Verb is the API verb, for example patch. At engine.signal it is the signal, for example
	// SIGKILL.
	Verb string `json:"verb,omitempty"`
	// Resource is plural, with its group: pods, leases.coordination.k8s.io.
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

// Kind is a kind of effect.
type Kind string

// The effects. [Table.Inject] applies the first four, [Table.FindEffect] finds the others.
const (
	// Error fails the action with the effect's code and message.
	Error Kind = "error"
	// Hang waits until the fault is over or the caller gives up.
	Hang Kind = "hang"
	// Delay waits for the effect's delay, in cluster time.
	Delay Kind = "delay"
	// Crash kills the process at once.
	Crash Kind = "crash"
	// Drop loses what would be delivered: a reply, an event, a signal.
	Drop Kind = "drop"
	// Duplicate delivers twice.
	Duplicate Kind = "duplicate"
	// Expire ends a watch with 410 Gone.
	Expire Kind = "expire"
	// Lie reports success and does nothing.
	Lie Kind = "lie"
	// Value replaces the value that the point reads.
	Value Kind = "value"
)

// Effect is what a fault does.
type Effect struct {
	Kind Kind `json:"type"`
	// Code is the code of an error: a gRPC code name at cri.*, an HTTP status at api.request.
	Code string `json:"code,omitempty"`
	// Message is the text of an error; there is a default.
	Message string          `json:"message,omitempty"`
	Delay   metav1.Duration `json:"delay,omitzero"`
	Value   string          `json:"value,omitempty"`
}

// Injected is an injected error. The injection point converts it to the form that its callers
// expect.
type Injected struct { //nolint:errname // what was injected, not what went wrong
	// Fault is the fault's name.
	Fault string
	// Code and Message are those of the effect.
	Code, Message string
}

// Error implements error.
func (e *Injected) Error() string { return e.Message }

// New returns a fault that begins now, or an error that names the invalid fields.
func New(name string, spec Spec, now time.Time) (Fault, error) {
	if err := Check(name, spec); err != nil {
		return Fault{}, err
	}
	f := Fault{Name: name, Spec: spec, Since: now}
	if spec.Duration.Duration > 0 {
		f.Until = now.Add(spec.Duration.Duration)
	}
	return f, nil
}

// injectedError returns the error of the fault's effect.
func (f Fault) injectedError() *Injected {
	text := f.Spec.Effect.Message
	if text == "" {
		text = fmt.Sprintf("fault %q was injected", f.Name)
	}
	return &Injected{Fault: f.Name, Code: f.Spec.Effect.Code, Message: text}
}
