package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/history"
)

// Phase is a part of a pod's deletion: what the deletion waits for.
type Phase int

// The phases, in the order in which a deletion goes through them. No deletion has all.
const (
	Asked      Phase = iota // a delete is with the apiserver
	Marked                  // the kubelet has not heard of the mark
	Heard                   // the kubelet has, and no signal was sent
	Hooked                  // a preStop hook runs
	Stopping                // containers have their stop signal, and their grace
	Hurried                 // the same, after a delete with a shorter grace
	Killed                  // SIGKILL was sent, and something still runs
	Ended                   // nothing runs; volumes, sandbox and the last status are to come
	Reported                // the API has the terminal phase
	Confirming              // the final delete is on its way
	Held                    // confirmed; finalizers keep the object
	Orphaned                // the object is gone, and something still runs
	phaseCount              // how many there are
)

// String is the phase's name.
func (p Phase) String() string {
	return [phaseCount]string{
		"asked", "marked", "heard", "hooked", "stopping", "hurried", "killed", "ended", "reported", "confirming", "held", "orphaned",
	}[p]
}

// phaseSpan is the time that one pod was in one phase.
type phaseSpan struct {
	pod, node string // pod is namespace/name
	phase     Phase
	from, to  time.Time
}

// deletion is the state of one pod while a run's history is read.
type deletion struct {
	key, node string
	phase     Phase
	since     time.Time // zero while it is not being deleted
	grace     int64
	alive     map[string]bool // containers
	gone      bool
}

// phaseTracker reads a run's history in order, and tracks the phases of each deletion.
type phaseTracker struct {
	pods   map[string]*deletion // by uid
	asked  map[string]phaseSpan // by operation
	spells []phaseSpan
}

// phaseSpans returns the phases of all deletions of a run.
func phaseSpans(log history.Log) []phaseSpan {
	d := phaseTracker{pods: map[string]*deletion{}, asked: map[string]phaseSpan{}}
	for i := range log.Events {
		d.read(&log.Events[i])
	}
	return d.spells
}

func (d *phaseTracker) pod(uid string) *deletion {
	if d.pods[uid] == nil {
		d.pods[uid] = &deletion{alive: map[string]bool{}}
	}
	return d.pods[uid]
}

func (d *phaseTracker) read(e *history.Event) {
	began, ended := time.Unix(0, e.Began), time.Unix(0, e.Ended)
	switch fact := e.Fact.(type) {
	case history.OpCall:
		if fact.Verb == "delete" && fact.Resource == "pods" && fact.Subresource == "" {
			d.asked[e.Cause] = phaseSpan{pod: fact.Key, phase: Asked, from: began}
		}
	case history.OpReturn:
		if asked, is := d.asked[e.Cause]; is {
			delete(d.asked, e.Cause)
			asked.to = ended
			d.spells = append(d.spells, asked)
		}
	case history.Commit:
		if fact.Resource == "pods" {
			d.addCommit(d.pod(fact.UID), fact, ended)
		}
	case history.KubeletSee:
		if fact.Grace != nil {
			d.addSeen(d.pod(fact.UID), *fact.Grace, ended)
		}
	case history.KubeletFinal:
		if p := d.pod(fact.UID); !p.since.IsZero() && !p.gone {
			d.spells = append(d.spells, phaseSpan{p.key, p.node, Confirming, began, ended})
		}
	case history.Start:
		d.pod(fact.UID).alive[fact.Container] = true
	case history.PreStopBegin:
		d.setPhase(d.pod(fact.UID), Hooked, ended)
	case history.PreStopEnd:
		if p := d.pod(fact.UID); p.phase == Hooked {
			d.setPhase(p, Heard, ended)
		}
	case history.Signal:
		d.addSignal(d.pod(fact.UID), fact.Signal, ended)
	case history.Exit:
		d.addExit(d.pod(fact.UID), fact.Container, ended)
	}
}

// setPhase ends the current phase of a pod that is being deleted, and begins another.
func (d *phaseTracker) setPhase(p *deletion, phase Phase, at time.Time) {
	if p.since.IsZero() || p.gone && phase != Orphaned {
		return
	}
	d.end(p, at)
	p.phase, p.since = phase, at
}

func (d *phaseTracker) end(p *deletion, at time.Time) {
	if !p.since.IsZero() && at.After(p.since) {
		d.spells = append(d.spells, phaseSpan{p.key, p.node, p.phase, p.since, at})
	}
}

func (d *phaseTracker) addCommit(p *deletion, fact history.Commit, at time.Time) {
	p.key, p.node = fact.Key, fact.Node
	switch {
	case fact.Op == "DELETED":
		if p.since.IsZero() {
			p.since = at
		}
		d.end(p, at)
		p.gone, p.phase, p.since = true, Orphaned, at
		if len(p.alive) == 0 {
			p.since = time.Time{}
		}
	case fact.Deadline == nil:
	case p.since.IsZero():
		p.phase, p.since, p.grace = Marked, at, *fact.Grace
	case *fact.Grace == 0 && len(fact.Finalizers) > 0 && p.phase == Reported:
		d.setPhase(p, Held, at)
	case isTerminal(fact.Phase) && p.phase != Held && len(p.alive) == 0:
		d.setPhase(p, Reported, at)
	}
}

func isTerminal(phase string) bool {
	return phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
}

func (d *phaseTracker) addSeen(p *deletion, grace int64, at time.Time) {
	shorter := grace < p.grace
	p.grace = min(p.grace, grace)
	switch {
	case p.phase == Marked:
		d.setPhase(p, Heard, at)
	case p.phase == Stopping && shorter:
		d.setPhase(p, Hurried, at)
	}
}

func (d *phaseTracker) addSignal(p *deletion, signal string, at time.Time) {
	switch {
	case p.gone || len(p.alive) == 0:
	case signal == "SIGKILL":
		d.setPhase(p, Killed, at)
	case p.phase < Stopping:
		d.setPhase(p, Stopping, at)
	}
}

func (d *phaseTracker) addExit(p *deletion, container string, at time.Time) {
	delete(p.alive, container)
	switch {
	case len(p.alive) > 0:
	case p.gone:
		d.end(p, at)
		p.since = time.Time{}
	case p.phase < Ended:
		d.setPhase(p, Ended, at)
	}
}
