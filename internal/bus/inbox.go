package bus

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/proto"
)

// inbox dispatches the messages that arrive for this connection under
//
//	r.<self>.<sender>.<connection>.<number>
//
// Requests get their answers there, and senders of answers in parts get credits. The bus has
// verified the sender. The connection is a random word, so that several connections of one identity
// read only their own messages. The number is never used twice. A message is accepted only if its
// whole subject is the expected one, so that no third identity can answer.
type inbox struct {
	self      string // "r.<self>."
	id        proto.Identity
	conn      string // "<connection>."
	token     string // own identity as a token
	mu        sync.Mutex
	next      uint64
	receivers map[uint64]receiver
}

// receiver handles the messages on one subject of the inbox. Its methods are called under the
// inbox's lock and do not block.
type receiver interface {
	// handle processes a message.
	handle(msg *nats.Msg)
	// fail ends the waiting with err.
	fail(err error)
	// subjects returns the receiver's subject, and the subject of its request, if any.
	subjects() (subject, request string)
}

func (in *inbox) init(id proto.Identity, conn string) {
	in.id, in.token = id, id.Token()
	in.self = proto.RootReply + "." + in.token + "."
	in.conn = conn + "."
	in.receivers = map[uint64]receiver{}
}

// subject returns the wildcard that the connection subscribes to.
func (in *inbox) subject() string { return in.self + "*." + in.conn + "*" }

// add registers the receiver that build returns for a new subject. Only from may publish there.
func (in *inbox) add(from proto.Identity, build func(subject string) receiver) uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.next++
	in.receivers[in.next] = build(proto.ReplySubject(in.id, from, in.conn+strconv.FormatUint(in.next, 36)))
	return in.next
}

func (in *inbox) remove(number uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.receivers, number)
}

// deliver passes msg to its receiver. It returns false if there is none.
func (in *inbox) deliver(msg *nats.Msg) bool {
	number, err := strconv.ParseUint(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], 36, 64)
	if err != nil {
		return false
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	waiting, ok := in.receivers[number]
	if !ok {
		return false
	}
	if subject, _ := waiting.subjects(); subject != msg.Subject {
		return false
	}
	waiting.handle(msg)
	return true
}

// failAll fails all receivers.
func (in *inbox) failAll(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, waiting := range in.receivers {
		waiting.fail(err)
	}
}

// failRequests fails the receivers of answers to requests on subject.
func (in *inbox) failRequests(subject string, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, waiting := range in.receivers {
		if _, request := waiting.subjects(); request == subject {
			waiting.fail(err)
		}
	}
}

// handleReply dispatches one message of the inbox. If a part of an answer has no receiver any more,
// the sender is told, so that it stops.
func (c *Conn) handleReply(ctx context.Context, msg *nats.Msg) {
	if c.inbox.deliver(msg) || msg.Reply == "" {
		return
	}
	sender, _, _ := strings.Cut(strings.TrimPrefix(msg.Subject, c.inbox.self), ".")
	if c.isCreditSubject(sender, msg.Reply) {
		c.sendGone(ctx, msg.Reply)
	}
}
