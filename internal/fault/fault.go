// Package fault is what is broken on purpose: a Fault says what goes wrong, where and how
// often, and a Table is what a process asks, at the points where something can go wrong,
// whether it does.
//
//	podfall fault add, kind: Fault ──> board ──> Table.Set      (a cluster of processes)
//	podfalltest's AddFault ────────────────────> Table.Set      (a cluster in a test)
//
//	Table.Pass   waits, or returns the injected error           cri.*, volume.*, api.request, …
//	Table.Find   what else is wrong: a reply dropped, a lie …   watch.deliver, node.pressure, …
//
// Points says which points there are and what each can suffer; docs/faults.md is made of
// it. Whether a fault strikes is [Fault.strikes], which is pure; a seed makes chance the
// same in every run.
//
// A nil *Table is one in which nothing is broken: whoever asks need not know.
package fault

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is one thing that goes wrong.
type Fault struct {
	// Name is the fault's own, as an object is called: a DNS subdomain.
	Name string `json:"name"`
	Spec Spec   `json:"spec"`
	// Since is when it was added, and Until when it is over by itself; zero means never.
	// Both are in the cluster's time.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Owner is the UID of the object that it stands for; empty without one.
	Owner string `json:"owner,omitempty"`
}

// Spec is what goes wrong, where, and how often. It is the spec of a kind: Fault.
type Spec struct {
	// Point is where in the product: one of [Points], or the beginning of some and a *,
	// such as cri.*.
	Point Point `json:"point"`
	// Where selects among what happens there; the empty one is everything.
	Where About `json:"where,omitzero"`
	// Effect is what happens instead.
	Effect Effect `json:"effect"`

	// Probability is the chance that what is selected is struck, more than 0 and up to 1;
	// 0 means always. The Seed decides, with the fault's name and what is struck.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`
	// Skip lets so many pass at first, and Count strikes so many at most; 0 means no
	// limit. Each process counts for itself.
	Skip  uint64 `json:"skip,omitempty"`
	Count uint64 `json:"count,omitempty"`
	// Duration is how long the fault lasts, in the cluster's time; 0 means until it is
	// cleared.
	Duration metav1.Duration `json:"duration,omitzero"`
}

// About is what a point is asked about, and, in a [Spec], what is selected. There, an
// empty field selects everything, a * at the end stands for any rest, and commas separate
// alternatives.
type About struct {
	// Process is the one that the [Table] is of, such as apiserver or kubelet/node-1: the
	// table fills it in, and Node too where the process belongs to one.
	Process string `json:"process,omitempty"`
	// Node is where it happens, or the node that a client speaks for.
	Node string `json:"node,omitempty"`
	// Namespace and Name are the object's that it is about; of a container, the pod's.
	Namespace string `json:"namespace,omitempty"`
	// Pod and Container are names in the API.
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	Volume    string `json:"volume,omitempty"`
	Image     string `json:"image,omitempty"`
	// Client is who asks the apiserver: an identity of the bus, such as node:node-1 or
	// controllers; controllers/ and a name for what one controller asks, and gateway/ and
	// the program's name for who asks through the gateway.
	Client string `json:"client,omitempty"`
	// Verb is the API's, such as patch; of engine.signal the signal, such as SIGKILL.
	Verb string `json:"verb,omitempty"`
	// Resource is plural, with its group: pods, leases.coordination.k8s.io.
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
}

// Kind is a kind of effect.
type Kind string

// The effects. [Table.Pass] knows the first four, [Table.Find] the others.
const (
	// Error refuses, with the effect's code and message.
	Error Kind = "error"
	// Hang waits until the fault is over, or the caller gives up.
	Hang Kind = "hang"
	// Delay waits for the effect's delay, in the cluster's time.
	Delay Kind = "delay"
	// Crash kills the process, at once and without a word.
	Crash Kind = "crash"
	// Drop loses what would be delivered: a reply, an event, a signal.
	Drop Kind = "drop"
	// Duplicate delivers it twice.
	Duplicate Kind = "duplicate"
	// Expire says that the place in a watch is forgotten: 410 Gone.
	Expire Kind = "expire"
	// Lie says that something was done, and does not do it.
	Lie Kind = "lie"
	// Value is what the point reads in place of the truth.
	Value Kind = "value"
)

// Effect is what happens.
type Effect struct {
	Kind Kind `json:"type"`
	// Code is an error's: a gRPC code by name at cri.*, an HTTP status at api.request.
	Code string `json:"code,omitempty"`
	// Message is an error's text; there is one without it.
	Message string          `json:"message,omitempty"`
	Delay   metav1.Duration `json:"delay,omitzero"`
	Value   string          `json:"value,omitempty"`
}

// Injected is an error that a fault has put in the place of an answer. The point that it
// was met at gives it the form that its callers know.
type Injected struct { //nolint:errname // what was injected, not what went wrong
	// Fault is the fault's name.
	Fault string
	// Code and Message are the effect's.
	Code, Message string
}

// Error implements error.
func (e *Injected) Error() string { return e.Message }

// New is a fault that begins now, or an error that names the fields that are wrong.
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

// injected is the error of the fault's effect.
func (f Fault) injected() *Injected {
	text := f.Spec.Effect.Message
	if text == "" {
		text = fmt.Sprintf("fault %q was injected", f.Name)
	}
	return &Injected{Fault: f.Name, Code: f.Spec.Effect.Code, Message: text}
}
