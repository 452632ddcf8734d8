package explain

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
)

// ghost is a pod that left the API before its node had confirmed.
type ghost struct {
	identity, uid, node string
	// revision is the resourceVersion that was seen of it last.
	revision string
	// takenUp is one that had left before anybody looked, and began when the first of its
	// containers that were still kept did.
	takenUp bool
	began   time.Time
	// successors are the incarnations that came after it, as far as they were seen.
	successors []*successor
}

// before reports whether a ghost was there before another of its name, which is known already:
// those that had left before anybody looked were, and among them whose containers began first.
func (g *ghost) before(other *ghost) bool {
	return g.takenUp && (!other.takenUp || !g.began.IsZero() && (other.began.IsZero() || g.began.Before(other.began)))
}

// successor is a later incarnation of a ghost's name.
type successor struct {
	uid, node string
	// window is open while both are alive; zero while they are not.
	window history.Window
	// older and younger are what both were when they were seen alive last.
	older, younger life
}

// unheard reports whether a kubelet that has heard of pods up to a resourceVersion may not have
// heard yet that the ghost was there. What cannot be compared is taken for heard.
func (g *ghost) unheard(heard string) bool { return unheard(heard, g.revision) }

// unheard reports whether who has heard of pods up to a resourceVersion may not have heard of
// another yet. What cannot be compared is taken for heard.
func unheard(heard, of string) bool {
	if heard == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(heard, of)
	return err == nil && order < 0
}

// follow notes the pod that has the ghost's name now.
func (g *ghost) follow(uid, node string) {
	known := slices.ContainsFunc(g.successors, func(s *successor) bool { return s.uid == uid })
	if !known && uid != g.uid && node != "" {
		g.successors = append(g.successors, &successor{uid: uid, node: node})
	}
}

// life is what a runtime has of one incarnation.
type life struct {
	uid string
	// alive reports whether a container of it runs, and kept whether its node may have one run
	// again: it has one that has ended, or its kubelet still knows it.
	alive, kept bool
	// from is since when one of its containers has run without a break, and to when the last
	// ended.
	from, to time.Time
}

// lifeOf sums the containers of a uid up, in the cluster's time.
func lifeOf(said *inspect.Runtime, uid string) life {
	l := life{uid: uid}
	if said == nil {
		return l
	}
	var ran []inspect.Times
	for _, c := range said.Containers {
		if c.UID != uid {
			continue
		}
		l.kept = true
		if c.Started.IsZero() {
			continue
		}
		c.Times = c.Shift(-said.ClockOffset)
		ran = append(ran, c.Times)
		if c.Alive && (!l.alive || c.Started.Before(l.from)) {
			l.from, l.alive = c.Started, true
		}
		if c.Exited.After(l.to) {
			l.to = c.Exited
		}
	}
	slices.SortFunc(ran, func(a, b inspect.Times) int { return b.Started.Compare(a.Started) })
	for _, c := range ran {
		if l.alive && c.Started.Before(l.from) && !c.Exited.Before(l.from) {
			l.from = c.Started
		}
	}
	return l
}

// step is what has become of a ghost and its successors, as their runtimes see them at an
// instant: the windows to tell of, and whether there is still something to watch. Of a
// successor whose runtime does not answer, which is not among the younger, nothing is known.
func (g *ghost) step(older life, younger map[string]life, now time.Time) (told []history.Window, over bool) {
	for _, s := range g.successors {
		other, seen := younger[s.uid]
		if !seen && older.alive {
			continue // what cannot be seen is not over
		}
		both := older.alive && other.alive
		if s.window.Identity != "" && (!both || older.brokeSince(s.older) || other.brokeSince(s.younger)) {
			ended := s.window
			ended.End = new(s.endOf(older, other, now))
			told, s.window = append(told, ended), history.Window{}
		}
		if !both {
			continue
		}
		if s.older, s.younger = older, other; s.window.Identity == "" {
			begin := other.from
			if older.from.After(begin) {
				begin = older.from
			}
			s.window = history.Window{Identity: g.identity, UIDs: []string{g.uid, s.uid}, Begin: begin}
			told = append(told, s.window)
		}
	}
	return told, !older.alive && !older.kept
}

// brokeSince reports whether an incarnation that is alive was not for a while since it was seen like
// this: another of its containers has ended since then, and one has begun after that. No clock is asked.
func (l life) brokeSince(seen life) bool {
	return l.alive && l.to.After(seen.to) && l.from.After(l.to)
}

// endOf is when the first of two ended, as far as their runtimes still know.
func (s *successor) endOf(older, younger life, now time.Time) time.Time {
	var end time.Time
	for _, is := range []struct{ now, seen life }{{older, s.older}, {younger, s.younger}} {
		ended := !is.now.alive || is.now.brokeSince(is.seen)
		if ended && !is.now.to.IsZero() && (end.IsZero() || is.now.to.Before(end)) {
			end = is.now.to
		}
	}
	return cmp.Or(end, now)
}
