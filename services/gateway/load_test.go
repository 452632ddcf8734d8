package gateway

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheCapsAreTold keeps a gateway from being overrun (T12): what is too much gets a 429
// that says when to come back, and room that is given back is room again.
func TestTheCapsAreTold(t *testing.T) {
	l := newLoad(limits{reads: 1, writes: 1, streams: 3, perClient: 2, patience: time.Second})
	from := func(agent string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("User-Agent", agent)
		return r
	}
	leave, err := l.stream(from("a"))
	if err != nil {
		t.Fatal(err)
	}
	for agent, want := range map[string]bool{"a": true} {
		if _, err := l.stream(from(agent)); (err == nil) != want {
			t.Fatalf("the second stream of %s: %v", agent, err)
		}
	}
	_, err = l.stream(from("a"))
	if status := statusOf(err); status.Code != http.StatusTooManyRequests || status.Details.RetryAfterSeconds != 1 {
		t.Fatalf("a third stream of one client: %+v", status)
	}
	if _, err := l.stream(from("b")); err != nil {
		t.Fatalf("another client: %v", err)
	}
	if _, err := l.stream(from("c")); err == nil {
		t.Fatal("there is room for more than three")
	}
	leave()
	if _, err := l.stream(from("c")); err != nil {
		t.Fatalf("after one has left: %v", err)
	}
}

func TestTurnsAreWaitedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(limits{reads: 1, writes: 1, patience: time.Second})
		read := httptest.NewRequest(http.MethodGet, "/", nil)
		write := httptest.NewRequest(http.MethodPut, "/", nil)
		done, err := l.turn(read)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.turn(write); err != nil {
			t.Fatalf("a write waits for a read: %v", err)
		}
		began := time.Now()
		if _, err := l.turn(read); err == nil || statusOf(err).Code != http.StatusTooManyRequests || time.Since(began) != time.Second {
			t.Fatalf("a second read: %v after %v", err, time.Since(began))
		}
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := l.turn(read); err != nil {
				t.Errorf("a read whose turn has come: %v", err)
			}
		})
		time.Sleep(time.Second / 2)
		done()
		waiting.Wait()
	})
}

func TestTheEndWaitsForWhoIsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(defaultLimits())
		if !l.enter() {
			t.Fatal("not let in")
		}
		var ending sync.WaitGroup
		began := time.Now()
		ending.Go(func() { l.end(t.Context()) })
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
