// Package why says why an object that is being deleted is still there: what blocks it,
// since when, by which evidence, who must act, and what forcing would leave behind. It
// is pure: evidence in, findings out. It is never told what was broken on purpose; it
// concludes from what an observer can see, the API and the telemetry of the processes.
//
//	causes.go     every cause by name (STK-01 to STK-34), and what to do about it
//	evidence.go   what is known
//	pod.go        the order of the questions for a pod: finalizers, node, kubelet, runtime
//	node.go       what a node's silence means
//	work.go       what a kubelet that answers is at
//	job.go        what a Job keeps its failed pods for
//	object.go     namespaces, claims, nodes and workloads
//	gather/       collects evidence from a cluster
package why

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Report is the answer for one object.
type Report struct {
	// Object is kind/name as people write it: pod/web-0.
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	// At is when the question was asked, by the clock of all times here: what the apiserver said it
	// shows, or the observer's where it did not answer.
	At time.Time `json:"at"`
	// Deleted is when its deletion was asked for; zero when it was not.
	Deleted time.Time `json:"deleted,omitzero"`
	// State says in a sentence how far the object is.
	State string `json:"state"`
	// Findings are what it waits for, the most important first; none when it waits for
	// nothing out of the ordinary.
	Findings []Finding `json:"findings"`
	// Below are the reports of objects that this one waits for.
	Below []Report `json:"below,omitempty"`
	// Sources are whom the evidence is from, and how old it is.
	Sources []Source `json:"sources"`
}

// Schema names the form of a Report in JSON, which docs/why.schema.json describes.
const Schema = "podfall.io/why/v1"

// Finding is one thing that an object waits for.
type Finding struct {
	// ID is the cause's in the catalogue: STK-06; empty for what is none of its rows.
	ID string `json:"id,omitempty"`
	// Name is the cause's for machines, and never changes: node-cut-off.
	Name string `json:"name"`
	// Blocks is false for what looks like a blocker and is none.
	Blocks bool `json:"blocks"`
	// Since is when it began, as far as is known.
	Since time.Time `json:"since,omitzero"`
	// Cause is what it means, in a sentence.
	Cause string `json:"cause"`
	// Evidence is by what it was found.
	Evidence []string `json:"evidence"`
	// Who must act, what Unblocks it, and what Forcing would leave behind.
	Who      string `json:"who"`
	Unblocks string `json:"unblocks"`
	Forcing  string `json:"forcing"`
	// Maybe are the IDs of other causes that the evidence does not rule out.
	Maybe []string `json:"maybe,omitempty"`
}

// Title is how people are told of it: by its ID, if it has one, and its name.
func (f Finding) Title() string { return strings.TrimSpace(f.ID + " " + f.Name) }

// api is the witness that is always heard: a report without it is an error.
const api = "API"

// Source is one witness: the API, or a process.
type Source struct {
	Name string `json:"name"`
	// AgeSeconds is how old its word is, in cluster time.
	AgeSeconds float64 `json:"ageSeconds"`
	// Err is why it said nothing.
	Err string `json:"err,omitempty"`
}

// Blocked reports whether the object, or one that it waits for, is blocked.
func (r Report) Blocked() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Blocks }) ||
		slices.ContainsFunc(r.Below, Report.Blocked)
}

// Missing reports whether the API has no such object, and nothing is left of it that could be told.
func (r Report) Missing() bool { return r.UID == "" && len(r.Findings) == 0 }

// Unheard reports whether processes were asked and none has answered: it is the way to them that
// is broken, and their silence says nothing.
func (r Report) Unheard() bool {
	heard := func(s Source) bool { return s.Name != api && s.Err == "" }
	return len(r.Sources) > 1 && !slices.ContainsFunc(r.Sources, heard)
}

// IDs are those of the findings, as scenarios write them: stk-06. A finding that is in no
// row of the catalogue is there with its name.
func (r Report) IDs() []string {
	var ids []string
	for _, f := range r.Findings {
		id := strings.ToLower(f.ID)
		if id == "" {
			id = f.Name
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// findings collects, and keeps each cause once.
type findings struct{ all []Finding }

// add notes a cause with its evidence. A cause that is noted already gets more of it.
func (f *findings) add(c Cause, since time.Time, evidence ...string) *Finding {
	for i := range f.all {
		if f.all[i].Name == c.Name {
			f.all[i].Evidence = append(f.all[i].Evidence, evidence...)
			return &f.all[i]
		}
	}
	f.all = append(f.all, Finding{
		ID: c.ID, Name: c.Name, Blocks: !c.Harmless, Since: since, Cause: c.Means, Evidence: evidence,
		Who: c.Who, Unblocks: c.Unblocks, Forcing: c.Forcing,
	})
	return &f.all[len(f.all)-1]
}

// ago words how long something has lasted.
func ago(now, then time.Time) string {
	if then.IsZero() || then.Sub(now) > asking { // written down by a clock that is ahead
		return "for an unknown time"
	}
	return fmt.Sprintf("for %v", max(now.Sub(then), 0).Round(time.Second))
}
