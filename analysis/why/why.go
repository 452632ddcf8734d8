// Package why explains why an object that is being deleted still exists: what blocks it, since
// when, by which evidence, who must act, and what forcing would leave behind. It is pure: evidence
// in, findings out. It never sees which faults were injected. It concludes from what an observer
// can see, the API and the telemetry of the processes.
//
//	causes.go     every cause by name (STK-01 to STK-34), and what to do about it
//	evidence.go   what is known
//	pod.go        the order of the checks for a pod: finalizers, node, kubelet, runtime
//	node.go       what a silent node means
//	work.go       what a kubelet that answers is doing
//	job.go        why a Job keeps its failed pods
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
	// Object is kind/name: pod/web-0.
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	UID       string `json:"uid,omitempty"`
	// At is when the question was asked, by the clock of all times in the report. That is the
	// apiserver's clock, or the observer's if the apiserver did not answer.
	At time.Time `json:"at"`
	// Deleted is when the deletion was requested; zero if it was not.
	Deleted time.Time `json:"deleted,omitzero"`
	// State describes in a sentence how far the deletion is.
	State string `json:"state"`
	// Findings holds what the object waits for, the most important first. It is empty if the object
	// waits for nothing unusual.
	Findings []Finding `json:"findings"`
	// Below holds the reports of objects that this one waits for.
	Below []Report `json:"below,omitempty"`
	// Sources names where the evidence is from, and how old it is.
	Sources []Source `json:"sources"`
}

// Schema names the JSON form of a Report, which docs/why.schema.json describes.
const Schema = "podfall.io/why/v1"

// Finding is one thing that an object waits for.
type Finding struct {
	// ID is the cause's id in the catalogue, for example STK-06; empty if it has none.
	ID string `json:"id,omitempty"`
	// Name is the stable name of the cause for machines, for example node-cut-off.
	Name string `json:"name"`
	// Blocks is false for what only looks like a blocker.
	Blocks bool `json:"blocks"`
	// Since is when it began, as far as is known.
	Since time.Time `json:"since,omitzero"`
	// Cause describes the cause in a sentence.
	Cause string `json:"cause"`
	// Evidence holds what the cause was found by.
	Evidence []string `json:"evidence"`
	// Who must act, what Unblocks the object, and what Forcing would leave behind.
	Who      string `json:"who"`
	Unblocks string `json:"unblocks"`
	Forcing  string `json:"forcing"`
	// Maybe holds the ids of other causes that the evidence does not rule out.
	Maybe []string `json:"maybe,omitempty"`
}

// Title returns the id, if there is one, and the name.
func (f Finding) Title() string { return strings.TrimSpace(f.ID + " " + f.Name) }

// api is the source that always answers: without it there is an error instead of a report.
const api = "API"

// Source is the API or a process that was asked.
type Source struct {
	Name string `json:"name"`
	// AgeSeconds is the age of the answer, in cluster time.
	AgeSeconds float64 `json:"ageSeconds"`
	// Err says why there was no answer.
	Err string `json:"err,omitempty"`
}

// Blocked reports whether the object, or one that it waits for, is blocked.
func (r Report) Blocked() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Blocks }) ||
		slices.ContainsFunc(r.Below, Report.Blocked)
}

// Missing reports whether the API has no such object and no process has anything left of it.
func (r Report) Missing() bool { return r.UID == "" && len(r.Findings) == 0 }

// AllSilent reports whether processes were asked and none answered. Then the way to them is broken,
// and their silence means nothing.
func (r Report) AllSilent() bool {
	heard := func(s Source) bool { return s.Name != api && s.Err == "" }
	return len(r.Sources) > 1 && !slices.ContainsFunc(r.Sources, heard)
}

// IDs returns the ids of the findings as scenarios write them, for example stk-06. A finding
// without an id has its name.
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

// findings collects findings, each cause once.
type findings struct{ all []Finding }

// add adds a cause with its evidence. A cause that is there already gets the evidence.
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

// lastingFor returns in words how long something has lasted.
func lastingFor(now, then time.Time) string {
	if then.IsZero() || then.Sub(now) > askingSkew { // recorded by a clock that is ahead
		return "for an unknown time"
	}
	return fmt.Sprintf("for %v", max(now.Sub(then), 0).Round(time.Second))
}
