// Package windows finds split-brain windows in a history: times during which containers
// of two incarnations of one identity were alive (HAZ-02). It is pure.
//
// A pod's identity is its namespace and name: that is what a StatefulSet promises to have
// at most once.
package windows

import (
	"cmp"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
)

// Window is a time during which two incarnations of one identity were alive.
type Window struct {
	// Identity is namespace/name.
	Identity string `json:"identity"`
	// Lives are the two, the older first.
	Lives [2]Life `json:"lives"`
	// Begin is when the younger was started while the older was alive; End is when the
	// first of them ended, nil while both are alive.
	Begin time.Time  `json:"begin"`
	End   *time.Time `json:"end,omitempty"`
	// Took is how long, in seconds, until End or until now, by the machine's monotonic
	// clock at the cluster's speed.
	Took float64 `json:"tookSeconds"`
}

// Open reports whether both are alive.
func (w Window) Open() bool { return w.End == nil }

// Life is one incarnation on one node.
type Life struct {
	UID  string `json:"uid"`
	Node string `json:"node"`
	// Containers are the ids of its containers, and PIDs their processes where known.
	Containers []string `json:"containers"`
	PIDs       []int    `json:"pids,omitempty"`
	// Scripted says how many of the containers follow a script, and have no process.
	Scripted int `json:"scripted,omitempty"`
}

// life is an incarnation as the history tells it.
type life struct {
	Life

	identity   string
	born, died time.Time // died is zero while one of its containers is alive
	alive      map[string]bool
}

// Find finds every window in events that are in order, as of now.
func Find(events []history.Event, now time.Time) []Window {
	var windows []Window
	byIdentity := map[string][]*life{}
	for _, l := range lives(events) {
		byIdentity[l.identity] = append(byIdentity[l.identity], l)
	}
	for _, all := range byIdentity {
		slices.SortStableFunc(all, func(a, b *life) int { return a.born.Compare(b.born) })
		for i, older := range all {
			for _, younger := range all[i+1:] {
				if w, both := overlap(older, younger, now); both {
					windows = append(windows, w)
				}
			}
		}
	}
	slices.SortFunc(windows, func(a, b Window) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Lives[1].UID, b.Lives[1].UID))
	})
	return windows
}

// overlap is when both were alive.
func overlap(older, younger *life, now time.Time) (Window, bool) {
	if !older.died.IsZero() && !older.died.After(younger.born) {
		return Window{}, false
	}
	w := Window{Identity: older.identity, Lives: [2]Life{older.Life, younger.Life}, Begin: younger.born}
	end := now
	for _, died := range []time.Time{older.died, younger.died} {
		if !died.IsZero() && died.Before(end) {
			end = died
			w.End = &end
		}
	}
	w.Took = end.Sub(w.Begin).Seconds()
	return w, true
}

// lives are the incarnations that the runtimes have written down, as they are first told of: what
// is found started was born before.
func lives(events []history.Event) []*life {
	byUID := map[string]*life{}
	var all []*life
	begin := func(e history.Event, of history.ContainerRef, at time.Time) *life {
		l := byUID[of.UID]
		if l == nil {
			l = &life{Life: Life{UID: of.UID, Node: nodeOf(e.Process)}, identity: of.Pod, born: at, alive: map[string]bool{}}
			byUID[of.UID] = l
			all = append(all, l)
		}
		return l
	}
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.Start:
			begin(e, fact.ContainerRef, e.Wall).begin(fact)
		case history.Recover:
			if l := byUID[fact.UID]; l != nil && slices.Contains(l.Containers, fact.Container) {
				continue // its start was told of
			}
			begin(e, fact.ContainerRef, fact.Started).begin(history.Start{ContainerRef: fact.ContainerRef, Scripted: fact.Scripted})
		case history.Process:
			if l := byUID[fact.UID]; l != nil && !slices.Contains(l.PIDs, fact.PID) {
				l.PIDs = append(l.PIDs, fact.PID)
			}
		case history.Exit:
			if l := byUID[fact.UID]; l != nil {
				l.end(fact.Container, e.Wall)
			}
		}
	}
	return all
}

// begin has a container live from its start on.
func (l *life) begin(start history.Start) {
	l.alive[start.Container] = true
	l.died = time.Time{}
	l.Containers = append(l.Containers, start.Container)
	if start.Scripted {
		l.Scripted++
	}
}

// end has a container end; with the last one the incarnation does.
func (l *life) end(container string, at time.Time) {
	delete(l.alive, container)
	if len(l.alive) == 0 {
		l.died = at
	}
}

// nodeOf is the node of a runtime's process: runtime/node-1.
func nodeOf(process string) string {
	for i := range process {
		if process[i] == '/' {
			return process[i+1:]
		}
	}
	return process
}
