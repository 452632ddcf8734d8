package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/podfall/podfall/internal/clock"
)

// wantsWebSocket reports whether a client asks for a WebSocket.
func wantsWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// newUpgrader returns an upgrader for the subprotocols. It need not check the Origin: the guard
// refuses requests with one.
func newUpgrader(subprotocols ...string) *websocket.Upgrader {
	return &websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, Subprotocols: subprotocols}
}

// upgradeWatch upgrades the connection to a WebSocket.
func (c *call) upgradeWatch(ctx context.Context, frames *framer) (sink, error) {
	conn, err := newUpgrader().Upgrade(c.w, c.r, nil)
	if err != nil {
		return nil, err
	}
	s := &socketSink{conn: conn, message: websocket.TextMessage}
	if frames.printer.form.media == mediaProtobuf {
		s.message = websocket.BinaryMessage
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.reading.Go(s.readLoop)
	return s, nil
}

// socketSink writes a watch as messages of a WebSocket.
type socketSink struct {
	conn    *websocket.Conn
	message int
	ctx     context.Context //nolint:containedctx // ends with the connection
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

// readLoop notices that the client has left. Its messages are dropped.
func (s *socketSink) readLoop() {
	defer s.cancel()
	for {
		if _, _, err := s.conn.NextReader(); err != nil {
			return
		}
	}
}

func (s *socketSink) write(frame []byte) error {
	if err := s.conn.SetWriteDeadline(clock.Clock{}.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return s.conn.WriteMessage(s.message, frame)
}

func (s *socketSink) flush() error { return nil }

func (s *socketSink) context() context.Context { return s.ctx }

func (s *socketSink) close() {
	end := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = s.conn.WriteControl(websocket.CloseMessage, end, clock.Clock{}.Now().Add(writeTimeout)) // it may be gone
	_ = s.conn.Close()                                                                          // there is no more to say
	s.cancel()
	s.reading.Wait()
}
