package runtime

import (
	"context"
	"sync"

	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/images"
)

// nodeImages tracks the images that are on the node.
type nodeImages struct {
	catalog *images.Catalog

	mu sync.Mutex
	// pulled holds the images that this incarnation has pulled.
	pulled map[string]bool
}

func (s *nodeImages) has(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulled[image]
}

func (s *nodeImages) put(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulled[image] = true
}

// ImageStatus implements runtimeapi.Images. An image is on the node if its entry has no pull, if it
// was pulled since the runtime started, or if a recorded container uses it.
func (s *service) ImageStatus(_ context.Context, image string) (bool, error) {
	if s.images.catalog.Lookup(image).Pull == nil || s.images.has(image) {
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.containers {
		if c.request.Image == image {
			return true, nil
		}
	}
	return false, nil
}

// PullImage implements runtimeapi.Images.
func (s *service) PullImage(ctx context.Context, image string) (int64, error) {
	pull := s.images.catalog.Lookup(image).Pull
	if pull == nil {
		return 0, nil
	}
	if err := s.clock.Sleep(ctx, pull.Takes.Duration); err != nil {
		return 0, runtimeapi.ToRuntimeError(err)
	}
	if pull.Error != "" {
		return 0, errorf(proto.CodeUnknown, "%s", pull.Error)
	}
	s.images.put(image)
	return pull.Size.Value(), nil
}
