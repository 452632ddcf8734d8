package runtime

import (
	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/proto"
)

// requestTarget returns what a request is about, for fault selection.
func (s *service) asked(request protobuf.Message) fault.About {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch q := request.(type) {
	case *proto.RunPodSandboxRequest:
		return fault.About{Namespace: q.GetPodNamespace(), Pod: q.GetPodName()}
	case *proto.CreateContainerRequest:
		about := s.boxNamed(q.GetSandboxId())
		about.Container = q.GetName()
		return about
	case interface{ GetContainerId() string }:
		if c, ok := s.containers[q.GetContainerId()]; ok {
			return c.named()
		}
	case interface{ GetSandboxId() string }:
		return s.boxNamed(q.GetSandboxId())
	case interface{ GetImage() string }:
		return fault.About{Image: q.GetImage()}
	}
	return fault.About{}
}

// sandboxTarget returns a sandbox's fault target. The caller holds the lock.
func (s *service) boxNamed(id string) fault.About {
	box, ok := s.sandboxes[id]
	if !ok {
		return fault.About{}
	}
	return fault.About{Namespace: box.born.PodNamespace, Pod: box.born.PodName}
}

// faultTarget returns c's fault target.
func (c *container) named() fault.About {
	return fault.About{Namespace: c.sandbox.born.PodNamespace, Pod: c.sandbox.born.PodName, Container: c.request.Name}
}
