package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podfall/podfall/analysis/timeline"
	"github.com/podfall/podfall/internal/history"
)

// lane is a pod's incarnation.
type lane struct {
	// Pod is namespace/name.
	Pod, UID, Node string
	// Verdict says what became of it, and Word is one of gone, forced, terminating, running,
	// orphan and never.
	Verdict, Word string
	// Again says that the lane before it is an older incarnation of the same pod.
	Again bool
	Rows  []*row
	Bands []bar
	Pins  []pin
	Steps []timeline.Step
	life  life
}

// life is what is known of an incarnation before it is placed. Instants are 0 for what has not
// been.
type life struct {
	events     []history.Event
	containers []*container
	// born is when anything of it was heard first, until the last time.
	born, until int64
	object
	stay
}

// object is what became of the pod in the API.
type object struct {
	created, marked, removed int64
	markedAt, removedAt      time.Time
	grace                    int64
}

// stay is what its node made of it.
type stay struct {
	stopping, final, mount, umount int64
	// diedAt is when the last container ended, on the cluster's clock.
	diedAt time.Time
}

// container is one container's life; 0 for what has not been.
type container struct {
	id, name               string
	start, exit            int64
	hookBegan, hookEnded   int64
	code                   int32
	exited, killed, hooked bool
}

// row is a row of a lane: bars with marks on them.
type row struct {
	Kind rowKind
	// Name is what stands before it, and Y its top, in pixels.
	Name  string
	Y     int
	Bars  []bar
	Marks []mark
}

// bar is a stretch of time.
type bar struct {
	Kind     string
	X, Width percent
	Text     string
}

// mark is an instant.
type mark struct {
	Kind string
	X    percent
	Text string
	// Label stands beside it; usually empty.
	Label string
}

// pin is a counter-example's event at its place.
type pin struct {
	ID, Number, Text string
	X                percent
}

// Height is a lane's, in pixels.
func (l *lane) Height() int { return rowTop + len(l.Rows)*rowHeight }

// Name is the pod's, without the namespace that most are in.
func (l *lane) Name() string { return strings.TrimPrefix(l.Pod, "default/") }

// Short is enough of a uid to tell two incarnations apart.
func (l *lane) Short() string { return l.UID[:min(8, len(l.UID))] }

const (
	rowTop    = 8
	rowHeight = 17
)

// lanesOf are the incarnations, those of one pod beside each other, in the order in which
// pods were first heard of.
func lanesOf(events []history.Event) []*lane {
	lanes, byUID, byCause := incarnations(events)
	for _, e := range events {
		l := byUID[uidOf(e.Fact)]
		if call, asks := e.Fact.(history.OpCall); asks && l == nil && call.Resource == "pods" {
			l = byCause[e.Cause]
		}
		if l != nil {
			l.hear(e)
		}
	}
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return l.Pod == "" })
	first := map[string]int64{}
	for _, l := range lanes {
		if born, known := first[l.Pod]; !known || l.life.born < born {
			first[l.Pod] = l.life.born
		}
	}
	slices.SortStableFunc(lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(first[a.Pod], first[b.Pod]), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.life.born, b.life.born))
	})
	for i, l := range lanes {
		l.Again = i > 0 && lanes[i-1].Pod == l.Pod
		l.conclude()
	}
	return lanes
}

// incarnations are lanes that have heard nothing yet, in the order in which they were first
// heard of, and found by uid and by the operations that have changed them.
func incarnations(events []history.Event) (lanes []*lane, byUID, byCause map[string]*lane) {
	byUID, byCause = map[string]*lane{}, map[string]*lane{}
	for _, e := range events {
		uid := uidOf(e.Fact)
		if _, asks := e.Fact.(history.OpCall); asks || uid == "" {
			continue
		}
		l := byUID[uid]
		if l == nil {
			l = &lane{UID: uid}
			byUID[uid] = l
			lanes = append(lanes, l)
		}
		if _, committed := e.Fact.(history.Commit); committed && e.Cause != "" {
			byCause[e.Cause] = l
		}
	}
	return lanes, byUID, byCause
}

// hear takes up an event of the incarnation's.
func (l *lane) hear(e history.Event) {
	v := &l.life
	v.events = append(v.events, e)
	if v.born == 0 {
		v.born = e.Ended
	}
	v.until = max(v.until, e.Ended)
	if of, ok := containerOf(e.Fact); ok {
		l.Pod = cmp.Or(l.Pod, of.Pod)
		l.hearContainer(e, of)
		switch e.Fact.(type) {
		case history.Start, history.TakeUp:
			l.Node = cmp.Or(l.Node, nodeOf(e.Process))
		}
		return
	}
	switch f := e.Fact.(type) {
	case history.Commit:
		l.Pod, l.Node = f.Key, cmp.Or(f.Node, l.Node)
		l.hearCommit(e, f)
	case history.KubeletTerm:
		v.stopping = cmp.Or(v.stopping, e.Ended)
	case history.KubeletFinal:
		if f.Err == "" {
			v.final = e.Ended
		}
	case history.Mount:
		v.mount, v.umount = cmp.Or(v.mount, e.Ended), 0
	case history.Unmount:
		v.umount = e.Ended
	}
	l.Pod = cmp.Or(l.Pod, field(e.Fact, "Pod"))
}

func (l *lane) hearCommit(e history.Event, f history.Commit) {
	v := &l.life
	v.created = cmp.Or(v.created, e.Ended)
	if f.Deadline != nil && v.marked == 0 {
		v.marked, v.markedAt, v.grace = e.Ended, e.Wall, seconds(f.Grace)
	}
	if f.Op == "DELETED" {
		v.removed, v.removedAt = e.Ended, e.Wall
	}
}

func (l *lane) hearContainer(e history.Event, of history.Of) {
	i := slices.IndexFunc(l.life.containers, func(c *container) bool { return c.id == of.Container })
	if i < 0 {
		i = len(l.life.containers)
		l.life.containers = append(l.life.containers, &container{id: of.Container, name: of.Called})
	}
	c := l.life.containers[i]
	c.name = cmp.Or(c.name, of.Called)
	switch f := e.Fact.(type) {
	case history.Start:
		c.start = e.Ended
	case history.TakeUp:
		c.start = cmp.Or(c.start, e.Ended)
	case history.Exit:
		c.exit, c.exited, c.code = e.Began, true, f.Code
		l.life.diedAt = e.Wall
	case history.PreStopBegin:
		c.hookBegan, c.hooked = e.Ended, true
	case history.PreStopEnd:
		c.hookEnded = e.Ended
	case history.Signal:
		c.killed = c.killed || f.Signal == "SIGKILL"
	}
}

// alive reports whether a container runs at the end of the history.
func (v *life) alive() bool {
	return slices.ContainsFunc(v.containers, func(c *container) bool { return c.start > 0 && !c.exited })
}

// died is when the last container ended; 0 while one is alive.
func (v *life) died() int64 {
	last := int64(0)
	for _, c := range v.containers {
		if c.start > 0 && !c.exited {
			return 0
		}
		last = max(last, c.exit)
	}
	return last
}

// conclude says what became of the incarnation, and tells its deletion.
func (l *lane) conclude() {
	v := &l.life
	took := v.removedAt.Sub(v.markedAt)
	outlived := v.removed > 0 && len(v.containers) > 0 && (v.alive() || v.died() > v.removed)
	switch {
	case v.removed > 0 && v.alive():
		l.Word, l.Verdict = "orphan", "the API has forgotten it, and it runs"
	case outlived:
		l.Word, l.Verdict = "forced", "forced, and ran on for "+brief(max(v.diedAt.Sub(v.removedAt), 0))
	case v.removed > 0 && v.marked > 0:
		l.Word, l.Verdict = "gone", fmt.Sprintf("gone in %s, grace %ds", brief(max(took, 0)), v.grace)
	case v.removed > 0:
		l.Word, l.Verdict = "gone", "removed at once"
	case v.marked > 0:
		l.Word, l.Verdict = "terminating", fmt.Sprintf("still Terminating, grace %ds", v.grace)
	case v.alive():
		l.Word, l.Verdict = "running", "runs"
	default:
		l.Word, l.Verdict = "running", "there"
	}
	if t, deleted := timeline.Of(v.events, l.Pod, l.UID); deleted {
		l.Steps = t.Steps
	}
}

// instants are all that have to be on the axis.
func instants(lanes []*lane, troubles []*trouble) []int64 {
	var all []int64
	for _, l := range lanes {
		for _, e := range l.life.events {
			all = append(all, e.Ended)
		}
	}
	first, last := slices.Min(all), slices.Max(all)
	for _, t := range troubles {
		for _, at := range []int64{t.began, t.ended} {
			if at > first && at < last {
				all = append(all, at)
			}
		}
	}
	return all
}
