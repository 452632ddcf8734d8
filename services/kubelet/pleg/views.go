package pleg

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Views are the newest view of each pod, and the pods whose containers started or died. They are
// pure: the caller asks the runtime and passes the time. A Relister adds a lock.
type Views struct {
	views   map[types.UID]view
	changed map[types.UID]bool
	asked   uint64    // questions asked so far; a view remembers its question's number
	listed  time.Time // when the last good listing was begun; zero before the first
	failing time.Time // when listings began to fail; zero while they succeed
}

type view struct {
	pod   podstate.Pod
	asked uint64
	at    time.Time
}

// Question is a question to the runtime. Answers are kept in the order of their questions.
type Question struct {
	number uint64
	at     time.Time
}

// NewViews returns empty views.
func NewViews() *Views {
	return &Views{views: map[types.UID]view{}, changed: map[types.UID]bool{}}
}

// Ask begins a question.
func (v *Views) Ask(now time.Time) Question {
	v.asked++
	return Question{v.asked, now}
}

// RecordListing takes a listing of the whole node, and reports whether a container of any pod has
// started or died since.
func (v *Views) RecordListing(q Question, sandboxes []*proto.Sandbox, containers []*proto.Container) (news bool) {
	fresh := groupByPod(sandboxes, containers)
	for uid, held := range fresh {
		news = v.update(view{podstate.New(uid, held.sandboxes, held.containers), q.number, q.at}) || news
	}
	for uid, old := range v.views {
		if _, listed := fresh[uid]; !listed && old.asked < q.number {
			news = v.update(view{podstate.Pod{UID: uid}, q.number, q.at}) || news
			delete(v.views, uid)
		}
	}
	v.listed, v.failing = q.at, time.Time{}
	return news
}

// update replaces a view by a newer one. It records and reports whether a container of the pod
// started or died.
func (v *Views) update(now view) (news bool) {
	old := v.views[now.pod.UID]
	if old.asked >= now.asked {
		return false
	}
	v.views[now.pod.UID] = now
	if !Differs(old.pod, now.pod) {
		return false
	}
	v.changed[now.pod.UID] = true
	return true
}

// RecordFailure records that a listing has failed.
func (v *Views) RecordFailure(now time.Time) {
	if v.failing.IsZero() {
		v.failing = now
	}
}

// RecordRead takes one pod's sandboxes and containers, and returns them as a view. The caller knows
// them, so that the pod is not recorded as changed.
func (v *Views) RecordRead(q Question, uid types.UID, sandboxes []*proto.Sandbox, containers []*proto.Container) podstate.Pod {
	pod := podstate.New(uid, sandboxes, containers)
	if v.views[uid].asked < q.number {
		v.views[uid] = view{pod, q.number, q.at}
	}
	return pod
}

// NewerThan returns the view of a pod, if a listing or a read was begun after the given time
// (KBL-20). The zero time accepts any.
func (v *Views) NewerThan(uid types.UID, than time.Time) (pod podstate.Pod, fresh bool) {
	known := v.views[uid]
	known.pod.UID = uid
	return known.pod, !v.listed.IsZero() && (v.listed.After(than) || known.at.After(than))
}

// Last returns the newest view of a pod, empty if the runtime does not have it. Listed is false
// before the first listing.
func (v *Views) Last(uid types.UID) (pod podstate.Pod, listed bool) {
	pod = v.views[uid].pod
	pod.UID = uid
	return pod, !v.listed.IsZero()
}

// All returns the pods of the last listing, by UID.
func (v *Views) All() []podstate.Pod {
	pods := make([]podstate.Pod, 0, len(v.views))
	for _, uid := range slices.Sorted(maps.Keys(v.views)) {
		pods = append(pods, v.views[uid].pod)
	}
	return pods
}

// Take returns the pods of which a container started or died since the last Take.
func (v *Views) Take() []types.UID {
	if len(v.changed) == 0 {
		return nil
	}
	uids := slices.Sorted(maps.Keys(v.changed))
	clear(v.changed)
	return uids
}

// Forget drops the view of a pod that is gone for good.
func (v *Views) Forget(uid types.UID) { delete(v.views, uid) }

// Problems returns why the runtime makes the node not ready (KBL-07), or nothing.
func (v *Views) Problems(now time.Time, timing Timing) []string {
	var problems []string
	if !v.failing.IsZero() && now.Sub(v.failing) >= timing.Down {
		problems = append(problems, "container runtime is down")
	}
	switch age := now.Sub(v.listed); {
	case v.listed.IsZero():
		problems = append(problems, "PLEG is not healthy: pleg has yet to be successful")
	case age > timing.Threshold:
		problems = append(problems, fmt.Sprintf(
			"PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", age.Round(time.Millisecond), timing.Threshold))
	}
	return problems
}

// phase is the part of the state of a container or sandbox whose change is reported.
type phase struct{ alive, ended bool }

func phaseOf(c *proto.Container) phase {
	return phase{podstate.Alive(c), c.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED}
}

func phaseOfSandbox(s *proto.Sandbox) phase {
	up := s.GetState() == proto.SandboxState_SANDBOX_STATE_READY
	return phase{up, !up}
}

// Differs reports whether a container of a pod, or its sandbox, started or died between two views.
// A removal does not count (CRI-13).
func Differs(before, after podstate.Pod) bool {
	if unchanged(before, after) {
		return false
	}
	known := make(map[string]phase, len(before.Containers)+len(before.Sandboxes))
	for _, c := range before.Containers {
		known[c.GetId()] = phaseOf(c)
	}
	for _, s := range before.Sandboxes {
		known[s.GetId()] = phaseOfSandbox(s)
	}
	for _, c := range after.Containers {
		if phaseOf(c) != known[c.GetId()] {
			return true
		}
		delete(known, c.GetId())
	}
	for _, s := range after.Sandboxes {
		if phaseOfSandbox(s) != known[s.GetId()] {
			return true
		}
		delete(known, s.GetId())
	}
	for _, was := range known {
		if was.alive {
			return true // vanished while it ran
		}
	}
	return false
}

// unchanged reports whether two views have the same containers and sandboxes in the same phases, as
// most do.
func unchanged(before, after podstate.Pod) bool {
	return slices.EqualFunc(before.Containers, after.Containers, func(a, b *proto.Container) bool {
		return a.GetId() == b.GetId() && phaseOf(a) == phaseOf(b)
	}) && slices.EqualFunc(before.Sandboxes, after.Sandboxes, func(a, b *proto.Sandbox) bool {
		return a.GetId() == b.GetId() && phaseOfSandbox(a) == phaseOfSandbox(b)
	})
}

// lists are the sandboxes and containers of one pod in a listing.
type lists struct {
	sandboxes  []*proto.Sandbox
	containers []*proto.Container
}

func groupByPod(sandboxes []*proto.Sandbox, containers []*proto.Container) map[types.UID]*lists {
	byUID := make(map[types.UID]*lists, len(sandboxes))
	of := func(uid types.UID) *lists {
		l := byUID[uid]
		if l == nil {
			l = &lists{}
			byUID[uid] = l
		}
		return l
	}
	owner := make(map[string]*lists, len(sandboxes))
	for _, s := range sandboxes {
		l := of(types.UID(s.GetPodUid()))
		owner[s.GetId()] = l
		l.sandboxes = append(l.sandboxes, s)
	}
	for _, c := range containers {
		l := owner[c.GetSandboxId()]
		if l == nil {
			l = of(types.UID(c.GetLabels()[podstate.LabelPodUID]))
		}
		l.containers = append(l.containers, c)
	}
	return byUID
}
