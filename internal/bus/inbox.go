package bus

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/proto"
)

// inbox sorts what arrives for this connection under
//
//	r.<self>.<sender>.<connection>.<number>
//
// Answers arrive there for requests, and credits for the answers that are sent in
// parts. The bus has checked the sender; the connection is a random word, so that
// several connections of one identity read only their own; the number is never used
// twice. A message is taken only when its whole subject is the one expected, so that
// no third party can answer.
type inbox struct {
	self  string // "r.<self>."
	id    proto.Identity
	conn  string // "<connection>."
	token string // our identity as a token
	mu    sync.Mutex
	next  uint64
	ears  map[uint64]ear
}

// ear is what waits for messages on one subject of the inbox. Its methods are called
// under the inbox's lock and do not block.
type ear interface {
	// hear takes a message.
	hear(msg *nats.Msg)
	// fail ends the waiting with err.
	fail(err error)
	// expects is the one subject on which it listens, and the request that it belongs
	// to, if any.
	expects() (subject, request string)
}

func (in *inbox) init(id proto.Identity, conn string) {
	in.id, in.token = id, id.Token()
	in.self = proto.RootReply + "." + in.token + "."
	in.conn = conn + "."
	in.ears = map[uint64]ear{}
}

// subject is what the connection subscribes to.
func (in *inbox) subject() string { return in.self + "*." + in.conn + "*" }

// add registers what build makes for a new subject on which only from may speak.
func (in *inbox) add(from proto.Identity, build func(subject string) ear) uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.next++
	in.ears[in.next] = build(proto.ReplySubject(in.id, from, in.conn+strconv.FormatUint(in.next, 36)))
	return in.next
}

func (in *inbox) remove(number uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.ears, number)
}

// deliver gives msg to the ear that waits for it; false means that none does.
func (in *inbox) deliver(msg *nats.Msg) bool {
	number, err := strconv.ParseUint(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], 36, 64)
	if err != nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	waiting, ok := in.ears[number]
	if !ok {
		return false
	}
	if subject, _ := waiting.expects(); subject != msg.Subject {
		return false
	}
	waiting.hear(msg)
	return true
}

// failAll ends all waiting with err.
func (in *inbox) failAll(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, waiting := range in.ears {
		waiting.fail(err)
	}
}

// failRequests ends with err the waiting for answers to requests on subject.
func (in *inbox) failRequests(subject string, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, waiting := range in.ears {
		if _, request := waiting.expects(); request == subject {
			waiting.fail(err)
		}
	}
}

// hear takes one message of the inbox. A part of an answer that nobody waits for any
// more is answered with the news that the reader is gone, so that its sender stops.
func (c *Conn) hear(ctx context.Context, msg *nats.Msg) {
	if c.inbox.deliver(msg) || msg.Reply == "" {
		return
	}
	sender, _, _ := strings.Cut(strings.TrimPrefix(msg.Subject, c.inbox.self), ".")
	if c.mayCredit(sender, msg.Reply) {
		c.tellGone(ctx, msg.Reply)
	}
}
