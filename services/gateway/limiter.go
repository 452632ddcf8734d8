package gateway

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/clock"
)

// limits bound the concurrent requests. Requests beyond them get a 429 with a Retry-After (T12).
type limits struct {
	// reads and writes limit short requests. Requests beyond them wait for patience before they are
	// refused.
	reads, writes int
	// streams limits watches and followed logs in total, and perClient those of one client.
	streams, perClient int
	patience           time.Duration
	// duration limits a short request's time, including the client's sending and reading: a stalled
	// client loses its slot.
	duration time.Duration
}

func defaultLimits() limits {
	return limits{
		reads: 400, writes: 200, streams: 20_000, perClient: 5_000, patience: 10 * time.Second,
		duration: requestTimeout + writeTimeout,
	}
}

// limiter counts requests. It is safe for concurrent use.
type limiter struct {
	limits limits
	reads  chan struct{}
	writes chan struct{}

	mu       sync.Mutex
	running  int
	ending   bool
	idle     chan struct{}
	streams  int
	byClient map[string]int
}

func newLimiter(l limits) *limiter {
	return &limiter{
		limits: l, reads: make(chan struct{}, l.reads), writes: make(chan struct{}, l.writes),
		idle: make(chan struct{}), byClient: map[string]int{},
	}
}

// enter counts a request; false if the gateway is ending.
func (l *limiter) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.running++
	}
	return !l.ending
}

// leave is the inverse of enter.
func (l *limiter) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.ending && l.running == 0 {
		close(l.idle)
	}
}

// drain refuses new requests, and waits for the running ones until ctx ends.
func (l *limiter) drain(ctx context.Context) {
	l.mu.Lock()
	l.ending = true
	nobody := l.running == 0
	l.mu.Unlock()
	if nobody {
		return
	}
	select {
	case <-l.idle:
	case <-ctx.Done():
	}
}

// acquireSlot waits for a free slot; done releases it.
func (l *limiter) acquireSlot(r *http.Request) (done func(), err error) {
	seats := l.writes
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		seats = l.reads
	}
	ctx, cancel := clock.Clock{}.Timeout(r.Context(), l.limits.patience)
	defer cancel()
	select {
	case seats <- struct{}{}:
		return func() { <-seats }, nil
	case <-ctx.Done():
	}
	return nil, tooManyRequests()
}

// runShort runs a short request in a slot.
func (l *limiter) runShort(w http.ResponseWriter, r *http.Request, do func() error) error {
	done, err := l.acquireSlot(r)
	if err != nil {
		return err
	}
	defer done()
	client, limit := http.NewResponseController(w), clock.Clock{}.Now().Add(l.limits.duration)
	_, _ = client.SetReadDeadline(limit), client.SetWriteDeadline(limit) // every connection can, but a test's
	defer func() { _ = client.SetWriteDeadline(time.Time{}) }()          // the next request has its own
	return do()
}

// acquireStream counts a long-running request; done releases it.
func (l *limiter) acquireStream(r *http.Request) (done func(), err error) {
	client := clientKey(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= l.limits.streams || l.byClient[client] >= l.limits.perClient {
		return nil, tooManyRequests()
	}
	l.streams++
	l.byClient[client]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.streams--
		if l.byClient[client]--; l.byClient[client] == 0 {
			delete(l.byClient, client)
		}
	}, nil
}

// clientKey distinguishes clients by address and program: they share a token, and often an address.
func clientKey(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	program, _, _ := strings.Cut(r.UserAgent(), " ")
	return host + " " + program
}

func tooManyRequests() error {
	return apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
}
