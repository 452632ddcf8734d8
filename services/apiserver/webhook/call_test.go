package webhook

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestReadAnswerCutsComplaints: what a hook says besides an answer goes into a Status and
// into a log, but not without end (T12).
func TestReadAnswerCutsComplaints(t *testing.T) {
	t.Parallel()
	response := &http.Response{
		StatusCode: http.StatusInternalServerError, Body: io.NopCloser(strings.NewReader("why: " + strings.Repeat("x", 1<<20))),
	}
	_, err := readReview(response)
	if err == nil || !strings.Contains(err.Error(), "why: xxx") || len(err.Error()) > 2*maxErrorText {
		t.Errorf("%d bytes: %.100v", len(err.Error()), err)
	}
}
