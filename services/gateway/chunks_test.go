package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// deadlined is a response that remembers until when it may be written.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

// SetWriteDeadline is what a response controller calls.
func (d *deadlined) SetWriteDeadline(until time.Time) error {
	d.until = until
	return nil
}

// TestAnIdleWatchHasNoDeadline: HTTP/2 resets a stream whose write deadline passes even if nothing
// is being written. A deadline would break an idle watch every 30 s.
func TestAnIdleWatchHasNoDeadline(t *testing.T) {
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	s := &responseSink{ctx: t.Context(), w: w, control: http.NewResponseController(w)}
	if err := s.write([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if w.until.IsZero() {
		t.Error("a frame is written without a deadline: a client that does not read would hold it up for ever")
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if !w.until.IsZero() || !w.Flushed {
		t.Errorf("after a flush the deadline is %v and flushed is %v, want none and true", w.until, w.Flushed)
	}
}
