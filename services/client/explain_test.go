package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExplain(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	notFound := apierrors.NewNotFound(pods, "x")
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"ours", errors.New("no"), "error: no"},
		{"ours, said to be one", errors.New("error: no"), "error: no"},
		{"the server's", notFound, `Error from server (NotFound): pods "x" not found`},
		{"the server's, wrapped", fmt.Errorf("get: %w", notFound), `Error from server (NotFound): pods "x" not found`},
		{"without a reason", &apierrors.StatusError{ErrStatus: metav1.Status{Message: "no"}}, "Error from server: no"},
		{"not logged in", apierrors.NewUnauthorized("who"), "error: You must be logged in to the server (who)"},
		{"too many", apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10), "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget."},
		{"the context's", context.DeadlineExceeded, "error: context deadline exceeded"},
	} {
		if got := explainError(c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
