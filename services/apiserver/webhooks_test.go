package apiserver_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// hookServer is an admission webhook on the loopback that records its requests.
type hookServer struct {
	*httptest.Server

	mu    sync.Mutex
	asked []admissionv1.AdmissionRequest
}

// newHookServer answers every request by rule.
func newHookServer(t testing.TB, rule func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *hookServer {
	t.Helper()
	j := &hookServer{}
	j.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		j.mu.Lock()
		j.asked = append(j.asked, *review.Request)
		j.mu.Unlock()
		answer := rule(review.Request)
		if answer == nil {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		answer.UID = review.Request.UID
		_ = json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer})
	}))
	t.Cleanup(j.Close)
	return j
}

// requests returns the requests since the last call: operation, resource, subresource, name.
func (j *hookServer) requests() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var texts []string
	for _, q := range j.asked {
		text := fmt.Sprintf("%s %s", q.Operation, q.Resource.Resource)
		if q.SubResource != "" {
			text += "/" + q.SubResource
		}
		texts = append(texts, fmt.Sprintf("%s %s as %s by %s old=%t new=%t",
			text, q.Name, q.Kind.Kind, q.UserInfo.Username, len(q.OldObject.Raw) > 0, len(q.Object.Raw) > 0))
	}
	j.asked = nil
	return texts
}

func (j *hookServer) client() admissionregistrationv1.WebhookClientConfig {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: j.Certificate().Raw})
	return admissionregistrationv1.WebhookClientConfig{URL: new(j.URL + "/judge"), CABundle: ca}
}

func allow() *admissionv1.AdmissionResponse { return &admissionv1.AdmissionResponse{Allowed: true} }

func deny(message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: message, Code: http.StatusForbidden}}
}

// patch allows, and changes the object.
func patch(operations string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(operations), PatchType: new(admissionv1.PatchTypeJSONPatch)}
}

// mostSeconds is the most that a webhook may take: the machine may be busy.
const mostSeconds = 30

// everything is a hook about everything in the namespace default, and about widgets.
func everything(j *hookServer, change ...func(*admissionregistrationv1.ValidatingWebhook)) admissionregistrationv1.ValidatingWebhook {
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "judge.example.com", ClientConfig: j.client(), AdmissionReviewVersions: []string{"v1"},
		SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(mostSeconds)),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"*"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"}},
	}
	for _, c := range change {
		c(&hook)
	}
	return hook
}

func (c *client) validateWith(hooks ...admissionregistrationv1.ValidatingWebhook) {
	c.t.Helper()
	kind, _ := kinds.ByResource("validatingwebhookconfigurations.admissionregistration.k8s.io")
	obj := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "judges"}, Webhooks: hooks}
	if _, err := c.api.Create(c.t.Context(), podapi.Target{Kind: kind}, obj, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) mutateWith(hooks ...admissionregistrationv1.MutatingWebhook) {
	c.t.Helper()
	kind, _ := kinds.ByResource("mutatingwebhookconfigurations.admissionregistration.k8s.io")
	obj := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "changers"}, Webhooks: hooks}
	if _, err := c.api.Create(c.t.Context(), podapi.Target{Kind: kind}, obj, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// changer is a mutating hook about creates and updates of pods and widgets.
func changer(name string, j *hookServer) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: name, ClientConfig: j.client(), AdmissionReviewVersions: []string{"v1"},
		SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(mostSeconds)),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"", "example.com"}, APIVersions: []string{"v1"}, Resources: []string{"pods", "widgets"},
			},
		}},
	}
}

func expectAsked(t *testing.T, j *hookServer, want ...string) {
	t.Helper()
	if got := j.requests(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestEveryWriteCallsTheWebhooks(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	c, node := s.client("client:admin"), s.client(proto.Node("n1"))
	j := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return allow() })
	c.validateWith(everything(j))
	c.create()
	c.bind()
	if _, err := c.api.Patch(t.Context(), pods("p", ""), types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	node.phase(corev1.PodRunning)
	pod := c.get()
	c.delete(grace(30))
	node.phase(corev1.PodSucceeded)
	node.delete(metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	c.create(func(p *corev1.Pod) { p.Name = "q" })
	if _, err := c.api.DeleteCollection(t.Context(), pods("", ""), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	const admin = "kubernetes-admin"
	expectAsked(t, j,
		"CREATE pods p as Pod by "+admin+" old=false new=true",
		"CREATE pods/binding p as Binding by "+admin+" old=false new=true",
		"UPDATE pods p as Pod by "+admin+" old=true new=true",
		"UPDATE pods/status p as Pod by system:node:n1 old=true new=true",
		"DELETE pods p as Pod by "+admin+" old=true new=false",
		"UPDATE pods/status p as Pod by system:node:n1 old=true new=true",
		"DELETE pods p as Pod by system:node:n1 old=true new=false",
		"CREATE pods q as Pod by "+admin+" old=false new=true",
		"DELETE pods q as Pod by "+admin+" old=true new=false",
	)
}

func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	c := s.client("client:admin")
	j := newHookServer(t, func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if q.Operation == admissionv1.Delete {
			return deny("not yet")
		}
		answer := allow()
		answer.Warnings = []string{"seen"}
		return answer
	})
	c.validateWith(everything(j))
	var warned []string
	c.api = podapi.New(s.dial("client:admin"), podapi.Config{Warn: func(text string) { warned = append(warned, text) }})
	c.create()
	if strings.Join(warned, ",") != "seen" {
		t.Errorf("warnings %q", warned)
	}
	_, err := c.api.Delete(t.Context(), pods("p", ""), metav1.DeleteOptions{})
	if !isCode(err, http.StatusForbidden) || err.Error() != `admission webhook "judge.example.com" denied the request: not yet` {
		t.Errorf("delete: %v", err)
	}
	if c.get().DeletionTimestamp != nil {
		t.Error("the pod was marked all the same")
	}
}

func isCode(err error, code int32) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && status.Status().Code == code
}

func TestWebhookMutates(t *testing.T) {
	t.Parallel()
	c := newHarness(t).client("client:admin")
	crd := c.define()
	label := newHookServer(t, func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if strings.Contains(string(q.Object.Raw), `"second":"yes"`) {
			return patch(`[{"op":"add","path":"/metadata/labels/saw","value":"second"}]`)
		}
		return patch(`[{"op":"add","path":"/metadata/labels","value":{"first":"yes"}},{"op":"add","path":"/metadata/uid","value":"mine"}]`)
	})
	second := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return patch(`[{"op":"add","path":"/metadata/labels/second","value":"yes"}]`)
	})
	first := changer("a.example.com", label)
	first.ReinvocationPolicy = new(admissionregistrationv1.IfNeededReinvocationPolicy)
	c.mutateWith(first, changer("b.example.com", second))
	pod := c.create()
	if want := "first second saw"; pod.Labels["first"] != "yes" || pod.Labels["second"] != "yes" || pod.Labels["saw"] != "second" {
		t.Errorf("labels %v, want %s", pod.Labels, want)
	}
	if pod.UID == "mine" {
		t.Error("a webhook has set the UID")
	}
	if n, m := len(label.requests()), len(second.requests()); n != 2 || m != 1 {
		t.Errorf("asked %d and %d times, want 2 and 1", n, m)
	}
	created, err := c.api.Create(t.Context(), widget(t, crd, "v2", "", ""), newWidget("v2", "w", nil), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if labels := created.GetLabels(); labels["first"] != "yes" || as[*unstructured.Unstructured](t, created).GetAPIVersion() != "example.com/v2" {
		t.Errorf("widget %v", created)
	}
	asked := label.requests()
	if len(asked) == 0 || !strings.HasPrefix(asked[0], "CREATE widgets w as Widget") {
		t.Errorf("asked %v: v2 is equivalent to v1", asked)
	}
}

// deadAddress is an address on which no process listens, nor can until the test ends: it is the
// local end of a connection.
func deadAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.LocalAddr().String()
}

func TestWebhookThatFails(t *testing.T) {
	t.Parallel()
	broken := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return nil })
	config := broken.client()
	config.URL = new("https://" + deadAddress(t) + "/judge")
	release := make(chan struct{})
	slow := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { <-release; return allow() })
	t.Cleanup(func() { close(release) }) // after the subtests; the server closes behind it
	for _, tt := range []struct {
		name, want string
		hook       admissionregistrationv1.ValidatingWebhook
	}{
		{"an error", `Internal error occurred: failed calling webhook "judge.example.com": failed to call webhook: an error on the server ("out of order") has prevented the request from succeeding`, everything(broken)},
		{"nobody there", `Internal error occurred: failed calling webhook "judge.example.com": failed to call webhook: Post "` + *config.URL + `?timeout=30s": dial tcp`, everything(broken, func(h *admissionregistrationv1.ValidatingWebhook) { h.ClientConfig = config })},
		{"another certificate", "x509: certificate signed by unknown authority", everything(broken, func(h *admissionregistrationv1.ValidatingWebhook) { h.ClientConfig.CABundle = nil })},
		{"no answer", "context deadline exceeded", everything(slow, func(h *admissionregistrationv1.ValidatingWebhook) { h.TimeoutSeconds = new(int32(1)) })},
		{"a service that is not there", `services "gone" not found`, everything(broken, func(h *admissionregistrationv1.ValidatingWebhook) {
			h.ClientConfig.URL, h.ClientConfig.Service = nil, &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "gone"}
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newHarness(t).client("client:admin")
			c.validateWith(tt.hook)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}}}
			_, err := c.api.Create(t.Context(), pods("", ""), pod, metav1.CreateOptions{})
			if !isCode(err, http.StatusInternalServerError) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("failing closed:\n got %v\nwant %s", err, tt.want)
			}
			c = newHarness(t).client("client:admin")
			tt.hook.FailurePolicy = new(admissionregistrationv1.Ignore)
			c.validateWith(tt.hook)
			c.create()
		})
	}
}

func TestSlowWebhookHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	s := newHarness(t)
	c := s.client("client:admin")
	entered, release := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	slow := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		close(entered)
		<-release
		return allow()
	})
	t.Cleanup(letGo) // the server closes behind it
	c.validateWith(everything(slow, func(h *admissionregistrationv1.ValidatingWebhook) {
		h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "slow", Expression: `object.metadata.name == "slow"`}}
	}))
	other, held := s.client("client:other"), make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		defer close(held)
		other.create(func(p *corev1.Pod) { p.Name = "slow" })
	})
	<-entered
	c.create()
	select {
	case <-held:
		t.Error("another create has waited for the slow one")
	default:
	}
	if n := len(slow.requests()); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	letGo()
	waiting.Wait()
}

func TestDryRunAsksOnlyWhoAllowsIt(t *testing.T) {
	t.Parallel()
	c := newHarness(t).client("client:admin")
	j := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return deny("") })
	c.validateWith(everything(j))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}}}
	_, err := c.api.Create(t.Context(), pods("", ""), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || err.Error() != `admission webhook "judge.example.com" denied the request without explanation` {
		t.Errorf("a dry run: %v", err)
	}
}

// TestWhatWebhooksMakeOfASubresourceIsChecked has a webhook that spoils what it is shown:
// the checks of the apiserver come after it.
func TestWhatWebhooksMakeOfASubresourceIsChecked(t *testing.T) {
	t.Parallel()
	c := newHarness(t).client("client:admin")
	accounts, _ := kinds.ByResource("serviceaccounts")
	account := podapi.Target{Kind: accounts, Namespace: "default", Name: "builder"}
	if _, err := c.api.Create(t.Context(), account, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create()
	var spoil string
	spoiler := newHookServer(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return patch(spoil) })
	hook := changer("spoiler.example.com", spoiler)
	hook.Rules[0].Rule = admissionregistrationv1.Rule{
		APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"pods/binding", "pods/eviction", "serviceaccounts/token"},
	}
	c.mutateWith(hook)
	account.Subresource = "token"
	for name, row := range map[string]struct {
		at          podapi.Target
		body, spoil string
		want        string
	}{
		"binding without a node": {
			pods("p", "binding"), `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"name":"n1"}}`,
			`[{"op":"remove","path":"/target/name"}]`, "target.name: Required value",
		},
		"eviction of another pod": {
			pods("p", "eviction"), `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`,
			`[{"op":"replace","path":"/metadata/name","value":"q"}]`, "name in URL does not match name in Eviction object",
		},
		"token without an end": {
			account, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`,
			`[{"op":"remove","path":"/spec/expirationSeconds"}]`, "spec.expirationSeconds: Required value",
		},
		"token of a moment": {
			account, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`,
			`[{"op":"replace","path":"/spec/expirationSeconds","value":1}]`, "may not specify a duration less than 10 minutes",
		},
	} {
		spoil = row.spoil
		_, err := c.api.CreateRaw(t.Context(), row.at, kinds.ContentTypeJSON, []byte(row.body), metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
	if pod := c.get(); pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		t.Errorf("the pod was bound to %q or deleted all the same", pod.Spec.NodeName)
	}
}
