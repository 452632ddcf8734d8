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

// limits are how much may be going on at once. What comes beyond gets a 429, and is told
// to come back (T12).
type limits struct {
	// reads and writes are requests that end by themselves. Those beyond wait for patience
	// before they are refused.
	reads, writes int
	// streams are watches and logs that are followed, in all and of one client.
	streams, perClient int
	patience           time.Duration
	// seated is how long a request that ends by itself may take, its client's sending and
	// reading included: one who stalls gives the seat up.
	seated time.Duration
}

func defaultLimits() limits {
	return limits{
		reads: 400, writes: 200, streams: 20_000, perClient: 5_000, patience: 10 * time.Second,
		seated: requestTimeout + writeTimeout,
	}
}

// load is what is going on. It is safe for concurrent use.
type load struct {
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

func newLoad(l limits) *load {
	return &load{
		limits: l, reads: make(chan struct{}, l.reads), writes: make(chan struct{}, l.writes),
		idle: make(chan struct{}), byClient: map[string]int{},
	}
}

// enter counts a request in; false when the gateway is ending.
func (l *load) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ending {
		l.running++
	}
	return !l.ending
}

// leave counts it out.
func (l *load) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.ending && l.running == 0 {
		close(l.idle)
	}
}

// end lets nobody in any more, and waits for who is in until ctx ends.
func (l *load) end(ctx context.Context) {
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

// turn waits for a request's turn; done gives it up.
func (l *load) turn(r *http.Request) (done func(), err error) {
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
	return nil, tooMany()
}

// seated carries out a request that ends by itself, in its turn.
func (l *load) seated(w http.ResponseWriter, r *http.Request, do func() error) error {
	done, err := l.turn(r)
	if err != nil {
		return err
	}
	defer done()
	client, limit := http.NewResponseController(w), clock.Clock{}.Now().Add(l.limits.seated)
	_, _ = client.SetReadDeadline(limit), client.SetWriteDeadline(limit) // every connection can, but a test's
	defer func() { _ = client.SetWriteDeadline(time.Time{}) }()          // the next request has its own
	return do()
}

// stream counts a long-running request in; done counts it out.
func (l *load) stream(r *http.Request) (done func(), err error) {
	client := clientOf(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= l.limits.streams || l.byClient[client] >= l.limits.perClient {
		return nil, tooMany()
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

// clientOf tells clients apart: they share a token, and mostly an address too.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	program, _, _ := strings.Cut(r.UserAgent(), " ")
	return host + " " + program
}

func tooMany() error {
	return apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
}
