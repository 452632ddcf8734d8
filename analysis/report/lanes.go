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

// lane is the swim-lane of one incarnation of a pod.
type lane struct {
	// Pod is namespace/name.
	Pod, UID, Node string
	// Verdict says in words what happened to the pod. Word is one of gone, forced, terminating,
	// running, orphan and never.
	Verdict, Word string
	// Again says that the lane above is an older incarnation of the same pod.
	Again  bool
	Rows   []*row
	Bands  []bar
	Pins   []pin
	Steps  []timeline.Step
	record podRecord
}

// podRecord holds what is known of an incarnation before it is drawn. Instants are 0 if they did
// not happen.
type podRecord struct {
	events     []history.Event
	containers []*containerTimes
	// firstSeen and lastSeen are the instants of the first and the last event about the pod.
	firstSeen, lastSeen int64
	apiTimes
	nodeTimes
}

// apiTimes holds what happened to the pod in the API.
type apiTimes struct {
	created, marked, removed int64
	markedAt, removedAt      time.Time
	grace                    int64
}

// nodeTimes holds what happened to the pod on its node.
type nodeTimes struct {
	stopping, final, mount, umount int64
	// exitedAt is when the last container ended, in cluster time.
	exitedAt time.Time
}

// containerTimes holds the instants of one container; 0 if they did not happen.
type containerTimes struct {
	id, name               string
	start, exit            int64
	hookBegan, hookEnded   int64
	code                   int32
	exited, killed, hooked bool
}

// row is a row of a lane: bars with marks on them.
type row struct {
	Kind rowKind
	// Name is the label of the row, and Y its top in pixels.
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
	// Label is shown beside the mark; usually empty.
	Label string
}

// pin marks an event of a counter-example at its position.
type pin struct {
	ID, Number, Text string
	X                percent
}

// Height returns the height of the lane in pixels.
func (l *lane) Height() int { return rowTop + len(l.Rows)*rowHeight }

// Name returns the pod's name, with its namespace unless that is default.
func (l *lane) Name() string { return strings.TrimPrefix(l.Pod, "default/") }

// Short returns enough of the UID to tell two incarnations apart.
func (l *lane) Short() string { return l.UID[:min(8, len(l.UID))] }

const (
	rowTop    = 8
	rowHeight = 17
)

// lanesOf returns the lanes of all incarnations. Those of one pod are together, and pods are in the
// order of their first events.
func lanesOf(events []history.Event) []*lane {
	lanes, byUID, byCause := incarnations(events)
	for _, e := range events {
		l := byUID[uidOf(e.Fact)]
		if call, asks := e.Fact.(history.OpCall); asks && l == nil && call.Resource == "pods" {
			l = byCause[e.Cause]
		}
		if l != nil {
			l.addEvent(e)
		}
	}
	lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return l.Pod == "" })
	first := map[string]int64{}
	for _, l := range lanes {
		if born, known := first[l.Pod]; !known || l.record.firstSeen < born {
			first[l.Pod] = l.record.firstSeen
		}
	}
	slices.SortStableFunc(lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(first[a.Pod], first[b.Pod]), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.record.firstSeen, b.record.firstSeen))
	})
	for i, l := range lanes {
		l.Again = i > 0 && lanes[i-1].Pod == l.Pod
		l.setVerdict()
	}
	return lanes
}

// incarnations returns empty lanes in the order of their first events, indexed by UID and by the
// operations that changed them.
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

// addEvent adds an event of the incarnation.
func (l *lane) addEvent(e history.Event) {
	v := &l.record
	v.events = append(v.events, e)
	if v.firstSeen == 0 {
		v.firstSeen = e.Ended
	}
	v.lastSeen = max(v.lastSeen, e.Ended)
	if of, ok := containerOf(e.Fact); ok {
		l.Pod = cmp.Or(l.Pod, of.Pod)
		l.addContainerEvent(e, of)
		switch e.Fact.(type) {
		case history.Start, history.Recover:
			l.Node = cmp.Or(l.Node, nodeOf(e.Process))
		}
		return
	}
	switch f := e.Fact.(type) {
	case history.Commit:
		l.Pod, l.Node = f.Key, cmp.Or(f.Node, l.Node)
		l.addCommit(e, f)
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
	l.Pod = cmp.Or(l.Pod, textField(e.Fact, "Pod"))
}

func (l *lane) addCommit(e history.Event, f history.Commit) {
	v := &l.record
	v.created = cmp.Or(v.created, e.Ended)
	if f.Deadline != nil && v.marked == 0 {
		v.marked, v.markedAt, v.grace = e.Ended, e.Wall, seconds(f.Grace)
	}
	if f.Op == "DELETED" {
		v.removed, v.removedAt = e.Ended, e.Wall
	}
}

func (l *lane) addContainerEvent(e history.Event, of history.ContainerRef) {
	i := slices.IndexFunc(l.record.containers, func(c *containerTimes) bool { return c.id == of.Container })
	if i < 0 {
		i = len(l.record.containers)
		l.record.containers = append(l.record.containers, &containerTimes{id: of.Container, name: of.ContainerName})
	}
	c := l.record.containers[i]
	c.name = cmp.Or(c.name, of.ContainerName)
	switch f := e.Fact.(type) {
	case history.Start:
		c.start = e.Ended
	case history.Recover:
		c.start = cmp.Or(c.start, e.Ended)
	case history.Exit:
		c.exit, c.exited, c.code = e.Began, true, f.Code
		l.record.exitedAt = e.Wall
	case history.PreStopBegin:
		c.hookBegan, c.hooked = e.Ended, true
	case history.PreStopEnd:
		c.hookEnded = e.Ended
	case history.Signal:
		c.killed = c.killed || f.Signal == "SIGKILL"
	}
}

// isRunning reports whether a container runs at the end of the history.
func (v *podRecord) isRunning() bool {
	return slices.ContainsFunc(v.containers, func(c *containerTimes) bool { return c.start > 0 && !c.exited })
}

// endedAt returns when the last container ended; 0 while one runs.
func (v *podRecord) endedAt() int64 {
	last := int64(0)
	for _, c := range v.containers {
		if c.start > 0 && !c.exited {
			return 0
		}
		last = max(last, c.exit)
	}
	return last
}

// setVerdict says what happened to the incarnation, and adds the steps of its deletion.
func (l *lane) setVerdict() {
	v := &l.record
	took := v.removedAt.Sub(v.markedAt)
	outlived := v.removed > 0 && len(v.containers) > 0 && (v.isRunning() || v.endedAt() > v.removed)
	switch {
	case v.removed > 0 && v.isRunning():
		l.Word, l.Verdict = "orphan", "the API has forgotten it, and it runs"
	case outlived:
		l.Word, l.Verdict = "forced", "forced, and ran on for "+formatBriefly(max(v.exitedAt.Sub(v.removedAt), 0))
	case v.removed > 0 && v.marked > 0:
		l.Word, l.Verdict = "gone", fmt.Sprintf("gone in %s, grace %ds", formatBriefly(max(took, 0)), v.grace)
	case v.removed > 0:
		l.Word, l.Verdict = "gone", "removed at once"
	case v.marked > 0:
		l.Word, l.Verdict = "terminating", fmt.Sprintf("still Terminating, grace %ds", v.grace)
	case v.isRunning():
		l.Word, l.Verdict = "running", "runs"
	default:
		l.Word, l.Verdict = "running", "there"
	}
	if t, deleted := timeline.Find(v.events, l.Pod, l.UID); deleted {
		l.Steps = t.Steps
	}
}

// instants returns all instants that must be on the axis.
func instants(lanes []*lane, troubles []*trouble) []int64 {
	var all []int64
	for _, l := range lanes {
		for _, e := range l.record.events {
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
