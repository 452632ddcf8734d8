// Package pleg knows what the runtime holds. It lists the whole node at a fixed period,
// tells which pods' containers started or died, and keeps the newest view of each pod
// for those who ask (CRI-13). It changes nothing in the runtime. views.go is what it
// makes of the answers, pure.
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

	mu    sync.Mutex
	views *Views
	next  chan struct{} // closed at the next good listing
	wake  chan struct{}
}

// New lists nothing yet.
func New(runtime Runtime, clk clock.Clock, timing Timing, log *slog.Logger) *Relister {
	return &Relister{
		runtime: runtime, clock: clk, timing: timing, log: log,
		views: NewViews(), next: make(chan struct{}), wake: make(chan struct{}, 1),
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
	question := r.ask()
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.views.List(question, sandboxes, containers) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	close(r.next)
	r.next = make(chan struct{})
	return nil
}

func (r *Relister) ask() Question {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Ask(r.clock.Steady())
}

func (r *Relister) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.Fail(r.clock.Steady())
}

// Read asks the runtime about one pod now and keeps the answer. With known sandboxes,
// of whose state the caller is sure, only the containers are asked for.
func (r *Relister) Read(ctx context.Context, uid types.UID, known []*proto.Sandbox) (podstate.Pod, error) {
	question := r.ask()
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
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Read(question, uid, known, containers), nil
}

// NewerThan waits until a listing has been begun after the given time, and returns what
// is known of the pod then (KBL-20); with the zero time any listing of this process
// will do. The error is ctx's.
func (r *Relister) NewerThan(ctx context.Context, uid types.UID, than time.Time) (podstate.Pod, error) {
	for {
		r.mu.Lock()
		next := r.next
		pod, fresh := r.views.NewerThan(uid, than)
		r.mu.Unlock()
		if fresh {
			return pod, nil
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
	return r.views.Last(uid)
}

// All are the pods that the runtime held at the last listing, by UID.
func (r *Relister) All() []podstate.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.All()
}

// Changes is readable when Take has something.
func (r *Relister) Changes() <-chan struct{} { return r.wake }

// Take are the pods of which a container started or died since the last Take.
func (r *Relister) Take() []types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Take()
}

// Forget drops the view of a pod that is gone for good.
func (r *Relister) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.Forget(uid)
}

// Problems is why the runtime makes the node not ready (KBL-07); empty when it does
// not.
func (r *Relister) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Problems(r.clock.Steady(), r.timing)
}
