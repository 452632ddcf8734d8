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

// The subprotocols of exec and attach: remotecommand's versions whose end is a Status. The
// fifth lets a client close its stdin.
const (
	remoteCommand5 = "v5.channel.k8s.io"
	remoteCommand4 = "v4.channel.k8s.io"
)

// converse lets a client talk with a command in a container, or with the container's own
// program. Whether it may, and how it ends, is the kubelet's to say.
func (c *call) converse() error {
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodPost {
		return notAllowed()
	}
	pod, err := c.pod(c.r.Context())
	if err != nil {
		return err
	}
	container, err := containerOf(pod, c.query.Get("container"))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	if err := c.mayUpgrade(); err != nil {
		return err
	}
	request := proto.StreamRequest{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Container: container, TTY: truth(c.query, "tty"),
		Stdin: truth(c.query, "stdin"), Stdout: truth(c.query, "stdout"), Stderr: truth(c.query, "stderr"),
	}
	if c.route.subresource == "exec" {
		request.Command = c.query["command"]
	}
	server, refused := c.openProcess(pod.Spec.NodeName, request)
	if server != nil {
		defer server.Close()
	}
	if refused != nil && (!webSocket(c.r) || unspoken(refused)) {
		return refused
	}
	if !webSocket(c.r) {
		return errOnlyWebSocket()
	}
	client, err := c.upgradeConversation(request)
	if err != nil {
		return nil // the upgrader has answered
	}
	defer client.close()
	if refused == nil {
		refused = c.talk(client, server, pod.Spec.NodeName)
	}
	if refused != nil {
		_ = remote.SendStatus(c.r.Context(), client, proto.StatusFrom(refused)) // it may have left
	}
	return nil
}

// mayUpgrade refuses what is no upgrade, or to nothing that is spoken here.
func (c *call) mayUpgrade() error {
	if !strings.Contains(strings.ToLower(c.r.Header.Get("Connection")), "upgrade") || c.r.Header.Get("Upgrade") == "" {
		return apierrors.NewBadRequest("Upgrade request required")
	}
	if !webSocket(c.r) {
		return nil // refused later, so that first it is said what is wrong with the container
	}
	if c.r.Method != http.MethodGet {
		return notAllowed()
	}
	asked := websocket.Subprotocols(c.r)
	if !slices.Contains(asked, remoteCommand5) && !slices.Contains(asked, remoteCommand4) {
		return apierrors.NewBadRequest(fmt.Sprintf("unable to upgrade: unable to negotiate protocol: client supports %v, server accepts [%s %s]",
			asked, remoteCommand5, remoteCommand4))
	}
	return nil
}

// errOnlyWebSocket refuses the protocol that WebSockets have replaced.
func errOnlyWebSocket() error {
	return apierrors.NewBadRequest(fmt.Sprintf(
		"unable to upgrade: this server speaks WebSocket (%s, %s) and not SPDY: want a client that does, such as kubectl 1.31 or later",
		remoteCommand5, remoteCommand4))
}

// unspoken reports whether a refusal is told before the upgrade. Upstream tells what a
// kubelet says only after it; that there is no process is ours to say.
func unspoken(refused error) bool {
	var status apierrors.APIStatus
	return errors.As(refused, &status) && status.Status().Code == http.StatusNotImplemented
}

// openProcess asks the kubelet for a conversation, and returns it once it could begin.
// Nothing runs until it does.
func (c *call) openProcess(node string, request proto.StreamRequest) (*bus.Pipe, error) {
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

// talk begins the conversation and passes on what is said, until either side has ended it.
func (c *call) talk(client *conversation, server *bus.Pipe, node string) error {
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
