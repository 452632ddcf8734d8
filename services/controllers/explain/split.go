package explain

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
)

// unknownPod is a pod that left the API before its node had confirmed.
type unknownPod struct {
	identity, uid, node string
	// revision is the pod's last seen resourceVersion.
	revision string
	// surveyed pods had left before the controllers began. began is the start of the oldest
	// container that the node still has.
	surveyed bool
	began    time.Time
	// successors are the later incarnations that were seen.
	successors []*successor
}

// isOlderThan reports whether a pod is older than a known one with the same name. Surveyed pods are
// older than others, and among them the pod whose containers began first.
func (g *unknownPod) isOlderThan(other *unknownPod) bool {
	return g.surveyed && (!other.surveyed || !g.began.IsZero() && (other.began.IsZero() || g.began.Before(other.began)))
}

// successor is a later incarnation of an unknown pod's name.
type successor struct {
	uid, node string
	// window is open while both are alive, and else zero.
	window history.Window
	// older and younger are both states when both were last seen alive.
	older, younger runtimeState
}

// mayBeUnseenBy reports whether a kubelet that has seen pods up to a resourceVersion may not have
// seen this pod's creation. If the versions cannot be compared, it has.
func (g *unknownPod) mayBeUnseenBy(heard string) bool { return isBehind(heard, g.revision) }

// isBehind reports whether an observer that has seen pods up to a resourceVersion may not have seen
// another one yet. If the versions cannot be compared, it has.
func isBehind(heard, of string) bool {
	if heard == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(heard, of)
	return err == nil && order < 0
}

// addSuccessor records a pod with the same name.
func (g *unknownPod) addSuccessor(uid, node string) {
	known := slices.ContainsFunc(g.successors, func(s *successor) bool { return s.uid == uid })
	if !known && uid != g.uid && node != "" {
		g.successors = append(g.successors, &successor{uid: uid, node: node})
	}
}

// runtimeState is what a runtime has of one incarnation.
type runtimeState struct {
	uid string
	// alive is whether a container runs. kept is whether the node may run one again: it has a
	// container that ended, or its kubelet still knows the pod.
	alive, kept bool
	// runningSince is the start of the time in which at least one container has run without a
	// break. lastExit is the last exit.
	runningSince, lastExit time.Time
}

// newRuntimeState summarizes the containers of a uid, in cluster time.
func newRuntimeState(runtime *inspect.Runtime, uid string) runtimeState {
	state := runtimeState{uid: uid}
	if runtime == nil {
		return state
	}
	var ran []inspect.Times
	for _, c := range runtime.Containers {
		if c.UID != uid {
			continue
		}
		state.kept = true
		if c.Started.IsZero() {
			continue
		}
		c.Times = c.Shift(-runtime.ClockOffset)
		ran = append(ran, c.Times)
		if c.Alive && (!state.alive || c.Started.Before(state.runningSince)) {
			state.runningSince, state.alive = c.Started, true
		}
		if c.Exited.After(state.lastExit) {
			state.lastExit = c.Exited
		}
	}
	slices.SortFunc(ran, func(a, b inspect.Times) int { return b.Started.Compare(a.Started) })
	for _, c := range ran {
		if state.alive && c.Started.Before(state.runningSince) && !c.Exited.Before(state.runningSince) {
			state.runningSince = c.Started
		}
	}
	return state
}

// updateWindows compares the runtimes' states of the pod and its successors. It returns the windows
// to record, and whether the pod is over. A successor whose runtime does not answer is not in
// younger, and its state is unknown.
func (g *unknownPod) updateWindows(older runtimeState, younger map[string]runtimeState, now time.Time) (windows []history.Window, over bool) {
	for _, s := range g.successors {
		other, seen := younger[s.uid]
		if !seen && older.alive {
			continue // an unreachable pod may still run
		}
		both := older.alive && other.alive
		if s.window.Identity != "" && (!both || older.restartedSince(s.older) || other.restartedSince(s.younger)) {
			ended := s.window
			ended.End = new(s.overlapEnd(older, other, now))
			windows, s.window = append(windows, ended), history.Window{}
		}
		if !both {
			continue
		}
		if s.older, s.younger = older, other; s.window.Identity == "" {
			begin := other.runningSince
			if older.runningSince.After(begin) {
				begin = older.runningSince
			}
			s.window = history.Window{Identity: g.identity, UIDs: []string{g.uid, s.uid}, Begin: begin}
			windows = append(windows, s.window)
		}
	}
	return windows, !older.alive && !older.kept
}

// restartedSince reports whether a live incarnation was dead for a while since the state seen:
// another container has ended since, and one has begun after that. It compares no clocks.
func (l runtimeState) restartedSince(seen runtimeState) bool {
	return l.alive && l.lastExit.After(seen.lastExit) && l.runningSince.After(l.lastExit)
}

// overlapEnd is when the first of both ended, as far as their runtimes still know.
func (s *successor) overlapEnd(older, younger runtimeState, now time.Time) time.Time {
	var end time.Time
	for _, is := range []struct{ now, seen runtimeState }{{older, s.older}, {younger, s.younger}} {
		ended := !is.now.alive || is.now.restartedSince(is.seen)
		if ended && !is.now.lastExit.IsZero() && (end.IsZero() || is.now.lastExit.Before(end)) {
			end = is.now.lastExit
		}
	}
	return cmp.Or(end, now)
}
