package gateway

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto"
)

// subresourceHandler returns the handler of a subresource that is not an object; false for all
// others.
func (c *call) subresourceHandler() (serve func() error, ok bool) {
	if c.kind.Group != corev1.GroupName {
		return nil, false
	}
	switch c.kind.Resource + "/" + c.route.subresource {
	case "pods/log":
		return c.serveLog, true
	case "pods/exec", "pods/attach":
		return c.serveStream, true
	case "pods/portforward":
		return c.refusePortForward, true
	case "pods/proxy", "services/proxy", "nodes/proxy":
		return c.refuseProxy, true
	}
	return nil, false
}

// refusePortForward refuses to forward ports: a scripted container has none, and the ports of a
// real program are open on this machine.
func (c *call) refusePortForward() error {
	pod, err := c.getPod(c.r.Context())
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	return notImplemented(fmt.Sprintf("no port of pod %s is forwarded: a scripted container has no process that listens, "+
		"and a real program listens on this machine, on 127.0.0.1, where it can be reached without", pod.Name))
}

// refuseProxy refuses proxying: no program listens on the cluster's addresses.
func (c *call) refuseProxy() error {
	return notImplemented(fmt.Sprintf("%s %s cannot be reached: the addresses of this cluster lead nowhere", c.kind.Singular, c.route.name))
}

func notImplemented(message string) error {
	return &apierrors.StatusError{ErrStatus: *proto.NotImplemented(message)}
}

// nodeTimeout is how long, in wall-clock time, a kubelet may take to answer.
const nodeTimeout = 10 * time.Second
