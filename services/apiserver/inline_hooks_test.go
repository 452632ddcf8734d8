package apiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	ar "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// fakeHooks answers webhook calls by the hook's name.
type fakeHooks struct{}

var errNobodyThere = errors.New("nobody is there")

func (fakeHooks) Call(_ context.Context, h *webhook.Hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	switch h.Name {
	case "away.example.com":
		return nil, errNobodyThere
	case "denies.example.com":
		return &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Code: http.StatusTeapot},
		}}, nil
	}
	return &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Warnings: []string{"seen"},
	}}, nil
}

// TestInlineAsksWebhooks has namespaces be judged by webhooks that are made and taken away
// again, and the history be told what each has said.
func TestInlineAsksWebhooks(t *testing.T) {
	t.Parallel()
	var told []history.WebhookCall
	recorder, err := history.Open(history.Config{Process: "apiserver", OnEvent: func(e history.Event) {
		if said, is := e.Fact.(history.WebhookCall); is && e.Cause != "" {
			told = append(told, said)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewInline(t.Context(), InlineConfig{Boot: "b", Compat: compat, Keep: 100, History: recorder, Hooks: fakeHooks{}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	call := func(verb proto.Verb, resource, name string, obj kinds.Object) int32 {
		t.Helper()
		n++
		request := &proto.Request{Version: proto.Version, Operation: string(rune('a' + n))}
		if obj != nil {
			if request.Body, err = kinds.Encode(obj); err != nil {
				t.Fatal(err)
			}
			request.ContentType = kinds.ContentTypeOf(request.Body)
		}
		subject := proto.APISubject{Identity: proto.Admin, Verb: verb, Resource: resource, Name: name}
		parts, err := i.Call(t.Context(), subject.String(), request)
		if err != nil || len(parts) == 0 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		return parts[len(parts)-1].GetCode()
	}
	guard := func(policy ar.FailurePolicyType, names ...string) {
		t.Helper()
		made := &ar.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "guard"}}
		for _, name := range names {
			made.Webhooks = append(made.Webhooks, ar.ValidatingWebhook{
				Name: name + ".example.com", FailurePolicy: &policy, ClientConfig: ar.WebhookClientConfig{URL: new("https://guard")},
				SideEffects: new(ar.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				Rules: []ar.RuleWithOperations{{Operations: []ar.OperationType{ar.Create}, Rule: ar.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"},
				}}},
			})
		}
		if code := call(proto.VerbCreate, webhook.ValidatingResource, "", made); code != http.StatusCreated {
			t.Fatalf("the configuration: %d", code)
		}
	}
	create := func(name string, want int32, said ...history.HookAnswer) {
		t.Helper()
		told = nil
		if code := call(proto.VerbCreate, "namespaces", "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); code != want {
			t.Errorf("namespace %s: %d, want %d", name, code, want)
		}
		var heard []history.HookAnswer
		for _, one := range told {
			if one.Key != name || one.Resource != "namespaces" {
				t.Errorf("told of %s %s", one.Resource, one.Key)
			}
			heard = append(heard, one.Answer)
		}
		if !slices.Equal(heard, said) {
			t.Errorf("namespace %s: the history has %v, want %v", name, heard, said)
		}
	}

	create("first", http.StatusCreated)
	guard(ar.Fail, "allows", "denies")
	create("denied", http.StatusTeapot, history.HookAllowed, history.HookDenied)
	call(proto.VerbDelete, webhook.ValidatingResource, "guard", nil)
	guard(ar.Fail, "away")
	create("unasked", http.StatusInternalServerError, history.HookFailed)
	call(proto.VerbDelete, webhook.ValidatingResource, "guard", nil)
	guard(ar.Ignore, "away", "allows")
	create("passed", http.StatusCreated, history.HookFailed, history.HookAllowed)
	call(proto.VerbDelete, webhook.ValidatingResource, "guard", nil)
	create("last", http.StatusCreated)
}
