package runtime

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/store"
)

// CreateContainer implements runtimeapi.Containers.
func (s *service) CreateContainer(ctx context.Context, req *proto.CreateContainerRequest) (string, error) {
	now := s.clock.Now()
	s.mu.Lock()
	box, ok := s.sandboxes[req.SandboxId]
	if !ok {
		s.mu.Unlock()
		return "", notFound("sandbox", req.SandboxId)
	}
	s.applyImage(req)
	name := containerName(req, box.created)
	c := &container{id: newID(name, req.SandboxId, now), request: req, created: now, sandbox: box}
	err := box.checkReady()
	if err == nil {
		err = s.reserveName("container", name, c.id)
	}
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	if err := s.persistContainer(ctx, c); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.releaseName(name, c.id)
		return "", err
	}
	return c.id, nil
}

// applyImage sets what the pod leaves out from the image's entry.
func (s *service) applyImage(req *proto.CreateContainerRequest) {
	image := s.images.catalog.Lookup(req.Image)
	if len(req.Command) == 0 {
		req.Command = image.Command
		if len(req.Args) > 0 && len(image.Command) > 0 {
			req.Command = image.Command[:1] // the pod's arguments replace the image's
		}
	}
	if req.Script == "" {
		req.Script = image.Script
	}
	if req.StopSignal == "" {
		req.StopSignal = image.StopSignal
	}
}

// persistContainer loads a new container into its engine, records it, and registers it if its
// sandbox still exists.
func (s *service) persistContainer(ctx context.Context, c *container) error {
	if _, err := s.engines.Load(ctx, engine.Container{ID: c.id, Handler: c.sandbox.created.RuntimeHandler, Request: c.request}); err != nil {
		return errorf(proto.CodeInvalidArgument, "%v", err)
	}
	op, err := store.PutContainer(store.Container{ID: c.id, Created: c.created, Request: c.request})
	if err != nil {
		s.engines.Remove(ctx, c.id)
		return errorf(proto.CodeInvalidArgument, "%v", err)
	}
	if err := s.commit(op, s.historyEntry(c, store.Entry{What: store.Created}, c.created)); err != nil {
		s.engines.Remove(ctx, c.id)
		return err
	}
	s.mu.Lock()
	gone := c.sandbox.removed
	if !gone {
		s.addContainer(c, c.sandbox)
	}
	s.mu.Unlock()
	if !gone {
		s.history.Record("", history.Create{ContainerRef: c.historyOf(), Script: c.request.GetScript()})
		return nil
	}
	s.engines.Remove(ctx, c.id)
	if err := s.commit(store.RemoveContainer(c.id)...); err != nil {
		return err
	}
	return notFound("sandbox", c.request.SandboxId)
}

// checkReady fails if the sandbox is stopped or being stopped. The caller holds the service's lock.
func (box *sandbox) checkReady() error {
	if box.stopping || box.record.State != proto.SandboxState_SANDBOX_STATE_READY {
		return errorf(proto.CodeUnknown, "sandbox container %q is not running", box.record.Id)
	}
	return nil
}

// StartContainer implements runtimeapi.Containers. If the caller gives up, the start goes on. A
// repeated call waits for the same start.
func (s *service) StartContainer(ctx context.Context, id string) error {
	s.mu.Lock()
	c, ok := s.containers[id]
	begun, err := false, notFound("container", id)
	if ok {
		begun, err = c.claimStart()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !begun {
		if err := s.startContainer(ctx, c); err != nil {
			return err
		}
	}
	s.awaitChange(ctx, c, proto.ContainerState_CONTAINER_STATE_CREATED, time.Time{})
	s.mu.Lock()
	status := c.status
	s.mu.Unlock()
	switch {
	case status.Reason == engine.ReasonStartError:
		return errorf(proto.CodeUnknown, "%s", status.Message)
	case status.State == proto.ContainerState_CONTAINER_STATE_CREATED:
		return runtimeapi.ToRuntimeError(ctx.Err())
	}
	return nil
}

// claimStart makes the caller the only one to start c. If begun is true, an earlier call has
// started c already. The caller holds the lock.
func (c *container) claimStart() (begun bool, err error) {
	if c.status.State != proto.ContainerState_CONTAINER_STATE_CREATED {
		return false, errorf(proto.CodeUnknown, "container is in %s state", c.status.State)
	}
	if c.removing {
		return false, errorf(proto.CodeUnknown, "container is in removing state, can't be started")
	}
	if c.starting && !c.events.Start.IsZero() {
		return true, nil
	}
	if c.starting {
		return false, errorf(proto.CodeUnknown, "container is already in starting state")
	}
	if err := c.sandbox.checkReady(); err != nil {
		return false, err
	}
	c.starting = true
	return false, nil
}

// startContainer records the start, then runs it. If the sandbox was stopped meanwhile, it kills c
// again.
func (s *service) startContainer(ctx context.Context, c *container) error {
	at := s.clock.Steady()
	if err := s.commit(store.PutStart(c.id, at), s.historyEntry(c, store.Entry{What: store.Started}, at)); err != nil {
		s.releaseClaim(&c.starting)
		return err
	}
	s.log.InfoContext(ctx, "container started", s.logAttrs(c)...)
	s.mu.Lock()
	c.events.Start = at
	stopped := c.sandbox.checkReady() != nil
	s.mu.Unlock()
	began := s.history.Now()
	if err := s.engines.Start(ctx, c.id, at); err != nil {
		return errorf(proto.CodeUnknown, "%v", err)
	}
	s.history.RecordSince(began, "", history.Start{ContainerRef: c.historyOf(), Scripted: c.isScripted()})
	if stopped {
		return s.killContainer(ctx, c)
	}
	return nil
}

// RemoveContainer implements runtimeapi.Containers (CRI-16).
func (s *service) RemoveContainer(ctx context.Context, id string) error {
	s.mu.Lock()
	c, ok := s.containers[id]
	var err error
	if ok {
		err = c.claimRemoval()
	}
	s.mu.Unlock()
	if !ok || err != nil {
		return err
	}
	if err := s.killContainer(ctx, c); err != nil {
		s.releaseClaim(&c.removing)
		return wrapError(err, "failed to forcibly stop container %q", id)
	}
	if err := s.deleteContainers(ctx, []*container{c}); err != nil {
		s.releaseClaim(&c.removing)
		return err
	}
	return nil
}

// claimRemoval forbids further starts of c. The caller holds the lock.
func (c *container) claimRemoval() error {
	if c.starting && c.events.Start.IsZero() {
		return errorf(proto.CodeUnknown, "container %q is in starting state, can't be removed", c.id)
	}
	c.removing = true
	return nil
}

// deleteContainers removes dead containers and applies ops in the same commit.
func (s *service) deleteContainers(ctx context.Context, containers []*container, ops ...store.Op) error {
	now := s.clock.Now()
	for _, c := range containers {
		ops = append(ops, store.RemoveContainer(c.id)...)
		ops = append(ops, s.historyEntry(c, store.Entry{What: store.Removed}, now))
	}
	if err := s.commit(ops...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range containers {
		s.history.Record("", history.Remove{ContainerRef: c.historyOf()})
		s.engines.Remove(ctx, c.id)
		delete(s.containers, c.id)
		s.releaseName(containerName(c.request, c.sandbox.created), c.id)
		c.sandbox.containers = slices.DeleteFunc(c.sandbox.containers, func(other *container) bool { return other == c })
	}
	return nil
}

// ContainerStatus implements runtimeapi.Containers.
func (s *service) ContainerStatus(_ context.Context, id string) (*proto.Container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.containers[id]
	if !ok {
		return nil, notFound("container", id)
	}
	return s.toProto(c), nil
}

// ListContainers implements runtimeapi.Containers.
func (s *service) ListContainers(_ context.Context, podUID string) ([]*proto.Container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var containers []*container
	for _, box := range s.sandboxesOf(podUID) {
		containers = append(containers, box.containers...)
	}
	slices.SortFunc(containers, func(a, b *container) int { return cmp.Compare(a.order, b.order) })
	views := make([]*proto.Container, 0, len(containers))
	for _, c := range containers {
		views = append(views, s.toProto(c))
	}
	return views, nil
}

// toProto returns the container's status in CRI's form (CRI-05). The caller holds the lock.
func (s *service) toProto(c *container) *proto.Container {
	return &proto.Container{
		Id: c.id, SandboxId: c.request.SandboxId, Name: c.request.Name, Attempt: c.request.Attempt,
		Image: c.request.Image, State: c.status.State,
		CreatedAtUnixNano: c.created.UnixNano(), StartedAtUnixNano: unixNano(s.clock.ApplySkew(c.status.StartedAt)),
		FinishedAtUnixNano: unixNano(s.clock.ApplySkew(c.status.FinishedAt)),
		ExitCode:           c.status.ExitCode, Reason: c.status.Reason, Message: c.status.Message,
		Labels: c.request.Labels, Annotations: c.request.Annotations, StopSignal: engine.StopSignal(c.request),
	}
}
