package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

const (
	// maxConcurrentCalls limits the calls of one Serve that run at the same time.
	maxConcurrentCalls = 1024
	// maxIdleWorkers limits the goroutines that wait for the next call.
	maxIdleWorkers = 32
	// maxQueuedCalls limits the calls that wait for a worker; further calls are lost.
	maxQueuedCalls = 4096
	// creditTimeout is how long a sender waits for a credit.
	creditTimeout = 30 * time.Second
)

// Handler answers one call with call.Send. Its ctx ends with the ctx of Serve.
type Handler func(ctx context.Context, call *Call)

// Call is one request to be answered.
type Call struct {
	// Subject is the subject of the request. The bus allows only authorized identities to publish
	// there. On an api subject, the requester is the identity in the subject.
	Subject string
	// Data is the request; it belongs to the handler.
	Data []byte

	conn    *Conn
	reply   string
	from    proto.Identity
	ended   bool
	number  uint64
	credits *sendWindow
	pipe    *Pipe // nil unless accepted
}

// Serve calls Listen and then Service.Serve.
func (c *Conn) Serve(ctx context.Context, subject string, h Handler) error {
	service, err := c.Listen(ctx, subject)
	if err == nil {
		return service.Serve(ctx, h)
	}
	if ctx.Err() != nil {
		err = nil
	}
	return err
}

// Service is a subject on which requests arrive. They wait for Serve.
type Service struct {
	sub     *Subscription
	conn    *Conn
	subject string
}

// Listen returns once requests on subject, which may hold wildcards, reach this Conn. While the bus
// is down, it returns at once, and requests arrive from the reconnect on. Call Serve on the
// Service, or requests are never answered.
func (c *Conn) Listen(ctx context.Context, subject string) (*Service, error) {
	sub, err := c.Subscribe(subject, maxQueuedCalls)
	if err == nil {
		if err = c.Flush(ctx); errors.Is(err, ErrDisconnected) {
			err = nil
		}
	}
	if err != nil {
		if sub != nil {
			sub.Close()
		}
		return nil, fmt.Errorf("serve %s: %w", subject, err)
	}
	return &Service{sub: sub, conn: c, subject: subject}, nil
}

// Serve calls h for each request, concurrently, at most 1024 at a time. It returns if ctx ends
// (nil), if the Conn is closed or if the bus forbids the subject, after all calls have returned. A
// request is dropped if its reply subject is not an answer from this identity to the sender. A
// handler that returns without an answer abandons the call, and the requester is told.
func (s *Service) Serve(ctx context.Context, h Handler) (err error) {
	pool := &workerPool{conn: s.conn, sub: s.sub, handler: h}
	pool.startWorker(ctx)
	select {
	case <-ctx.Done():
	case <-s.sub.done:
		err = fmt.Errorf("serve %s: %w", s.subject, s.sub.err)
	}
	s.sub.Close()
	pool.group.Wait()
	return err
}

// workerPool is one Serve: goroutines that take calls from one queue. A worker that takes a call
// and leaves no idle worker starts another. So there are as many workers as running calls, and a
// few more.
type workerPool struct {
	conn    *Conn
	sub     *Subscription
	handler Handler
	group   sync.WaitGroup
	workers atomic.Int32
	idle    atomic.Int32
}

// startWorker starts one more worker, unless the maximum is reached.
func (d *workerPool) startWorker(ctx context.Context) {
	if d.workers.Add(1) > maxConcurrentCalls {
		d.workers.Add(-1)
		return
	}
	d.group.Go(func() {
		defer d.workers.Add(-1)
		d.runWorker(ctx)
	})
}

// runWorker takes calls until Serve ends, or enough other workers are idle.
func (d *workerPool) runWorker(ctx context.Context) {
	for d.idle.Add(1) <= maxIdleWorkers {
		select {
		case msg := <-d.sub.queue:
			if d.idle.Add(-1) == 0 {
				d.startWorker(ctx)
			}
			d.handleCall(ctx, msg)
		case <-ctx.Done():
			return
		case <-d.sub.done:
			return
		}
	}
	d.idle.Add(-1)
}

func (d *workerPool) handleCall(ctx context.Context, msg *nats.Msg) {
	from, ok := d.conn.requester(msg)
	if !ok {
		d.conn.log.WarnContext(ctx, "request with a foreign reply subject dropped",
			"identity", d.conn.id, "subject", msg.Subject, "reply", msg.Reply)
		return
	}
	call := &Call{Subject: msg.Subject, Data: msg.Data, conn: d.conn, reply: msg.Reply, from: from}
	defer call.finish(ctx)
	d.handler(ctx, call)
}

// requester returns the identity that gets the answer to msg. If the subject names the requester,
// the reply subject must name the same identity. The reply subject must name this identity as the
// responder.
func (c *Conn) requester(msg *nats.Msg) (id proto.Identity, ok bool) {
	rest, ok := strings.CutPrefix(msg.Reply, proto.RootReply+".")
	if !ok {
		return "", false
	}
	token, rest, ok := strings.Cut(rest, ".")
	if !ok || !strings.HasPrefix(rest, c.inbox.token+".") {
		return "", false
	}
	id, err := proto.ParseIdentity(token)
	if err != nil || id.Token() != token {
		return "", false
	}
	asked, ok := strings.CutPrefix(msg.Subject, proto.RootAPI+".")
	return id, !ok || strings.HasPrefix(asked, token+".")
}

// errEnded is a handler's mistake: it sent after the last part.
var errEnded = errors.New("bus: the answer has ended")

// Send sends one part of the answer; more says whether others follow. Parts of at most 32 KiB leave
// room for other messages between them. While the reader is 8 parts behind, Send waits. It fails if
// ctx ends, the connection breaks, the reader leaves ([ErrPeerGone]) or consumes nothing for 30
// seconds (ErrPeerGone too). It keeps no reference to data. A Call's methods may be used by one
// goroutine at a time.
func (call *Call) Send(ctx context.Context, data []byte, more bool) error { //nolint:revive // "more" is data of the protocol
	if call.ended {
		return errEnded
	}
	if !more {
		if err := call.conn.send(call.reply, "", data); err != nil {
			return fmt.Errorf("answer %s: %w", call.Subject, err)
		}
		call.ended = true
		call.removeReceiver()
		return nil
	}
	w := call.openWindow()
	if err := w.wait(ctx); err != nil {
		return fmt.Errorf("answer %s: %w", call.Subject, err)
	}
	if err := call.conn.send(call.reply, w.subject, data); err != nil {
		return fmt.Errorf("answer %s: %w", call.Subject, err)
	}
	w.sent++
	return nil
}

// Gone is closed when the reader of an answer in parts has left. This is noticed after the first
// part at the earliest.
func (call *Call) Gone() <-chan struct{} { return call.openWindow().done }

func (call *Call) openWindow() *sendWindow {
	if call.credits == nil {
		call.number = call.conn.inbox.add(call.from, func(subject string) receiver {
			call.credits = &sendWindow{subject: subject, changed: make(chan struct{}, 1), done: make(chan struct{})}
			return call.credits
		})
	}
	return call.credits
}

// finish tells the requester if the call was not answered completely.
func (call *Call) finish(ctx context.Context) {
	call.removeReceiver()
	if call.pipe != nil {
		call.pipe.Close()
	}
	if call.ended {
		return
	}
	msg := nats.NewMsg(call.reply)
	msg.Header.Set(abandonedHeader, "1")
	if err := call.conn.current.Load().nc.PublishMsg(msg); err != nil {
		call.conn.log.DebugContext(ctx, "could not abandon a call",
			"identity", call.conn.id, "subject", call.Subject, "error", err)
	}
}

func (call *Call) removeReceiver() {
	if call.credits != nil {
		call.conn.inbox.remove(call.number)
	}
}

// sendWindow is what the reader of one answer in parts has consumed.
type sendWindow struct {
	subject string
	sent    int // used by the sender alone
	changed chan struct{}
	done    chan struct{}

	mu       sync.Mutex
	consumed int
	err      error
}

func (w *sendWindow) subjects() (subject, request string) { return w.subject, "" }

func (w *sendWindow) handle(msg *nats.Msg) {
	if string(msg.Data) == goneMessage {
		w.fail(ErrPeerGone)
		return
	}
	n, err := strconv.Atoi(string(msg.Data))
	if err != nil {
		return
	}
	w.mu.Lock()
	w.consumed = max(w.consumed, n)
	w.mu.Unlock()
	w.notify()
}

func (w *sendWindow) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
		close(w.done)
	}
	w.mu.Unlock()
	w.notify()
}

func (w *sendWindow) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// canSend reports whether one more part may be sent.
func (w *sendWindow) canSend() (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent-w.consumed < streamWindow, w.err
}

// wait returns when one more part may be sent, or why none may.
func (w *sendWindow) wait(ctx context.Context) error {
	if open, err := w.canSend(); open || err != nil {
		return err
	}
	patience := clock.Clock{}.Timer(creditTimeout)
	defer patience.Stop()
	for {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("%w: no credit for %v", ErrPeerGone, creditTimeout)
		}
		if open, err := w.canSend(); open || err != nil {
			return err
		}
	}
}
