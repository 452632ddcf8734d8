package bus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/internal/clock"
)

// unusedNumber is a receiver number that no connection uses.
const unusedNumber = ".0"

// presenceTimeout is how long, in wall time, IsRequesterPresent waits for an answer.
const presenceTimeout = time.Second

// IsRequesterPresent reports whether the connection that made the call is still on the bus, so that
// a handler can check before an irreversible action. A connection that does not answer for a second
// counts as present. If this side is disconnected, no requester counts as present.
//
// It sends a message without receiver to the requester's inbox. The requester answers with "gone".
// If the connection no longer exists, the bus itself answers.
func (call *Call) IsRequesterPresent(ctx context.Context) bool {
	var p *presence
	number := call.conn.inbox.add(call.from, func(subject string) receiver {
		p = &presence{subject: subject, present: make(chan bool, 1)}
		return p
	})
	defer call.conn.inbox.remove(number)
	inbox := call.reply[:strings.LastIndexByte(call.reply, '.')]
	if call.conn.send(inbox+unusedNumber, p.subject, nil) != nil {
		return false
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, presenceTimeout)
	defer cancel()
	select {
	case there := <-p.present:
		return there
	case <-ctx.Done():
		return true
	}
}

// presence waits for the first sign of a connection, or of its absence.
type presence struct {
	subject string
	present chan bool
}

func (p *presence) subjects() (subject, request string) { return p.subject, "" }

func (p *presence) handle(msg *nats.Msg) {
	p.report(msg.Header == nil || msg.Header.Get("Status") != "503")
}

func (p *presence) fail(error) { p.report(false) }

func (p *presence) report(there bool) {
	select {
	case p.present <- there:
	default:
	}
}
