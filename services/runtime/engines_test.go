package runtime_test

import (
	"testing"

	"github.com/podfall/podfall/proto"
)

// TestHandler: a sandbox selects its engine by the handler of a RuntimeClass.
func TestHandler(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		request := &proto.RunPodSandboxRequest{PodName: "web", PodNamespace: "default", PodUid: "u", RuntimeHandler: "vm"}
		_, err := n.RunPodSandbox(t.Context(), request)
		wantError(t, "run", err, `rpc error: code = Unknown desc = no runtime for "vm" is configured: want one of scripted`)
		for _, handler := range []string{"", "scripted"} {
			request.RuntimeHandler = handler
			request.Attempt++
			box, err := n.RunPodSandbox(t.Context(), request)
			if err != nil || box.RuntimeHandler != "scripted" {
				t.Errorf("handler %q: %v, %v", handler, box, err)
			}
		}
	})
}
