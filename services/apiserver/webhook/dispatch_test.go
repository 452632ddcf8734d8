package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	ar "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// panics is a caller with a mistake.
type panics struct{}

func (panics) Ask(context.Context, *Hook, *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	panic("on purpose")
}

// TestAPanicIsTheRequests: hooks that are asked at once panic on the goroutine of their
// request, where it ends that request alone.
func TestAPanicIsTheRequests(t *testing.T) {
	t.Parallel()
	configuration := &ar.ValidatingWebhookConfiguration{}
	for range 2 {
		configuration.Webhooks = append(configuration.Webhooks, ar.ValidatingWebhook{
			Name: "a.example.com", Rules: rule(""), AdmissionReviewVersions: []string{"v1"},
		})
	}
	catalog := &Catalog{}
	catalog.publish(map[string]map[string][]*Hook{ValidatingResource: {"x": hooksIn(configuration)}})
	d := &Dispatcher{
		Catalog: catalog, Caller: panics{}, NewUID: func() types.UID { return "u" },
		Versions: func(kinds.Kind) []kinds.Kind { return nil },
	}
	defer func() {
		if cause := fmt.Sprint(recover()); !strings.HasPrefix(cause, "on purpose") || !strings.Contains(cause, "dispatch_test.go") {
			t.Errorf("recovered %s", cause)
		}
	}()
	_, err := d.Validate(t.Context(), event(t, proto.VerbCreate, "pods", ""))
	t.Errorf("no panic, but %v", err)
}
