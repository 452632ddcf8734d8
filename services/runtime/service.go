package runtime

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/store"
)

// service implements the runtime's calls on the sandboxes and containers that exist.
type service struct {
	dependencies
	incarnation
	engines *engines
	images  *nodeImages
	store   *store.Store
	network *network

	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	// names maps each reserved name to the id that holds it (CRI-14).
	names map[string]string
	made  uint64 // made counts created objects; lists are sorted by it.
}

// dependencies are shared by every part of the runtime.
type dependencies struct {
	clock  clock.Clock
	log    *slog.Logger
	faults *fault.Table
	// programs describes how real programs run here.
	programs string
}

var _ runtimeapi.Runtime = (*service)(nil)

// incarnation identifies this runtime process and records its history.
type incarnation struct {
	boot    proto.Boot
	began   time.Time
	history *history.Recorder
}

// sandbox holds the state of one sandbox. The service's lock guards its fields; the first two never
// change.
type sandbox struct {
	created *proto.Sandbox // the record as first written
	order   uint64
	// record is the current record. It is replaced, never modified.
	record     *proto.Sandbox
	containers []*container // in creation order
	// stopping forbids further container starts.
	stopping bool
	// removed forbids further container creation.
	removed bool
	// released means that the address was given back.
	released bool
	// teardown is the time of the first network teardown attempt; zero before.
	teardown time.Time
}

// container holds the state of one container. The service's lock guards its fields; the first four
// never change.
type container struct {
	id      string
	request *proto.CreateContainerRequest
	sandbox *sandbox
	created time.Time
	order   uint64
	events  engine.Events
	status  engine.Status
	// starting, signaled, killed and removing mean that a call has claimed the action or completed
	// it.
	starting, signaled, killed, removing bool
	// changed is closed at the next status change; nil if no call waits.
	changed chan struct{}
}

// newService restores the recorded sandboxes and containers.
func newService(ctx context.Context, cfg Config, kept *store.Store, contents *store.Contents) (*service, error) {
	pool, err := newNetwork(cfg.PodCIDR, cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s := &service{
		dependencies: dependencies{cfg.Clock, cfg.Log, cfg.Faults, cfg.Containers.Programs}, incarnation: incarnation{cfg.Boot, cfg.Clock.Steady(), cfg.History}, store: kept, network: pool,
		engines: newEngines(cfg.Containers.Engines, cfg.Containers.Handler), images: &nodeImages{catalog: cfg.Containers.Images, pulled: map[string]bool{}},
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, names: map[string]string{},
	}
	slices.SortFunc(contents.Sandboxes, func(a, b *proto.Sandbox) int {
		return cmp.Or(cmp.Compare(a.CreatedAtUnixNano, b.CreatedAtUnixNano), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Id, b.Id))
	})
	for _, record := range contents.Sandboxes {
		box := s.addSandbox(record)
		if box.released = record.State != proto.SandboxState_SANDBOX_STATE_READY; !box.released {
			pool.reserve(record.Ip)
		}
	}
	slices.SortFunc(contents.Containers, func(a, b *store.Container) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Request.Attempt, b.Request.Attempt), cmp.Compare(a.ID, b.ID))
	})
	for _, record := range contents.Containers {
		if err := s.restoreContainer(ctx, record); err != nil {
			return nil, fmt.Errorf("take up container %s: %w", record.ID, err)
		}
	}
	return s, nil
}

// restoreContainer loads a recorded container into its engine. A container without a sandbox is
// removed.
func (s *service) restoreContainer(ctx context.Context, record *store.Container) error {
	box, ok := s.sandboxes[record.Request.SandboxId]
	if !ok { // created while its sandbox was removed, and never acknowledged
		s.store.Later(store.RemoveContainer(record.ID)...)
		return nil
	}
	status, err := s.engines.Load(ctx, engine.Container{
		ID: record.ID, Handler: box.created.RuntimeHandler, Request: record.Request, Events: record.Events,
	})
	if err != nil {
		return err
	}
	c := &container{
		id: record.ID, request: record.Request, created: record.Created, events: record.Events, status: status,
		starting: !record.Events.Start.IsZero(),
		signaled: !record.Events.Stop.IsZero(),
		killed:   !record.Events.Kill.IsZero(),
	}
	s.addContainer(c, box)
	if c.starting && record.Exit == nil {
		s.history.Record("", history.Recover{ContainerRef: c.historyOf(), Started: s.clock.ApplySkew(record.Events.Start), Scripted: c.isScripted()})
	}
	switch {
	case record.Exit != nil: // a reported exit never changes
		c.status = recordedStatus(record.Exit)
	case hasExited(status):
		s.recordExit(c, status)
		s.logExit(ctx, c, status)
	default:
		s.noteProcess(c, status)
	}
	return nil
}

// noteProcess records the PID of a running container.
func (s *service) noteProcess(c *container, status engine.Status) {
	if status.PID != 0 {
		s.history.Record("", history.Process{ContainerRef: c.historyOf(), PID: status.PID})
	}
}

// isScripted reports whether c runs a script and therefore has no process.
func (c *container) isScripted() bool {
	return cmp.Or(c.sandbox.created.RuntimeHandler, HandlerScripted) == HandlerScripted // old records have no handler
}

// finishStops completes sandbox stops that a crash of the runtime interrupted: it kills every
// container in a stopped sandbox. If the disk refuses the record, the next stop tries again.
func (s *service) finishStops(ctx context.Context) {
	s.mu.Lock()
	var left []*container
	for _, c := range s.containers {
		if c.sandbox.record.State != proto.SandboxState_SANDBOX_STATE_READY && c.isAlive() && !c.status.Unreachable {
			left = append(left, c)
		}
	}
	s.mu.Unlock()
	for _, c := range left {
		if err := s.sendKill(ctx, c); err != nil {
			s.log.ErrorContext(ctx, "a container runs on in a sandbox that was stopped", append(s.logAttrs(c), "err", err)...)
		}
	}
}

// reporter returns the callback that applies the engine's reports.
func (s *service) reporter(ctx context.Context) engine.Report {
	return func(id string, status engine.Status) {
		s.mu.Lock()
		c, ok := s.containers[id]
		// States only move forward, and removed containers are ignored.
		if ok = ok && status.State > c.status.State; ok {
			s.setStatus(c, status)
		}
		ended := ok && hasExited(status)
		if ended {
			s.recordExit(c, status) // before a concurrent removal gets the lock
		}
		s.mu.Unlock()
		switch {
		case ended:
			s.logExit(ctx, c, status)
		case ok:
			s.noteProcess(c, status)
		}
	}
}

// setStatus changes a container's status and wakes all waiters. The caller holds the lock.
func (s *service) setStatus(c *container, status engine.Status) {
	c.status = status
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// awaitChange waits until c's status differs from state, ctx ends, or until passes. A zero until
// never passes.
func (s *service) awaitChange(ctx context.Context, c *container, state proto.ContainerState, until time.Time) {
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := s.clock.Timer(until.Sub(s.clock.Steady()))
		defer timer.Stop()
		alarm = timer.C
	}
	for {
		s.mu.Lock()
		if c.status.State != state {
			s.mu.Unlock()
			return
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-alarm:
			return
		case <-ctx.Done():
			return
		}
	}
}

// addSandbox registers a sandbox. The caller holds the lock, or is newService.
func (s *service) addSandbox(record *proto.Sandbox) *sandbox {
	s.made++
	box := &sandbox{created: record, record: record, order: s.made}
	s.sandboxes[record.Id] = box
	s.names[sandboxName(record.PodName, record.PodNamespace, record.PodUid, record.Attempt)] = record.Id
	return box
}

// addContainer registers a container in its sandbox. The caller holds the lock, or is newService.
func (s *service) addContainer(c *container, box *sandbox) {
	s.made++
	c.sandbox, c.order = box, s.made
	s.containers[c.id] = c
	box.containers = append(box.containers, c)
	s.names[containerName(c.request, box.created)] = c.id
}

// reserveName reserves a name for id, or fails with the id that holds the name. The caller holds
// the lock.
func (s *service) reserveName(what, name, id string) error {
	if holder, ok := s.names[name]; ok {
		return errorf(proto.CodeUnknown, "failed to reserve %s name %q: name %q is reserved for %q", what, name, name, holder)
	}
	s.names[name] = id
	return nil
}

// releaseName frees a name if id still holds it. The caller holds the lock.
func (s *service) releaseName(name, id string) {
	if s.names[name] == id {
		delete(s.names, name)
	}
}

// commit writes records that a call depends on. If it fails, nothing was written, and the caller
// releases its claims so that the next call sees what is on disk.
func (s *service) commit(ops ...store.Op) error {
	err := s.store.Commit(ops...)
	switch {
	case errors.Is(err, store.ErrStopped):
		return errorf(proto.CodeUnavailable, "%v", err)
	case err != nil:
		return errorf(proto.CodeUnknown, "%v", err)
	}
	return nil
}

// releaseClaim resets a claim whose commit failed.
func (s *service) releaseClaim(claim *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*claim = false
}

// sandboxName is unique for each pod incarnation and each sandbox attempt of a pod (CRI-14).
func sandboxName(pod, namespace, uid string, attempt uint32) string {
	return pod + "_" + namespace + "_" + uid + "_" + strconv.FormatUint(uint64(attempt), 10)
}

func containerName(req *proto.CreateContainerRequest, box *proto.Sandbox) string {
	return req.Name + "_" + sandboxName(box.PodName, box.PodNamespace, box.PodUid, req.Attempt)
}

// newID returns a sandbox or container id: 64 hex digits, as container runtimes use. Name and time
// together are unique, so ids are too.
func newID(name, parent string, now time.Time) string {
	sum := sha256.Sum256([]byte(name + " " + parent + " " + strconv.FormatInt(now.UnixNano(), 10)))
	return hex.EncodeToString(sum[:])
}

func errorf(code, format string, args ...any) error {
	return &proto.RuntimeError{Code: code, Desc: fmt.Sprintf(format, args...)}
}

func notFound(what, id string) error {
	return errorf(proto.CodeNotFound, "%s %q: not found", what, id)
}
