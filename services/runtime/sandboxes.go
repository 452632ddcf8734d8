package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/store"
)

// RunPodSandbox implements runtimeapi.Sandboxes.
func (s *service) RunPodSandbox(_ context.Context, req *proto.RunPodSandboxRequest) (*proto.Sandbox, error) {
	if req.PodUid == "" {
		return nil, errorf(proto.CodeInvalidArgument, "a sandbox needs the uid of its pod")
	}
	handler, err := s.engines.resolveHandler(req.RuntimeHandler)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	name := sandboxName(req.PodName, req.PodNamespace, req.PodUid, req.Attempt)
	record := &proto.Sandbox{
		Id: newID(name, "", now), PodName: req.PodName, PodNamespace: req.PodNamespace, PodUid: req.PodUid,
		Attempt: req.Attempt, CreatedAtUnixNano: now.UnixNano(), Labels: req.Labels, Annotations: req.Annotations,
		RuntimeHandler: handler,
	}
	s.mu.Lock()
	err = s.reserveName("sandbox", name, record.Id)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.persistSandbox(record); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.releaseName(name, record.Id)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addSandbox(record)
	return record, nil
}

// persistSandbox allocates the address of a new sandbox and records the sandbox.
func (s *service) persistSandbox(record *proto.Sandbox) error {
	ip, err := s.network.allocate()
	if err != nil {
		return errorf(proto.CodeUnknown, "failed to setup network for sandbox %q: %v", record.Id, err)
	}
	record.Ip = ip
	if err := s.commitSandbox(record); err != nil {
		s.network.release(ip)
		return err
	}
	return nil
}

func (s *service) commitSandbox(record *proto.Sandbox) error {
	op, err := store.PutSandbox(record)
	if err != nil {
		return errorf(proto.CodeInvalidArgument, "%v", err)
	}
	return s.commit(op)
}

// StopPodSandbox implements runtimeapi.Sandboxes (CRI-04, CRI-10). The sandbox is NOTREADY once its
// containers are dead. The network teardown may fail for longer, and each attempt then returns an
// error.
func (s *service) StopPodSandbox(ctx context.Context, id string) error {
	s.mu.Lock()
	box, ok := s.sandboxes[id]
	if !ok {
		s.mu.Unlock()
		return nil
	}
	box.stopping = true
	containers := slices.Clone(box.containers)
	s.mu.Unlock()

	for _, c := range containers {
		if err := s.killContainer(ctx, c); err != nil {
			return wrapError(err, "failed to stop container %q", c.id)
		}
	}
	if err := s.markStopped(box); err != nil {
		return err
	}
	return s.tearDownNetwork(box)
}

// markStopped records the sandbox as NOTREADY.
func (s *service) markStopped(box *sandbox) error {
	s.mu.Lock()
	record := box.record
	s.mu.Unlock()
	if record.State == proto.SandboxState_SANDBOX_STATE_NOTREADY {
		return nil
	}
	stopped, ok := protobuf.Clone(record).(*proto.Sandbox)
	if !ok {
		return errorf(proto.CodeUnknown, "sandbox %q cannot be copied", record.Id)
	}
	stopped.State = proto.SandboxState_SANDBOX_STATE_NOTREADY
	if err := s.commitSandbox(stopped); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	box.record = stopped
	return nil
}

// tearDownNetwork releases the sandbox's address. It is idempotent.
func (s *service) tearDownNetwork(box *sandbox) error {
	now := s.clock.Steady()
	s.mu.Lock()
	defer s.mu.Unlock()
	if box.teardown.IsZero() {
		box.teardown = now
	}
	if why := teardownFails(box.record, box.teardown, now); why != "" {
		return errorf(proto.CodeUnknown, "failed to destroy network for sandbox %q: %s", box.record.Id, why)
	}
	if !box.released {
		s.history.Record("", history.SandboxStop{Pod: box.created.PodNamespace + "/" + box.created.PodName, UID: box.created.PodUid})
		box.released = true
		s.network.release(box.record.Ip)
	}
	return nil
}

// RemovePodSandbox implements runtimeapi.Sandboxes.
func (s *service) RemovePodSandbox(ctx context.Context, id string) error {
	if err := s.StopPodSandbox(ctx, id); err != nil {
		return wrapError(err, "failed to forcibly stop sandbox %q", id)
	}
	s.mu.Lock()
	box, ok := s.sandboxes[id]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	containers, err := s.claimSandboxRemoval(box)
	if err != nil {
		return err
	}
	if err := s.deleteContainers(ctx, containers, store.RemoveSandbox(id)...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.Record("", history.SandboxRemove{Pod: box.created.PodNamespace + "/" + box.created.PodName, UID: box.created.PodUid})
	delete(s.sandboxes, id)
	s.releaseName(sandboxName(box.created.PodName, box.created.PodNamespace, box.created.PodUid, box.created.Attempt), id)
	return nil
}

// claimSandboxRemoval forbids new containers and starts in a stopped sandbox, and returns its
// remaining containers.
func (s *service) claimSandboxRemoval(box *sandbox) ([]*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range box.containers {
		if err := c.claimRemoval(); err != nil {
			return nil, err
		}
	}
	box.removed = true
	return slices.Clone(box.containers), nil
}

// PodSandboxStatus implements runtimeapi.Sandboxes.
func (s *service) PodSandboxStatus(_ context.Context, id string) (*proto.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	box, ok := s.sandboxes[id]
	if !ok {
		return nil, notFound("sandbox", id)
	}
	return box.record, nil
}

// ListPodSandbox implements runtimeapi.Sandboxes.
func (s *service) ListPodSandbox(_ context.Context, podUID string) ([]*proto.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	boxes := s.sandboxesOf(podUID)
	records := make([]*proto.Sandbox, 0, len(boxes))
	for _, box := range boxes {
		records = append(records, box.record)
	}
	return records, nil
}

// sandboxesOf returns a pod's sandboxes, or all sandboxes if podUID is empty, in creation order.
// The caller holds the lock.
func (s *service) sandboxesOf(podUID string) []*sandbox {
	var boxes []*sandbox
	for _, box := range s.sandboxes {
		if podUID == "" || box.record.PodUid == podUID {
			boxes = append(boxes, box)
		}
	}
	slices.SortFunc(boxes, func(a, b *sandbox) int { return cmp.Compare(a.order, b.order) })
	return boxes
}

// wrapError prefixes an error's text and keeps its runtime code.
func wrapError(err error, format string, args ...any) error {
	refused := runtimeapi.ToRuntimeError(err)
	return errorf(refused.Code, "%s: %s", fmt.Sprintf(format, args...), refused.Desc)
}
