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
		return nil, refuse(proto.CodeInvalidArgument, "a sandbox needs the uid of its pod")
	}
	handler, err := s.engines.handler(req.RuntimeHandler)
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
	err = s.reserve("sandbox", name, record.Id)
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := s.writeSandbox(record); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free(name, record.Id)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addSandbox(record)
	return record, nil
}

// persistSandbox allocates the address of a new sandbox and records the sandbox.
func (s *service) writeSandbox(record *proto.Sandbox) error {
	ip, err := s.network.give()
	if err != nil {
		return refuse(proto.CodeUnknown, "failed to setup network for sandbox %q: %v", record.Id, err)
	}
	record.Ip = ip
	if err := s.putSandbox(record); err != nil {
		s.network.giveBack(ip)
		return err
	}
	return nil
}

func (s *service) putSandbox(record *proto.Sandbox) error {
	op, err := store.PutSandbox(record)
	if err != nil {
		return refuse(proto.CodeInvalidArgument, "%v", err)
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
		if err := s.kill(ctx, c); err != nil {
			return wrap(err, "failed to stop container %q", c.id)
		}
	}
	if err := s.markStopped(box); err != nil {
		return err
	}
	return s.tearDown(box)
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
		return refuse(proto.CodeUnknown, "sandbox %q cannot be copied", record.Id)
	}
	stopped.State = proto.SandboxState_SANDBOX_STATE_NOTREADY
	if err := s.putSandbox(stopped); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	box.record = stopped
	return nil
}

// tearDownNetwork releases the sandbox's address. It is idempotent.
func (s *service) tearDown(box *sandbox) error {
	now := s.clock.Steady()
	s.mu.Lock()
	defer s.mu.Unlock()
	if box.teardown.IsZero() {
		box.teardown = now
	}
	if why := teardownFails(box.record, box.teardown, now); why != "" {
		return refuse(proto.CodeUnknown, "failed to destroy network for sandbox %q: %s", box.record.Id, why)
	}
	if !box.released {
		s.history.Note("", history.SandboxStop{Pod: box.born.PodNamespace + "/" + box.born.PodName, UID: box.born.PodUid})
		box.released = true
		s.network.giveBack(box.record.Ip)
	}
	return nil
}

// RemovePodSandbox implements runtimeapi.Sandboxes.
func (s *service) RemovePodSandbox(ctx context.Context, id string) error {
	if err := s.StopPodSandbox(ctx, id); err != nil {
		return wrap(err, "failed to forcibly stop sandbox %q", id)
	}
	s.mu.Lock()
	box, ok := s.sandboxes[id]
	s.mu.Unlock()
	if !ok {
		return nil
	}
	containers, err := s.closeSandbox(box)
	if err != nil {
		return err
	}
	if err := s.forget(ctx, containers, store.RemoveSandbox(id)...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.Note("", history.SandboxRemove{Pod: box.born.PodNamespace + "/" + box.born.PodName, UID: box.born.PodUid})
	delete(s.sandboxes, id)
	s.free(sandboxName(box.born.PodName, box.born.PodNamespace, box.born.PodUid, box.born.Attempt), id)
	return nil
}

// claimSandboxRemoval forbids new containers and starts in a stopped sandbox, and returns its
// remaining containers.
func (s *service) closeSandbox(box *sandbox) ([]*container, error) {
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
	boxes := s.boxesOf(podUID)
	records := make([]*proto.Sandbox, 0, len(boxes))
	for _, box := range boxes {
		records = append(records, box.record)
	}
	return records, nil
}

// sandboxesOf returns a pod's sandboxes, or all sandboxes if podUID is empty, in creation order.
// The caller holds the lock.
func (s *service) boxesOf(podUID string) []*sandbox {
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
func wrap(err error, format string, args ...any) error {
	refused := runtimeapi.Refusal(err)
	return refuse(refused.Code, "%s: %s", fmt.Sprintf(format, args...), refused.Desc)
}
