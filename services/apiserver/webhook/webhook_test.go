package webhook

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	ar "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

func kindOf(t *testing.T, alias string) kinds.Kind {
	t.Helper()
	kind, ok := kinds.ByAlias(alias)
	if !ok {
		t.Fatalf("no kind %s", alias)
	}
	return kind
}

// event is one about an object called x with the label app=web, in the namespace default,
// which has the label team=blue.
func event(t *testing.T, verb proto.Verb, alias, subresource string) Event {
	t.Helper()
	kind := kindOf(t, alias)
	e := Event{Attributes: admission.Attributes{Identity: "client:x", Verb: verb, Kind: kind, Subresource: subresource, Name: "x"}}
	obj, err := kinds.New(kinds.Preferred(kind).GroupVersionKind)
	if err != nil {
		t.Fatal(err)
	}
	obj.SetName("x")
	obj.SetLabels(map[string]string{"app": "web"})
	if kind.Namespaced {
		obj.SetNamespace("default")
		e.Namespace = "default"
		e.NamespaceObject = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "blue"}}}
	}
	if verb != proto.VerbDelete {
		e.Object = obj
	}
	if verb != proto.VerbCreate {
		e.Old = obj
	}
	return e
}

// rule is "CREATE,UPDATE apps v1 deployments,pods/*", or "" for everything.
func rule(text string) []ar.RuleWithOperations {
	if text == "" {
		text = "* * * */*"
	}
	words := strings.Fields(text)
	list := func(word string) []string { return strings.Split(strings.Replace(word, "core", "", 1), ",") }
	r := ar.RuleWithOperations{Rule: ar.Rule{APIGroups: list(words[1]), APIVersions: list(words[2]), Resources: list(words[3])}}
	for _, operation := range list(words[0]) {
		r.Operations = append(r.Operations, ar.OperationType(operation))
	}
	if len(words) > 4 {
		r.Scope = new(ar.ScopeType(words[4]))
	}
	return []ar.RuleWithOperations{r}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	selects := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for _, tt := range []struct {
		name     string
		verb     proto.Verb
		resource string
		sub      string
		rule     string
		change   func(*ar.ValidatingWebhook)
		want     string // the version that is sent, "" for none
	}{
		{name: "everything", verb: proto.VerbCreate, resource: "pods", want: "v1"},
		{name: "a patch is an update", verb: proto.VerbPatch, resource: "pods", rule: "UPDATE core v1 pods", want: "v1"},
		{name: "another operation", verb: proto.VerbCreate, resource: "pods", rule: "DELETE core v1 pods"},
		{name: "delete", verb: proto.VerbDelete, resource: "pods", rule: "DELETE core v1 pods", want: "v1"},
		{name: "another group", verb: proto.VerbCreate, resource: "deployments", rule: "CREATE core v1 deployments"},
		{name: "any resource has no subresource", verb: proto.VerbUpdate, resource: "pods", sub: "status", rule: "* * * *"},
		{name: "a subresource", verb: proto.VerbUpdate, resource: "pods", sub: "status", rule: "* * * pods/status", want: "v1"},
		{name: "any subresource", verb: proto.VerbUpdate, resource: "pods", sub: "status", rule: "* * * */status", want: "v1"},
		{name: "all of one resource", verb: proto.VerbCreate, resource: "pods", rule: "* * * pods/*", want: "v1"},
		{name: "cluster scope", verb: proto.VerbCreate, resource: "pods", rule: "* * * * Cluster"},
		{name: "namespaces are cluster-scoped", verb: proto.VerbCreate, resource: "namespaces", rule: "* * * * Cluster", want: "v1"},
		{name: "namespaced scope", verb: proto.VerbCreate, resource: "nodes", rule: "* * * * Namespaced"},
		{name: "an equivalent version", verb: proto.VerbCreate, resource: "hpa.v1.autoscaling", rule: "* autoscaling v2 *", want: "v2"},
		{
			name: "exactly", verb: proto.VerbCreate, resource: "hpa.v1.autoscaling", rule: "* autoscaling v2 *",
			change: func(w *ar.ValidatingWebhook) { w.MatchPolicy = new(ar.Exact) },
		},
		{
			name: "the object's labels", verb: proto.VerbDelete, resource: "pods", want: "v1",
			change: func(w *ar.ValidatingWebhook) { w.ObjectSelector = selects("app", "web") },
		},
		{
			name: "other labels", verb: proto.VerbCreate, resource: "pods",
			change: func(w *ar.ValidatingWebhook) { w.ObjectSelector = selects("app", "db") },
		},
		{
			name: "the namespace's labels", verb: proto.VerbCreate, resource: "pods", want: "v1",
			change: func(w *ar.ValidatingWebhook) { w.NamespaceSelector = selects("team", "blue") },
		},
		{
			name: "another namespace", verb: proto.VerbCreate, resource: "pods",
			change: func(w *ar.ValidatingWebhook) { w.NamespaceSelector = selects("team", "red") },
		},
		{
			name: "no namespace", verb: proto.VerbCreate, resource: "nodes", want: "v1",
			change: func(w *ar.ValidatingWebhook) { w.NamespaceSelector = selects("team", "red") },
		},
		{
			name: "a namespace itself", verb: proto.VerbDelete, resource: "namespaces",
			change: func(w *ar.ValidatingWebhook) { w.NamespaceSelector = selects("team", "red") },
		},
		{name: "the hooks themselves", verb: proto.VerbDelete, resource: "validatingwebhookconfigurations"},
	} {
		w := ar.ValidatingWebhook{Name: "h", Rules: rule(tt.rule)}
		if tt.change != nil {
			tt.change(&w)
		}
		e := event(t, tt.verb, tt.resource, tt.sub)
		var versions []kinds.Kind
		for _, served := range kinds.Served() {
			if served.GroupResource() == e.Kind.GroupResource() {
				versions = append(versions, served)
			}
		}
		match, ok, err := newHook("c", w).Matches(e, versions)
		if err != nil || ok != (tt.want != "") || ok && match.Kind.Version != tt.want {
			t.Errorf("%s: %t in %q, %v; want %q", tt.name, ok, match.Kind.Version, err, tt.want)
		}
	}
	lost := event(t, proto.VerbCreate, "pods", "")
	lost.NamespaceObject = nil
	hook := newHook("c", ar.ValidatingWebhook{Name: "h", Rules: rule(""), NamespaceSelector: selects("team", "blue")})
	if _, _, err := hook.Matches(lost, nil); !apierrors.IsNotFound(err) {
		t.Errorf("in a namespace that is missing: %v", err)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		conditions []string
		want       bool
		err        string
	}{
		{name: "none", want: true},
		{name: "true", conditions: []string{`object.metadata.labels.app == "web"`, `request.operation == "CREATE"`}, want: true},
		{name: "one is false", conditions: []string{`object.metadata.name == "y"`, `object.nope.nope == 1`}},
		{name: "who asks", conditions: []string{`request.userInfo.username == "kubernetes-admin" && !("system:nodes" in request.userInfo.groups)`}, want: true},
		{name: "no old object", conditions: []string{`oldObject == null`}, want: true},
		{name: "an error", conditions: []string{`object.nope == 1`}, err: "[c0]: no such key: nope"},
		{name: "no expression", conditions: []string{`object.`}, err: "[c0]: compilation failed"},
		{name: "no authorizer", conditions: []string{`authorizer.path("/").check("get").allowed()`}, err: "undeclared reference to 'authorizer'"},
	} {
		var listed []ar.MatchCondition
		for i, text := range tt.conditions {
			listed = append(listed, ar.MatchCondition{Name: "c" + string(rune('0'+i)), Expression: text})
		}
		h := newHook("c", ar.ValidatingWebhook{Name: "h", MatchConditions: listed})
		e := event(t, proto.VerbCreate, "pods", "")
		review, err := Match{Hook: h, Kind: e.Kind}.newReview(e, "q")
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.conditionsHold(review.Request)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %t, %v", tt.name, got, err)
		}
	}
}

func TestReview(t *testing.T) {
	t.Parallel()
	e := event(t, proto.VerbUpdate, "hpa.v1.autoscaling", "")
	e.Options, e.DryRun = metav1.UpdateOptions{FieldManager: "me"}, true
	review, err := Match{Hook: &Hook{}, Kind: kindOf(t, "hpa")}.newReview(e, "q")
	if err != nil {
		t.Fatal(err)
	}
	q := review.Request
	if q.Kind.Version != "v2" || q.Resource.Version != "v2" || q.RequestKind.Version != "v1" || q.RequestResource.Version != "v1" {
		t.Errorf("asked in %v %v, sent as %v %v", q.RequestKind, q.RequestResource, q.Kind, q.Resource)
	}
	if !strings.Contains(string(q.Object.Raw), `"apiVersion":"autoscaling/v2"`) || !strings.Contains(string(q.OldObject.Raw), `"autoscaling/v2"`) {
		t.Errorf("objects %s and %s", q.Object.Raw, q.OldObject.Raw)
	}
	if got, want := string(q.Options.Raw), `{"apiVersion":"meta.k8s.io/v1","fieldManager":"me","kind":"UpdateOptions"}`; got != want || !*q.DryRun {
		t.Errorf("options %s, dry run %t", got, *q.DryRun)
	}
	if q.UserInfo.Username != "kubernetes-admin" || q.Operation != "UPDATE" || q.Name != "x" || q.Namespace != "default" {
		t.Errorf("question %v", q)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	jsonPatch := admissionv1.PatchTypeJSONPatch
	for _, tt := range []struct {
		name     string
		mutating bool
		said     *admissionv1.AdmissionResponse
		refused  string
		err      string
	}{
		{name: "yes", said: &admissionv1.AdmissionResponse{UID: "q", Allowed: true}},
		{name: "nothing", err: "webhook response was absent"},
		{name: "to another question", said: &admissionv1.AdmissionResponse{UID: "p", Allowed: true}, err: `expected response.uid="q", got "p"`},
		{name: "no", said: &admissionv1.AdmissionResponse{UID: "q"}, refused: `400 admission webhook "h" denied the request without explanation`},
		{name: "no, because", said: &admissionv1.AdmissionResponse{UID: "q", Result: &metav1.Status{Message: "m", Reason: "r", Code: 200}}, refused: `400 admission webhook "h" denied the request: m`},
		{name: "no, with a reason", said: &admissionv1.AdmissionResponse{UID: "q", Result: &metav1.Status{Reason: "r", Code: 409}}, refused: `409 admission webhook "h" denied the request: r`},
		{name: "a patch", mutating: true, said: &admissionv1.AdmissionResponse{UID: "q", Allowed: true, Patch: []byte("[]"), PatchType: &jsonPatch}},
		{name: "a patch from who may not", said: &admissionv1.AdmissionResponse{UID: "q", Allowed: true, Patch: []byte("[]"), PatchType: &jsonPatch}, err: "validating webhook may not return response.patch"},
		{name: "a patch without a type", mutating: true, said: &admissionv1.AdmissionResponse{UID: "q", Allowed: true, Patch: []byte("[]")}, err: "webhook returned response.patch but not response.patchType"},
		{name: "a type without a patch", mutating: true, said: &admissionv1.AdmissionResponse{UID: "q", Allowed: true, PatchType: &jsonPatch}, err: "webhook returned response.patchType but not response.patch"},
		{name: "another type", mutating: true, said: &admissionv1.AdmissionResponse{UID: "q", Allowed: true, Patch: []byte("x"), PatchType: new(admissionv1.PatchType("XML"))}, err: `unsupported patch type "XML"`},
	} {
		h := &Hook{Mutating: tt.mutating}
		h.Name = "h"
		verdict, err := h.parseResponse("q", &admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Response: tt.said,
		})
		if (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		refused := ""
		if status, ok := verdict.Refused.(apierrors.APIStatus); ok {
			refused = strings.Join([]string{http3(status.Status().Code), status.Status().Message}, " ")
		}
		if refused != tt.refused {
			t.Errorf("%s: refused %q, want %q", tt.name, refused, tt.refused)
		}
	}
	h := &Hook{}
	answer := &admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1beta1", Kind: "AdmissionReview"}, Response: &admissionv1.AdmissionResponse{UID: "q"}}
	if _, err := h.parseResponse("q", answer); err == nil || !strings.Contains(err.Error(), "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview") {
		t.Errorf("an older answer: %v", err)
	}
}

// http3 is a code of three digits.
func http3(code int32) string {
	return string([]byte{byte('0' + code/100), byte('0' + code/10%10), byte('0' + code%10)})
}

func TestApplyFailurePolicy(t *testing.T) {
	t.Parallel()
	closed, open := &Hook{}, &Hook{}
	open.FailurePolicy = new(ar.Ignore)
	failed := &CallError{Webhook: "h", Err: http.ErrHandlerTimeout}
	if err := closed.applyFailurePolicy(failed); !apierrors.IsInternalError(err) {
		t.Errorf("failing closed: %v", err)
	}
	if err := open.applyFailurePolicy(failed); err != nil {
		t.Errorf("failing open: %v", err)
	}
	if err := open.applyFailurePolicy(apierrors.NewBadRequest("x")); !apierrors.IsBadRequest(err) {
		t.Errorf("what is no failure of the hook: %v", err)
	}
}

func TestMayAsk(t *testing.T) {
	t.Parallel()
	for class, want := range map[ar.SideEffectClass]bool{
		ar.SideEffectClassNone: true, ar.SideEffectClassNoneOnDryRun: true, ar.SideEffectClassSome: false, ar.SideEffectClassUnknown: false,
	} {
		h := &Hook{}
		h.SideEffects, h.AdmissionReviewVersions = &class, []string{"v1"}
		if err := h.checkCallable(Event{DryRun: true}); (err == nil) != want {
			t.Errorf("%s: %v", class, err)
		}
		if err := h.checkCallable(Event{}); err != nil {
			t.Errorf("%s, for real: %v", class, err)
		}
	}
	old := &Hook{}
	old.AdmissionReviewVersions = []string{"v1beta1"}
	if err := old.checkCallable(Event{}); err == nil {
		t.Error("a hook that knows v1beta1 only was asked")
	}
}

func TestStrategy(t *testing.T) {
	t.Parallel()
	kind := kindOf(t, "mutatingwebhookconfigurations")
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	strategy := Strategy(kind, registry.For(kind, compat))
	good := func() *ar.MutatingWebhookConfiguration {
		return &ar.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Webhooks: []ar.MutatingWebhook{{
				Name: "a.example.com", Rules: rule(""), AdmissionReviewVersions: []string{"v1"}, SideEffects: new(ar.SideEffectClassNone),
				ClientConfig: ar.WebhookClientConfig{Service: &ar.ServiceReference{Namespace: "n", Name: "s"}},
			}},
		}
	}
	obj := good()
	strategy.PrepareForCreate(obj, metav1.Now().Time)
	w := obj.Webhooks[0]
	if *w.FailurePolicy != ar.Fail || *w.MatchPolicy != ar.Equivalent || *w.TimeoutSeconds != 10 || *w.ReinvocationPolicy != ar.NeverReinvocationPolicy ||
		*w.ClientConfig.Service.Port != 443 || *w.Rules[0].Scope != ar.AllScopes || w.NamespaceSelector == nil || w.ObjectSelector == nil || obj.Generation != 1 {
		t.Errorf("defaults %v", w)
	}
	if errs := strategy.Validate(obj); len(errs) > 0 {
		t.Errorf("what is right: %v", errs)
	}
	for want, change := range map[string]func(*ar.MutatingWebhook){
		`webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots`: func(w *ar.MutatingWebhook) { w.Name = "a" },
		`webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun`:                         func(w *ar.MutatingWebhook) { w.SideEffects = nil },
		`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`:            func(w *ar.MutatingWebhook) { w.SideEffects = new(ar.SideEffectClassSome) },
		`webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`:       func(w *ar.MutatingWebhook) { w.TimeoutSeconds = new(int32(31)) },
		`webhooks[0].clientConfig: Required value: exactly one of url or service is required`:                     func(w *ar.MutatingWebhook) { w.ClientConfig.Service = nil },
		`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`: func(w *ar.MutatingWebhook) {
			w.ClientConfig = ar.WebhookClientConfig{URL: new("http://localhost/x")}
		},
		`webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1`:                              func(w *ar.MutatingWebhook) { w.AdmissionReviewVersions = nil },
		`webhooks[0].rules[0].operations: Required value`:                                                                   func(w *ar.MutatingWebhook) { w.Rules[0].Operations = nil },
		`webhooks[0].rules[0].apiGroups: Invalid value: ["*","apps"]: if '*' is present, must not specify other API groups`: func(w *ar.MutatingWebhook) { w.Rules[0].APIGroups = []string{"*", "apps"} },
		`webhooks[0].matchConditions[0].expression: Invalid value: "object.": compilation failed`: func(w *ar.MutatingWebhook) {
			w.MatchConditions = []ar.MatchCondition{{Name: "c", Expression: "object."}}
		},
		`webhooks[0].reinvocationPolicy: Unsupported value: "Often": supported values: "IfNeeded", "Never"`: func(w *ar.MutatingWebhook) { w.ReinvocationPolicy = new(ar.ReinvocationPolicyType("Often")) },
	} {
		obj := good()
		change(&obj.Webhooks[0])
		if err := registry.BeforeCreate(strategy, kind, obj, metav1.Now().Time, "u"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("\n got %v\nwant %s", err, want)
		}
	}
	twice := good()
	twice.Webhooks = append(twice.Webhooks, twice.Webhooks[0])
	if errs := strategy.Validate(twice); len(errs) != 1 || !strings.Contains(errs[0].Error(), `webhooks[1].name: Duplicate value: "a.example.com"`) {
		t.Errorf("one name twice: %v", errs)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	disk, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "db"), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = disk.Run(t.Context()) }) // it ends with the test
	t.Cleanup(func() {
		running.Wait()
		_ = disk.Close()
	})
	put := func(resource string, obj kinds.Object) {
		t.Helper()
		obj.SetNamespace("n")
		key := store.Key{Resource: resource, Namespace: "n", Name: obj.GetName()}
		if _, err := disk.Commit(t.Context(), store.Commit{Writes: []store.Write{{Key: key, Expect: store.Absent, Object: obj}}}); err != nil {
			t.Fatal(err)
		}
	}
	service := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}}
	}
	slice := func(of, address string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: of + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: of}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{address}}},
			Ports:      []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(8443))}},
		}
	}
	for _, name := range []string{"near", "far", "empty"} {
		put("services", service(name))
	}
	outside := service("outside")
	outside.Spec.Type, outside.Spec.ExternalName = corev1.ServiceTypeExternalName, "localhost"
	put("services", outside)
	put("endpointslices.discovery.k8s.io", slice("near", "127.0.0.1"))
	put("endpointslices.discovery.k8s.io", slice("far", "10.1.2.3"))
	for _, tt := range []struct {
		name string
		port *int32
		want string
		err  string
	}{
		{name: "near", want: "127.0.0.1:8443"},
		{name: "near", port: new(int32(80)), err: `no service port 80 found for service "near"`},
		{name: "far", err: `service "far" has the endpoint 10.1.2.3, which podfall cannot reach`},
		{name: "empty", err: `no endpoints available for service "empty"`},
		{name: "outside", port: new(int32(9443)), want: "localhost:9443"},
		{name: "gone", err: `services "gone" not found`},
	} {
		got, err := Resolve(disk.Snapshot(), ar.ServiceReference{Namespace: "n", Name: tt.name, Port: tt.port})
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}
