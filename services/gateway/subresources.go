package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

// streaming is how to serve a subresource that is not an object; false for all others.
func (c *call) streaming() (serve func() error, ok bool) {
	if c.kind.Group != corev1.GroupName {
		return nil, false
	}
	switch c.kind.Resource + "/" + c.route.subresource {
	case "pods/log":
		return c.log, true
	case "pods/exec", "pods/attach", "pods/portforward":
		return c.noProcess, true
	case "pods/proxy", "services/proxy", "nodes/proxy":
		return c.noNetwork, true
	}
	return nil, false
}

// noProcess refuses what needs a process, or a port that one listens on.
func (c *call) noProcess() error {
	pod, err := c.pod(c.r.Context())
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	container := c.query.Get("container")
	if c.route.subresource != "portforward" {
		if container, err = containerOf(pod, container); err != nil {
			return err
		}
	}
	switch c.route.subresource {
	case "exec":
		return notImplemented(fmt.Sprintf("container %s of pod %s is scripted: it has no process to run a command in", container, pod.Name))
	case "attach":
		return notImplemented(fmt.Sprintf("container %s of pod %s is scripted: it has no process to attach to", container, pod.Name))
	}
	return notImplemented(fmt.Sprintf("the containers of pod %s are scripted: no process listens on a port", pod.Name))
}

// noNetwork refuses what needs an address that something listens on.
func (c *call) noNetwork() error {
	return notImplemented(fmt.Sprintf("%s %s cannot be reached: the addresses of this cluster lead nowhere", c.kind.Singular, c.route.name))
}

func notImplemented(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: "NotImplemented",
		Message: message, Details: &metav1.StatusDetails{},
	}}
}

// nodeTimeout is how long, on the wall, a kubelet may take to answer.
const nodeTimeout = 10 * time.Second

// nodes asks a kubelet for the logs that it has.
func (c *call) nodes(ctx context.Context, node string, request []byte) ([]byte, error) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, nodeTimeout)
	defer cancel()
	return c.cfg.Bus.Request(ctx, proto.Node(node), proto.NodeSubject(node, "logs"), request)
}
