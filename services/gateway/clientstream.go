package gateway

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

const (
	// pingInterval is the wall-clock time between two pings of a client.
	pingInterval = 5 * time.Second
	// closeTimeout is how long a client may take to close. Until then its messages are read:
	// closing a connection with unread data discards what was sent.
	closeTimeout = time.Second
	// maxPingWait is how long a ping may wait for a client that reads slowly.
	maxPingWait = 24 * time.Hour
	// maxMessage is the longest message from a client in bytes.
	maxMessage = 1 << 20
)

// clientStream is the client's end of an exec or attach session. Frames are messages of a
// WebSocket. It is a remote.Conn.
type clientStream struct {
	conn *websocket.Conn
	// greetingChannel is the first channel that the client reads.
	greetingChannel proto.Channel
	// acceptedChannels are the channels that the client may write to.
	acceptedChannels []proto.Channel
	frames           chan []byte
	gone             chan struct{}
	goneOnce         sync.Once
	closing          chan struct{}
	reading          sync.WaitGroup
	helpers          sync.WaitGroup
}

// upgradeToStream upgrades the connection to a WebSocket. If that fails, the upgrader has answered.
func (c *call) upgradeToStream(request proto.StreamRequest) (*clientStream, error) {
	conn, err := newUpgrader(remoteCommand5, remoteCommand4).Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	s := &clientStream{
		conn: conn, greetingChannel: proto.ChannelError,
		frames: make(chan []byte), gone: make(chan struct{}), closing: make(chan struct{}),
	}
	switch {
	case request.Stdout:
		s.greetingChannel = proto.ChannelStdout
	case request.Stderr:
		s.greetingChannel = proto.ChannelStderr
	}
	if request.Stdin {
		s.acceptedChannels = append(s.acceptedChannels, proto.ChannelStdin)
	}
	if request.TTY {
		s.acceptedChannels = append(s.acceptedChannels, proto.ChannelResize)
	}
	if conn.Subprotocol() == remoteCommand5 {
		s.acceptedChannels = append(s.acceptedChannels, proto.ChannelClose)
	}
	s.reading.Go(s.readLoop)
	s.helpers.Go(s.pingLoop)
	return s, nil
}

// greet sends an empty frame when the connection is established, as upstream does.
func (s *clientStream) greet(ctx context.Context) error {
	return s.Send(ctx, proto.StreamFrame(s.greetingChannel, nil))
}

// readLoop reads the client's messages until it leaves, and drops those on other channels.
func (s *clientStream) readLoop() {
	defer s.markGone()
	for {
		_, message, err := s.conn.ReadMessage()
		if err != nil {
			return
		}
		channel, data, err := proto.ParseStreamFrame(message)
		if err != nil || !slices.Contains(s.acceptedChannels, channel) {
			continue
		}
		for part := range slices.Chunk(data, proto.MaxStreamFrame) {
			select {
			case s.frames <- proto.StreamFrame(channel, part):
			case <-s.closing:
			case <-s.gone:
			}
		}
	}
}

// pingLoop detects that the client has left even if nothing is read from it.
func (s *clientStream) pingLoop() {
	again := clock.Clock{}.Ticker(pingInterval)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if s.conn.WriteControl(websocket.PingMessage, nil, clock.Clock{}.Now().Add(maxPingWait)) != nil {
				s.markGone()
				_ = s.conn.Close() // and so reading ends
				return
			}
		case <-s.gone:
			return
		case <-s.closing:
			return
		}
	}
}

func (s *clientStream) markGone() { s.goneOnce.Do(func() { close(s.gone) }) }

// Send implements remote.Conn. It blocks while the client does not read.
func (s *clientStream) Send(ctx context.Context, frame []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.NetConn().SetWriteDeadline(clock.Clock{}.Now()) })
	defer stop()
	if err := s.conn.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	return s.conn.WriteMessage(websocket.BinaryMessage, frame)
}

// Receive implements remote.Conn.
func (s *clientStream) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-s.frames:
		return frame, nil
	case <-s.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done implements remote.Conn.
func (s *clientStream) Done() <-chan struct{} { return s.gone }

// close sends a close message, and reads until the client has closed.
func (s *clientStream) close() {
	close(s.closing)
	now := clock.Clock{}.Now()
	end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, end, now.Add(closeTimeout)) // it may be gone
	_ = s.conn.SetReadDeadline(now.Add(closeTimeout))
	s.reading.Wait()
	_ = s.conn.Close() // there is no more to say
	s.helpers.Wait()
}
