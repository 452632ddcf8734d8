package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/podfall/podfall/proto"
)

// What a kubelet asks of its node's runtime. The body of a Call is a RuntimeRequest with
// one of the CRI bodies in it, and of its Answered a RuntimeResponse.
type (
	// RuntimeRequest is a request with the client's boot and its deadline.
	RuntimeRequest struct {
		Boot  proto.Boot
		Until time.Time
		Do    any
	}
	// RuntimeResponse holds a *proto.Sandbox, the id of a container, a Listing, an exit
	// code or nothing; or a *proto.RuntimeError.
	RuntimeResponse struct {
		Body any
		Err  error
	}

	// RunSandbox is RunPodSandbox of CRI.
	RunSandbox struct{ Request *proto.RunPodSandboxRequest }
	// StopSandbox is StopPodSandbox.
	StopSandbox struct{ ID string }
	// RemoveSandbox is RemovePodSandbox.
	RemoveSandbox struct{ ID string }
	// CreateContainer is CRI's, too.
	CreateContainer struct{ Request *proto.CreateContainerRequest }
	// StartContainer is CRI's.
	StartContainer struct{ ID string }
	// StopContainer is CRI's.
	StopContainer struct {
		ID string
		// Timeout is in seconds.
		Timeout int64
	}
	// RemoveContainer is CRI's.
	RemoveContainer struct{ ID string }
	// Exec runs a command inside a container, and answers with its exit code.
	Exec struct{ ID string }
	// Reach asks a container over its network.
	Reach struct{ ID string }
	// List is ListPodSandbox and ListContainers in one; an empty UID lists the node.
	List struct{ UID string }

	// Listing lists what a runtime holds.
	Listing struct {
		Boot       proto.Boot
		Sandboxes  []*proto.Sandbox
		Containers []*proto.Container
	}

	// News is a Message to the kubelet: something in the runtime has changed. The product
	// has none; there the kubelet lists every second, which here would be most of what
	// happens. A kubelet that gets one lists when it would have listed next.
	News struct {
		// Boot is the runtime's; what was asked of an earlier one is lost.
		Boot proto.Boot
	}
)

// Trace writes the request into the run's trace.
func (r RuntimeRequest) Trace(trace io.Writer) {
	switch do := r.Do.(type) {
	case RunSandbox:
		_, _ = fmt.Fprint(trace, "run", do.Request.PodUid, do.Request.Attempt)
	case CreateContainer:
		_, _ = fmt.Fprint(trace, "create", do.Request.SandboxId, do.Request.Name, do.Request.Attempt)
	default: // plain values
		_, _ = fmt.Fprintf(trace, "%T%v", do, do)
	}
}

// Trace writes the answer into the run's trace.
func (r RuntimeResponse) Trace(trace io.Writer) {
	switch body := r.Body.(type) {
	case Listing:
		for _, s := range body.Sandboxes {
			_, _ = fmt.Fprint(trace, s.Id, s.State)
		}
		for _, c := range body.Containers {
			_, _ = fmt.Fprint(trace, c.Id, c.State, c.ExitCode)
		}
	case *proto.Sandbox:
		_, _ = io.WriteString(trace, body.Id)
	default: // plain values
		_, _ = fmt.Fprintf(trace, "%v%v", body, r.Err)
	}
}
