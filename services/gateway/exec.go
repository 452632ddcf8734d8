package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/remote"
	"github.com/podfall/podfall/proto"
)

const (
	// remoteCommand5 and remoteCommand4 are the subprotocols of exec and attach that end with a
	// Status. With version 5 a client can close its stdin.
	remoteCommand5 = "v5.channel.k8s.io"
	remoteCommand4 = "v4.channel.k8s.io"
)

// serveStream serves exec and attach. The kubelet authorizes the session and decides its result.
func (c *call) serveStream() error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodPost {
		return notAllowed()
	}
	pod, err := c.getPod(c.r.Context())
	if err != nil {
		return err
	}
	container, err := selectContainer(pod, c.query.Get("container"))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	if err := c.checkUpgrade(); err != nil {
		return err
	}
	request := proto.StreamRequest{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: container, TTY: isTrue(c.query, "tty"),
		Stdin: isTrue(c.query, "stdin"), Stdout: isTrue(c.query, "stdout"), Stderr: isTrue(c.query, "stderr"),
	}
	if c.route.subresource == "exec" {
		request.Command = c.query["command"]
	}
	server, refusal := c.openKubeletStream(pod.Spec.NodeName, request)
	if server != nil {
		defer server.Close()
	}
	if refusal != nil && (!wantsWebSocket(c.r) || isRefusedBeforeUpgrade(refusal)) {
		return refusal
	}
	if !wantsWebSocket(c.r) {
		return errOnlyWebSocket()
	}
	client, err := c.upgradeToStream(request)
	if err != nil {
		return nil // the upgrader has answered
	}
	defer client.close()
	if refusal == nil {
		refusal = c.relayStream(client, server, pod.Spec.NodeName)
	}
	if refusal != nil {
		_ = remote.SendStatus(c.r.Context(), client, proto.StatusFrom(refusal)) // it may have left
	}
	return nil
}

// checkUpgrade refuses requests without an upgrade, and upgrades to an unknown protocol.
func (c *call) checkUpgrade() error {
	if !strings.Contains(strings.ToLower(c.r.Header.Get("Connection")), "upgrade") || c.r.Header.Get("Upgrade") == "" {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	if !wantsWebSocket(c.r) {
		return nil // refused later: errors of the container come first
	}
	if c.r.Method != http.MethodGet {
		return notAllowed()
	}
	offered := websocket.Subprotocols(c.r)
	if !slices.Contains(offered, remoteCommand5) && !slices.Contains(offered, remoteCommand4) {
		return apierrors.NewBadRequest(fmt.Sprintf("unable to upgrade: unable to negotiate protocol: client supports %v, server accepts [%s %s]",
			offered, remoteCommand5, remoteCommand4))
	}
	return nil
}

// errOnlyWebSocket refuses SPDY, which WebSockets have replaced.
func errOnlyWebSocket() error {
	return apierrors.NewBadRequest(fmt.Sprintf(
		"unable to upgrade: this server speaks WebSocket (%s, %s) and not SPDY: want a client that does, such as kubectl 1.31 or later",
		remoteCommand5, remoteCommand4))
}

// isRefusedBeforeUpgrade reports whether a refusal is sent before the upgrade. Upstream sends a
// kubelet's refusal after the upgrade. Only the refusal of containers without a process comes
// before.
func isRefusedBeforeUpgrade(refusal error) bool {
	var status apierrors.APIStatus
	return errors.As(refusal, &status) && status.Status().Code == http.StatusNotImplemented
}

// openKubeletStream asks the kubelet for a session, and returns it once the kubelet offers it.
// Nothing runs until the offer is accepted.
func (c *call) openKubeletStream(node string, request proto.StreamRequest) (*bus.Pipe, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := clock.Clock{}.Timeout(c.r.Context(), nodeTimeout)
	defer cancel()
	server, err := c.cfg.Bus.Open(ctx, proto.Node(node), proto.NodeSubject(node, c.route.subresource), data)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("error dialing backend: node %s does not answer: %w", node, err))
	}
	err = remote.AwaitOffer(ctx, server)
	var refused apierrors.APIStatus
	if err != nil && !errors.As(err, &refused) {
		err = apierrors.NewInternalError(fmt.Errorf("error dialing backend: node %s does not answer: %w", node, err))
	}
	return server, err
}

// relayStream accepts the offer and relays frames until either side ends the session.
func (c *call) relayStream(client *clientStream, server *bus.Pipe, node string) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	client.helpers.Go(func() {
		select {
		case <-c.ending:
			cancel()
		case <-stop:
		}
	})
	err := client.greet(ctx)
	if err == nil {
		err = remote.AcceptOffer(ctx, server)
	}
	if err == nil {
		err = remote.Relay(ctx, client, server)
	}
	if err != nil && ctx.Err() == nil {
		return apierrors.NewInternalError(fmt.Errorf("error executing command in container: node %s has gone: %w", node, err))
	}
	return nil
}
