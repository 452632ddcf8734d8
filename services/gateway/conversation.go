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
	// pingEvery is how often, on the wall, a client is asked whether it is there.
	pingEvery = 5 * time.Second
	// lastWords is how long a client may take to say goodbye. Until then it is listened to:
	// a connection that is closed on unread data takes back what was sent.
	lastWords = time.Second
	// longSession is how long a ping may wait for a client that reads slowly.
	longSession = 24 * time.Hour
	// maxMessage is how long a client's message may be.
	maxMessage = 1 << 20
)

// conversation is a client's end of exec or attach: the frames are the messages of a
// WebSocket. It is a remote.Conn.
type conversation struct {
	conn *websocket.Conn
	// lowest is the first channel on which the client hears anything.
	lowest proto.Channel
	// heard are the channels on which the client may speak.
	heard   []proto.Channel
	in      chan []byte
	gone    chan struct{}
	leaving sync.Once
	closing chan struct{}
	reading sync.WaitGroup
	helpers sync.WaitGroup
}

// upgradeConversation makes a WebSocket of the connection. What prevents it has been
// answered.
func (c *call) upgradeConversation(request proto.StreamRequest) (*conversation, error) {
	conn, err := newUpgrader(remoteCommand5, remoteCommand4).Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	s := &conversation{
		conn: conn, lowest: proto.ChannelError,
		in: make(chan []byte), gone: make(chan struct{}), closing: make(chan struct{}),
	}
	switch {
	case request.Stdout:
		s.lowest = proto.ChannelStdout
	case request.Stderr:
		s.lowest = proto.ChannelStderr
	}
	if request.Stdin {
		s.heard = append(s.heard, proto.ChannelStdin)
	}
	if request.TTY {
		s.heard = append(s.heard, proto.ChannelResize)
	}
	if conn.Subprotocol() == remoteCommand5 {
		s.heard = append(s.heard, proto.ChannelClose)
	}
	s.reading.Go(s.read)
	s.helpers.Go(s.ping)
	return s, nil
}

// greet tells the client that the connection stands, as upstream does.
func (s *conversation) greet(ctx context.Context) error {
	return s.Send(ctx, proto.StreamFrame(s.lowest, nil))
}

// read takes in what the client says, also what nobody wants to hear any more.
func (s *conversation) read() {
	defer s.leave()
	for {
		_, message, err := s.conn.ReadMessage()
		if err != nil {
			return
		}
		channel, data, err := proto.ParseStreamFrame(message)
		if err != nil || !slices.Contains(s.heard, channel) {
			continue
		}
		for part := range slices.Chunk(data, proto.MaxStreamFrame) {
			select {
			case s.in <- proto.StreamFrame(channel, part):
			case <-s.closing:
			case <-s.gone:
			}
		}
	}
}

// ping finds out that the client has left also while nothing is read from it.
func (s *conversation) ping() {
	again := clock.Clock{}.Ticker(pingEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if s.conn.WriteControl(websocket.PingMessage, nil, clock.Clock{}.Now().Add(longSession)) != nil {
				s.leave()
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

func (s *conversation) leave() { s.leaving.Do(func() { close(s.gone) }) }

// Send implements remote.Conn. A client that does not read makes it wait, as a pipe does.
func (s *conversation) Send(ctx context.Context, frame []byte) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.NetConn().SetWriteDeadline(clock.Clock{}.Now()) })
	defer stop()
	if err := s.conn.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	return s.conn.WriteMessage(websocket.BinaryMessage, frame)
}

// Receive implements remote.Conn.
func (s *conversation) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-s.in:
		return frame, nil
	case <-s.gone:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Done implements remote.Conn.
func (s *conversation) Done() <-chan struct{} { return s.gone }

// close says goodbye, and listens until the client has.
func (s *conversation) close() {
	close(s.closing)
	now := clock.Clock{}.Now()
	end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, end, now.Add(lastWords)) // it may be gone
	_ = s.conn.SetReadDeadline(now.Add(lastWords))
	s.reading.Wait()
	_ = s.conn.Close() // there is no more to say
	s.helpers.Wait()
}
