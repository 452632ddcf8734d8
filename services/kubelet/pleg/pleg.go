// Package pleg knows what the runtime holds. It lists the whole node at a fixed period,
// tells which pods' containers started or died, and keeps the newest view of each pod
// for those who ask (CRI-13). It changes nothing in the runtime.
//
// # Order
//
// A view never goes back: an answer whose question was asked before that of the view
// already kept is thrown away.
//
// # Blocking
//
// [Relister.NewerThan] waits for a later listing; nothing else waits for anybody but the
// runtime. [Relister.Changes] holds one wake-up; what changed is fetched with Take.
package pleg

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Runtime is the part of CRI that reads.
type Runtime interface {
	ListPodSandbox(ctx context.Context, podUID string) ([]*proto.Sandbox, error)
	ListContainers(ctx context.Context, podUID string) ([]*proto.Container, error)
}

// Timing is how often, and how long without, the runtime is listed.
type Timing struct {
	// Period is between two listings.
	Period time.Duration
	// Threshold is the age of the last good listing above which the node is not ready.
	Threshold time.Duration
	// Down is for how long listings may fail before the runtime counts as down.
	Down time.Duration
}

// Relister lists a node's runtime.
type Relister struct {
	runtime Runtime
	clock   clock.Clock
	timing  Timing
	log     *slog.Logger

	mu      sync.Mutex
	views   map[types.UID]view
	changed map[types.UID]bool
	asked   uint64        // questions asked so far; a view remembers its question's number
	listed  time.Time     // when the last good listing was begun; zero before the first
	failing time.Time     // when listings began to fail; zero while they succeed
	next    chan struct{} // closed at the next good listing
	wake    chan struct{}
}

type view struct {
	pod   podstate.Pod
	asked uint64
	at    time.Time
}

// New lists nothing yet.
func New(runtime Runtime, clk clock.Clock, timing Timing, log *slog.Logger) *Relister {
	return &Relister{
		runtime: runtime, clock: clk, timing: timing, log: log,
		views: map[types.UID]view{}, changed: map[types.UID]bool{},
		next: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// starting is between two attempts of a listing until the first has succeeded: a node
// starts its kubelet and its runtime together.
const starting = 50 * time.Millisecond

// Run lists at once and then every period until ctx ends.
func (r *Relister) Run(ctx context.Context) error {
	for r.relistOrLog(ctx); !r.begun(); r.relistOrLog(ctx) {
		if err := r.clock.Sleep(ctx, min(starting, r.timing.Period)); err != nil {
			return err
		}
	}
	ticker := r.clock.Ticker(r.timing.Period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			r.relistOrLog(ctx)
		}
	}
}

func (r *Relister) begun() bool {
	_, listed := r.Last("")
	return listed
}

func (r *Relister) relistOrLog(ctx context.Context) {
	if err := r.relist(ctx); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "list the runtime", "err", err)
	}
}

func (r *Relister) relist(ctx context.Context) error {
	asked, at := r.ask()
	sandboxes, err := r.runtime.ListPodSandbox(ctx, "")
	if err != nil {
		r.fail()
		return fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := r.runtime.ListContainers(ctx, "")
	if err != nil {
		r.fail()
		return fmt.Errorf("list containers: %w", err)
	}
	fresh := group(sandboxes, containers)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, pod := range fresh {
		r.keep(view{pod, asked, at})
	}
	for uid, old := range r.views {
		if _, listed := fresh[uid]; !listed && old.asked < asked {
			r.keep(view{podstate.Pod{UID: uid}, asked, at})
			delete(r.views, uid)
		}
	}
	r.listed, r.failing = at, time.Time{}
	close(r.next)
	r.next = make(chan struct{})
	return nil
}

// keep replaces a view by a newer one and notes the pod if a container of it started or
// died since. The caller holds the lock.
func (r *Relister) keep(v view) {
	old := r.views[v.pod.UID]
	if old.asked >= v.asked {
		return
	}
	r.views[v.pod.UID] = v
	if Differs(old.pod, v.pod) {
		r.changed[v.pod.UID] = true
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// Differs reports whether a container of a pod, or its sandbox, started or died between
// two views. A removal is no news (CRI-13).
func Differs(before, after podstate.Pod) bool {
	type phase struct{ alive, ended bool }
	known := make(map[string]phase, len(before.Containers)+len(before.Sandboxes))
	for _, c := range before.Containers {
		known[c.GetId()] = phase{podstate.Alive(c), ended(c)}
	}
	for _, s := range before.Sandboxes {
		up := s.GetState() == proto.SandboxState_SANDBOX_STATE_READY
		known[s.GetId()] = phase{up, !up}
	}
	for _, c := range after.Containers {
		if now := (phase{podstate.Alive(c), ended(c)}); now != known[c.GetId()] {
			return true
		}
		delete(known, c.GetId())
	}
	for _, s := range after.Sandboxes {
		up := s.GetState() == proto.SandboxState_SANDBOX_STATE_READY
		if known[s.GetId()] != (phase{up, !up}) {
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

func ended(c *proto.Container) bool {
	return c.GetState() == proto.ContainerState_CONTAINER_STATE_EXITED
}

func group(sandboxes []*proto.Sandbox, containers []*proto.Container) map[types.UID]podstate.Pod {
	type lists struct {
		sandboxes  []*proto.Sandbox
		containers []*proto.Container
	}
	byUID := map[types.UID]*lists{}
	of := func(uid types.UID) *lists {
		if byUID[uid] == nil {
			byUID[uid] = &lists{}
		}
		return byUID[uid]
	}
	owner := make(map[string]types.UID, len(sandboxes))
	for _, s := range sandboxes {
		uid := types.UID(s.GetPodUid())
		owner[s.GetId()] = uid
		of(uid).sandboxes = append(of(uid).sandboxes, s)
	}
	for _, c := range containers {
		uid, ok := owner[c.GetSandboxId()]
		if !ok {
			uid = types.UID(c.GetLabels()[podstate.LabelPodUID])
		}
		of(uid).containers = append(of(uid).containers, c)
	}
	pods := make(map[types.UID]podstate.Pod, len(byUID))
	for uid, l := range byUID {
		pods[uid] = podstate.New(uid, l.sandboxes, l.containers)
	}
	return pods
}

func (r *Relister) ask() (uint64, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.asked, r.clock.Now()
}

func (r *Relister) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing.IsZero() {
		r.failing = r.clock.Now()
	}
}

// Read asks the runtime about one pod now and keeps the answer. With known sandboxes,
// of whose state the caller is sure, only the containers are asked for.
func (r *Relister) Read(ctx context.Context, uid types.UID, known []*proto.Sandbox) (podstate.Pod, error) {
	asked, at := r.ask()
	if known == nil {
		var err error
		if known, err = r.runtime.ListPodSandbox(ctx, string(uid)); err != nil {
			return podstate.Pod{}, fmt.Errorf("list sandboxes of pod %s: %w", uid, err)
		}
	}
	containers, err := r.runtime.ListContainers(ctx, string(uid))
	if err != nil {
		return podstate.Pod{}, fmt.Errorf("list containers of pod %s: %w", uid, err)
	}
	pod := podstate.New(uid, known, containers)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.views[uid].asked < asked {
		r.views[uid] = view{pod, asked, at} // the asker knows: no event
	}
	return pod, nil
}

// NewerThan waits until a listing has been begun after the given time, and returns what
// is known of the pod then (KBL-20); with the zero time any listing of this process
// will do. The error is ctx's.
func (r *Relister) NewerThan(ctx context.Context, uid types.UID, than time.Time) (podstate.Pod, error) {
	for {
		r.mu.Lock()
		v, next := r.views[uid], r.next
		fresh := !r.listed.IsZero() && (r.listed.After(than) || v.at.After(than))
		r.mu.Unlock()
		if fresh {
			v.pod.UID = uid
			return v.pod, nil
		}
		select {
		case <-ctx.Done():
			return podstate.Pod{}, ctx.Err()
		case <-next:
		}
	}
}

// Wait waits for the first listing, or until ctx ends.
func (r *Relister) Wait(ctx context.Context) {
	_, _ = r.NewerThan(ctx, "", time.Time{})
}

// Last is the newest view of a pod, empty for one that the runtime does not hold; listed
// is false before the first listing, when nothing is known of any pod.
func (r *Relister) Last(uid types.UID) (pod podstate.Pod, listed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pod = r.views[uid].pod
	pod.UID = uid
	return pod, !r.listed.IsZero()
}

// All are the pods that the runtime held at the last listing, by UID.
func (r *Relister) All() []podstate.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pods []podstate.Pod
	for _, uid := range slices.Sorted(maps.Keys(r.views)) {
		pods = append(pods, r.views[uid].pod)
	}
	return pods
}

// Changes is readable when Take has something.
func (r *Relister) Changes() <-chan struct{} { return r.wake }

// Take are the pods of which a container started or died since the last Take.
func (r *Relister) Take() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	uids := slices.Sorted(maps.Keys(r.changed))
	clear(r.changed)
	return uids
}

// Forget drops the view of a pod that is gone for good.
func (r *Relister) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.views, uid)
}

// Problems is why the runtime makes the node not ready (KBL-07); empty when it does
// not.
func (r *Relister) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	var problems []string
	if !r.failing.IsZero() && now.Sub(r.failing) >= r.timing.Down {
		problems = append(problems, "container runtime is down")
	}
	switch age := now.Sub(r.listed); {
	case r.listed.IsZero():
		problems = append(problems, "PLEG is not healthy: pleg has yet to be successful")
	case age > r.timing.Threshold:
		problems = append(problems, fmt.Sprintf(
			"PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", age.Round(time.Millisecond), r.timing.Threshold))
	}
	return problems
}
