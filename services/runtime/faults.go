package runtime

import (
	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
)

// requestTarget returns what a request is about, for fault selection.
func (s *service) requestTarget(request protobuf.Message) fault.Attributes {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch q := request.(type) {
	case *proto.RunPodSandboxRequest:
		return fault.Attributes{Namespace: q.GetPodNamespace(), Pod: q.GetPodName()}
	case *proto.CreateContainerRequest:
		about := s.sandboxTarget(q.GetSandboxId())
		about.Container = q.GetName()
		return about
	case interface{ GetContainerId() string }:
		if c, ok := s.containers[q.GetContainerId()]; ok {
			return c.faultTarget()
		}
	case interface{ GetSandboxId() string }:
		return s.sandboxTarget(q.GetSandboxId())
	case interface{ GetImage() string }:
		return fault.Attributes{Image: q.GetImage()}
	}
	return fault.Attributes{}
}

// sandboxTarget returns a sandbox's fault target. The caller holds the lock.
func (s *service) sandboxTarget(id string) fault.Attributes {
	box, ok := s.sandboxes[id]
	if !ok {
		return fault.Attributes{}
	}
	return fault.Attributes{Namespace: box.created.PodNamespace, Pod: box.created.PodName}
}

// faultTarget returns c's fault target.
func (c *container) faultTarget() fault.Attributes {
	return fault.Attributes{Namespace: c.sandbox.created.PodNamespace, Pod: c.sandbox.created.PodName, Container: c.request.Name}
}
