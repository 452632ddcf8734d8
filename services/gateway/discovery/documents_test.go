package discovery

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/proto"
)

// TestOpenAPI2BuildsOneAtATime is T12: concurrent clients cost no more memory than one.
func TestOpenAPI2BuildsOneAtATime(t *testing.T) {
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	h, ok := New(directory.New(), compat).(*handler)
	if !ok {
		t.Fatal("New makes something else")
	}
	ask := func(ctx context.Context) int {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/openapi/v2", nil))
		return answer.Code
	}
	impatient, leave := context.WithCancel(t.Context())
	leave()
	h.building <- struct{}{} // another is being made
	if code := ask(impatient); code != http.StatusInternalServerError {
		t.Errorf("beside another one: %d", code)
	}
	<-h.building
	for range 2 { // the first gives its turn back
		if code := ask(t.Context()); code != http.StatusOK {
			t.Errorf("alone: %d", code)
		}
	}
}
