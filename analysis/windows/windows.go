// Package windows finds split-brain windows in a history: times during which containers of two
// incarnations of one pod name were alive (HAZ-02). It is pure.
//
// The identity of a pod is its namespace and name. A StatefulSet guarantees at most one running pod
// per identity.
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
	// Incarnations holds the two, the older first.
	Incarnations [2]Incarnation `json:"lives"`
	// Begin is when the younger was started while the older was alive. End is when the first of
	// them ended; nil while both are alive.
	Begin time.Time  `json:"begin"`
	End   *time.Time `json:"end,omitempty"`
	// Took is the length in seconds until End or until now, by the machine's monotonic clock at the
	// cluster's speed.
	Took float64 `json:"tookSeconds"`
}

// Open reports whether both incarnations are alive.
func (w Window) Open() bool { return w.End == nil }

// Incarnation is one incarnation of a pod on one node.
type Incarnation struct {
	UID  string `json:"uid"`
	Node string `json:"node"`
	// Containers holds the ids of its containers, and PIDs their processes if known.
	Containers []string `json:"containers"`
	PIDs       []int    `json:"pids,omitempty"`
	// Scripted counts the containers that follow a script and have no process.
	Scripted int `json:"scripted,omitempty"`
}

// incarnation is an Incarnation while the events are read.
type incarnation struct {
	Incarnation

	identity   string
	born, died time.Time // died is zero while one of its containers is alive
	alive      map[string]bool
}

// Find returns every window in a sorted history, as of now.
func Find(events []history.Event, now time.Time) []Window {
	var windows []Window
	byIdentity := map[string][]*incarnation{}
	for _, l := range findIncarnations(events) {
		byIdentity[l.identity] = append(byIdentity[l.identity], l)
	}
	for _, all := range byIdentity {
		slices.SortStableFunc(all, func(a, b *incarnation) int { return a.born.Compare(b.born) })
		for i, older := range all {
			for _, younger := range all[i+1:] {
				if w, both := overlap(older, younger, now); both {
					windows = append(windows, w)
				}
			}
		}
	}
	slices.SortFunc(windows, func(a, b Window) int {
		return cmp.Or(a.Begin.Compare(b.Begin), cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Incarnations[1].UID, b.Incarnations[1].UID))
	})
	return windows
}

// overlap returns the time during which both were alive; false if there is none.
func overlap(older, younger *incarnation, now time.Time) (Window, bool) {
	if !older.died.IsZero() && !older.died.After(younger.born) {
		return Window{}, false
	}
	w := Window{Identity: older.identity, Incarnations: [2]Incarnation{older.Incarnation, younger.Incarnation}, Begin: younger.born}
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

// findIncarnations returns the incarnations that the runtimes recorded, in the order of their first
// events. One that was found running was born earlier than that.
func findIncarnations(events []history.Event) []*incarnation {
	byUID := map[string]*incarnation{}
	var all []*incarnation
	begin := func(e history.Event, of history.ContainerRef, at time.Time) *incarnation {
		l := byUID[of.UID]
		if l == nil {
			l = &incarnation{Incarnation: Incarnation{UID: of.UID, Node: nodeOf(e.Process)}, identity: of.Pod, born: at, alive: map[string]bool{}}
			byUID[of.UID] = l
			all = append(all, l)
		}
		return l
	}
	for _, e := range events {
		switch fact := e.Fact.(type) {
		case history.Start:
			begin(e, fact.ContainerRef, e.Wall).addStart(fact)
		case history.Recover:
			if l := byUID[fact.UID]; l != nil && slices.Contains(l.Containers, fact.Container) {
				continue // its start was recorded
			}
			begin(e, fact.ContainerRef, fact.Started).addStart(history.Start{ContainerRef: fact.ContainerRef, Scripted: fact.Scripted})
		case history.Process:
			if l := byUID[fact.UID]; l != nil && !slices.Contains(l.PIDs, fact.PID) {
				l.PIDs = append(l.PIDs, fact.PID)
			}
		case history.Exit:
			if l := byUID[fact.UID]; l != nil {
				l.addExit(fact.Container, e.Wall)
			}
		}
	}
	return all
}

// addStart adds a container that starts.
func (l *incarnation) addStart(start history.Start) {
	l.alive[start.Container] = true
	l.died = time.Time{}
	l.Containers = append(l.Containers, start.Container)
	if start.Scripted {
		l.Scripted++
	}
}

// addExit ends a container. With the last container the incarnation ends.
func (l *incarnation) addExit(container string, at time.Time) {
	delete(l.alive, container)
	if len(l.alive) == 0 {
		l.died = at
	}
}

// nodeOf returns the node of a runtime process: runtime/node-1.
func nodeOf(process string) string {
	for i := range process {
		if process[i] == '/' {
			return process[i+1:]
		}
	}
	return process
}
