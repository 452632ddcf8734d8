package runtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/images"
)

// An image with a pull is not on the node until it has been pulled, or a container on
// record was made of it; all others are.
func TestPullImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book, err := images.Parse([]byte(`
images:
- {match: big, pull: {takes: 20s, size: 1Ki}}
- {match: gone, pull: {takes: 1s, error: not found}}
`))
		if err != nil {
			t.Fatal(err)
		}
		s := &service{images: &nodeImages{catalog: book, pulled: map[string]bool{}}}
		present := func(image string, want bool) {
			t.Helper()
			if got, err := s.ImageStatus(t.Context(), image); err != nil || got != want {
				t.Errorf("ImageStatus(%s) = %v, %v, want %v", image, got, err, want)
			}
		}
		present("nginx", true)
		present("big:v1", false)
		began := time.Now()
		if size, err := s.PullImage(t.Context(), "big:v1"); err != nil || size != 1024 || time.Since(began) != 20*time.Second {
			t.Errorf("PullImage(big) = %d, %v after %v", size, err, time.Since(began))
		}
		present("big:v1", true)
		present("big:v2", false)
		if _, err := s.PullImage(t.Context(), "gone"); !proto.IsRuntimeCode(err, proto.CodeUnknown) {
			t.Errorf("PullImage(gone): %v", err)
		}
		present("gone", false)
		s.containers = map[string]*container{"c": {request: &proto.CreateContainerRequest{Image: "gone"}}}
		present("gone", true)
	})
}
