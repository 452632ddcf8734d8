package runtime

import (
	"context"
	"sync"

	"github.com/podfall/podfall/internal/runtimeapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/images"
)

// nodeImages tracks the images that are on the node.
type shelf struct {
	book *images.Book

	mu sync.Mutex
	// pulled holds the images that this incarnation has pulled.
	pulled map[string]bool
}

func (s *shelf) has(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pulled[image]
}

func (s *shelf) put(image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulled[image] = true
}

// ImageStatus implements runtimeapi.Images. An image is on the node if its entry has no pull, if it
// was pulled since the runtime started, or if a recorded container uses it.
func (s *service) ImageStatus(_ context.Context, image string) (bool, error) {
	if s.images.book.For(image).Pull == nil || s.images.has(image) {
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
	pull := s.images.book.For(image).Pull
	if pull == nil {
		return 0, nil
	}
	if err := s.clock.Sleep(ctx, pull.Takes.Duration); err != nil {
		return 0, runtimeapi.Refusal(err)
	}
	if pull.Error != "" {
		return 0, refuse(proto.CodeUnknown, "%s", pull.Error)
	}
	s.images.put(image)
	return pull.Size.Value(), nil
}
