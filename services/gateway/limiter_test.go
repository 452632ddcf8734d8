package gateway

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/services/gateway/guard"
)

// TestLimitsAnswer429 is T12: requests beyond the limits get a 429 with Retry-After, and released
// slots are free again.
func TestLimitsAnswer429(t *testing.T) {
	l := newLimiter(limits{reads: 1, writes: 1, streams: 3, perClient: 2, patience: time.Second})
	from := func(agent string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("User-Agent", agent)
		return r
	}
	leave, err := l.acquireStream(from("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.acquireStream(from("a")); err != nil {
		t.Fatalf("a second stream of one client: %v", err)
	}
	_, err = l.acquireStream(from("a"))
	if status := statusOf(err); status.Code != http.StatusTooManyRequests || status.Details.RetryAfterSeconds != 1 {
		t.Fatalf("a third stream of one client: %+v", status)
	}
	if _, err := l.acquireStream(from("b")); err != nil {
		t.Fatalf("another client: %v", err)
	}
	if _, err := l.acquireStream(from("c")); err == nil {
		t.Fatal("there is room for more than three")
	}
	leave()
	if _, err := l.acquireStream(from("c")); err != nil {
		t.Fatalf("after one has left: %v", err)
	}
}

func TestWaitForSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(limits{reads: 1, writes: 1, patience: time.Second})
		read := httptest.NewRequest(http.MethodGet, "/", nil)
		write := httptest.NewRequest(http.MethodPut, "/", nil)
		done, err := l.acquireSlot(read)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.acquireSlot(write); err != nil {
			t.Fatalf("a write waits for a read: %v", err)
		}
		began := time.Now()
		if _, err := l.acquireSlot(read); err == nil || statusOf(err).Code != http.StatusTooManyRequests || time.Since(began) != time.Second {
			t.Fatalf("a second read: %v after %v", err, time.Since(began))
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := l.acquireSlot(read); err != nil {
				t.Errorf("a read whose turn has come: %v", err)
			}
		})
		time.Sleep(time.Second / 2)
		done()
		waiting.Wait()
	})
}

func TestDrainWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(defaultLimits())
		if !l.enter() {
			t.Fatal("not let in")
		}
		var ending sync.WaitGroup
		began := time.Now()
		ending.Go(func() { l.drain(t.Context()) })
		synctest.Wait()
		if l.enter() {
			t.Error("let in at the end")
		}
		time.Sleep(time.Second)
		l.leave()
		ending.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the end came after %v, want 1s", took)
		}
	})
}

// TestStalledClientLosesSlot is T12: a client that sends half a body, or reads half an answer,
// blocks a slot only for a while.
func TestStalledClientLosesSlot(t *testing.T) {
	ended := make(chan string, 2)
	g := &gateway{
		cfg:   Config{Log: slog.New(slog.DiscardHandler)},
		guard: guard.New("127.0.0.1:1", "secret"), telemetry: newTelemetry(),
		limiter: newLimiter(limits{reads: 1, writes: 1, patience: time.Minute, duration: 50 * time.Millisecond}),
		discovery: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			for r.Method == http.MethodGet && err == nil {
				_, err = w.Write(make([]byte, 1<<16))
			}
			ended <- fmt.Sprintf("%s: %t", r.Method, err != nil)
		}),
	}
	server := httptest.NewServer(g.newHandler())
	defer server.Close()
	for _, head := range []string{"GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nContent-Length: 10\r\n"} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, head+"Host: 127.0.0.1:1\r\nAuthorization: Bearer secret\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		method, _, _ := strings.Cut(head, " ")
		select {
		case got := <-ended:
			if got != method+": true" {
				t.Errorf("ended %s", got)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s has its seat for ever", method)
		}
	}
}

// TestReviewsNeedSlot: reviews count against the limits of short requests.
func TestReviewsNeedSlot(t *testing.T) {
	g := &gateway{kinds: directory.New(), limiter: newLimiter(limits{patience: time.Millisecond})} // no seats at all
	r := httptest.NewRequest(http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", strings.NewReader("{}"))
	to, _ := parseRoute(r.URL.Path)
	err := g.serveResource(&response{ResponseWriter: httptest.NewRecorder()}, r, to)
	if !apierrors.IsTooManyRequests(err) {
		t.Errorf("want a 429, have %v", err)
	}
}
