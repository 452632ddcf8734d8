package webhook

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	ar "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// panics is a caller with a mistake.
type panics struct{}

func (panics) Call(context.Context, *Hook, *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
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
	catalog.publish(map[string]map[string][]*Hook{ValidatingResource: {"x": hooksOf(configuration)}})
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

// TestPatchedScale: the Scale of a custom resource is read as a Scale, not as one of the
// resource's own kind.
func TestPatchedScale(t *testing.T) {
	t.Parallel()
	e := event(t, proto.VerbUpdate, "deployments", "scale")
	e.Kind.Custom = true
	e.Body = autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(e.Body)
	e.Object = scale
	d := &Dispatcher{Decode: func(kind kinds.Kind, document []byte) (kinds.Object, error) {
		if kind.Custom || kind.GroupVersionKind != e.Body || !strings.Contains(string(document), `"replicas":3`) {
			t.Errorf("%+v is to read %s", kind, document)
		}
		return scale, nil
	}}
	match := Match{Hook: &Hook{}, Kind: e.Kind}
	if _, err := d.applyPatch(match, e, []byte(`[{"op":"add","path":"/spec/replicas","value":3}]`)); err != nil {
		t.Error(err)
	}
}
