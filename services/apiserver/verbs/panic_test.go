package verbs

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/store"
)

// TestPanicInACollection is a mistake of ours on a goroutine that deletes one of many: the
// request fails, and the process goes on.
func TestPanicInACollection(t *testing.T) {
	broken := make([]*store.Record, 3*defaultDeleters) // nil
	err := New(Config{}).deleteAll(t.Context(), Request{}, metav1.DeleteOptions{}, broken)
	crash, ok := errors.AsType[*PanicError](err)
	if !ok || !strings.Contains(string(crash.Stack), "deleteOne") {
		t.Fatalf("got %v, want a panic and where it was", err)
	}
}

func TestDeleteCollectionReportsAPanicFirst(t *testing.T) {
	refusal, other, crash := errors.New("refused"), errors.New("refused too"), &PanicError{Cause: "oops"}
	for _, row := range []struct{ first, second, want error }{
		{nil, nil, nil},
		{nil, refusal, refusal},
		{refusal, nil, refusal},
		{refusal, other, refusal},
		{refusal, crash, crash},
		{crash, refusal, crash},
	} {
		if got := worseError(row.first, row.second); !errors.Is(got, row.want) {
			t.Errorf("of %v and %v: %v, want %v", row.first, row.second, got, row.want)
		}
	}
}
