// Package pleg keeps what the runtime holds. It lists the whole node at a fixed period, reports
// whose containers started or died, and keeps the newest view of each pod (CRI-13). It changes
// nothing in the runtime. views.go handles the answers, and is pure.
//
// # Order
//
// A view never goes back: an answer is dropped if its question is older than that of the present
// view.
//
// # Blocking
//
// [Relister.NewerThan] waits for a later listing; everything else waits at most for the runtime.
// [Relister.Changes] holds one wake-up; Take returns what changed.
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

// Timing holds the intervals of listings.
type Timing struct {
	// Period is the interval of listings.
	Period time.Duration
	// Threshold is the age of the last good listing above which the node is not ready.
	Threshold time.Duration
	// Down is how long listings may fail before the runtime counts as down.
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

// New returns a relister that has listed nothing.
func New(runtime Runtime, clk clock.Clock, timing Timing, log *slog.Logger) *Relister {
	return &Relister{
		runtime: runtime, clock: clk, timing: timing, log: log,
		views: NewViews(), next: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// startRetry is the time between two attempts until the first listing has succeeded: a node starts
// its kubelet and its runtime together.
const startRetry = 50 * time.Millisecond

// Run lists at once and then every period until ctx ends.
func (r *Relister) Run(ctx context.Context) error {
	for r.relistOrLog(ctx); !r.hasListed(); r.relistOrLog(ctx) {
		if err := r.clock.Sleep(ctx, min(startRetry, r.timing.Period)); err != nil {
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

func (r *Relister) hasListed() bool {
	_, listed := r.Last("")
	return listed
}

func (r *Relister) relistOrLog(ctx context.Context) {
	if err := r.relist(ctx); err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "list the runtime", "err", err)
	}
}

func (r *Relister) relist(ctx context.Context) error {
	question := r.beginQuestion()
	sandboxes, err := r.runtime.ListPodSandbox(ctx, "")
	if err != nil {
		r.recordFailure()
		return fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := r.runtime.ListContainers(ctx, "")
	if err != nil {
		r.recordFailure()
		return fmt.Errorf("list containers: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.views.RecordListing(question, sandboxes, containers) {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	close(r.next)
	r.next = make(chan struct{})
	return nil
}

func (r *Relister) beginQuestion() Question {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Ask(r.clock.Steady())
}

func (r *Relister) recordFailure() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views.RecordFailure(r.clock.Steady())
}

// Read asks the runtime about one pod now and keeps the answer. If the caller is sure of the
// sandboxes it passes them, and only the containers are listed.
func (r *Relister) Read(ctx context.Context, uid types.UID, known []*proto.Sandbox) (podstate.Pod, error) {
	question := r.beginQuestion()
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
	return r.views.RecordRead(question, uid, known, containers), nil
}

// NewerThan waits for a listing begun after the given time, and returns the view of the pod
// (KBL-20). The zero time accepts any listing of this process. The error is ctx's.
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

// Last returns the newest view of a pod, empty if the runtime does not have it. Listed is false
// before the first listing.
func (r *Relister) Last(uid types.UID) (pod podstate.Pod, listed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Last(uid)
}

// All returns the pods of the last listing, by UID.
func (r *Relister) All() []podstate.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.All()
}

// Changes is readable when Take has something.
func (r *Relister) Changes() <-chan struct{} { return r.wake }

// Take returns the pods of which a container started or died since the last Take.
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

// Problems returns why the runtime makes the node not ready (KBL-07), or nothing.
func (r *Relister) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.views.Problems(r.clock.Steady(), r.timing)
}
