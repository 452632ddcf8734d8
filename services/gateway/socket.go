package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/podfall/podfall/internal/clock"
)

// webSocket reports whether a client wants a WebSocket of its connection.
func webSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// newUpgrader makes WebSockets that speak one of the subprotocols. The guard has seen the
// Origin of a request, and let in none but those without.
func newUpgrader(subprotocols ...string) *websocket.Upgrader {
	return &websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, Subprotocols: subprotocols}
}

// upgrade makes a WebSocket of the connection.
func (c *call) upgrade(ctx context.Context, frames *framer) (sink, error) {
	conn, err := newUpgrader().Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil, err
	}
	s := &socket{conn: conn, message: websocket.TextMessage}
	if frames.printer.form.media == mediaProtobuf {
		s.message = websocket.BinaryMessage
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.reading.Go(s.read)
	return s, nil
}

// socket is a watch in the messages of a WebSocket.
type socket struct {
	conn    *websocket.Conn
	message int
	ctx     context.Context //nolint:containedctx // ends with the connection
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

// read notices that the client has left. What it says besides is nothing to a watch.
func (s *socket) read() {
	defer s.cancel()
	for {
		if _, _, err := s.conn.NextReader(); err != nil {
			return
		}
	}
}

func (s *socket) write(frame []byte) error {
	if err := s.conn.SetWriteDeadline(clock.Clock{}.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return s.conn.WriteMessage(s.message, frame)
}

func (s *socket) flush() error { return nil }

func (s *socket) context() context.Context { return s.ctx }

func (s *socket) close() {
	end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, end, clock.Clock{}.Now().Add(writeTimeout)) // it may be gone
	_ = s.conn.Close()                                                                          // there is no more to say
	s.cancel()
	s.reading.Wait()
}
