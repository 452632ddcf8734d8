package customers

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/podfall/podfall/podfalltest"
)

// caller makes raw HTTP requests.
type caller struct {
	*testing.T
	client *http.Client
	config *rest.Config
}

func newCaller(t *testing.T, config *rest.Config) *caller {
	t.Helper()
	transport, err := rest.TransportFor(config)
	must(t, err)
	return &caller{T: t, client: &http.Client{Transport: transport}, config: config}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

// call makes a request; headers are "Name: value".
func (c *caller) call(method, path, body string, headers ...string) answer {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), method, c.config.Host+path, strings.NewReader(body))
	must(c.T, err)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			request.Host = value
			continue
		}
		request.Header.Set(name, value)
	}
	response, err := c.client.Do(request)
	must(c.T, err)
	data, err := io.ReadAll(response.Body)
	must(c.T, err)
	must(c.T, response.Body.Close())
	return answer{response, string(data)}
}

// status decodes the Status of an answer.
func (a answer) status(t *testing.T) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal([]byte(a.body), &status); err != nil || status.Kind != "Status" {
		t.Errorf("%s %s: no Status in %q", a.Request.Method, a.Request.URL, a.body)
	}
	return status
}

const pods = "/api/v1/namespaces/default/pods"

// TestRefusals sends invalid requests; each answer has upstream's code, reason and message.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := newCaller(t, podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config())
	big := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"a":"` + strings.Repeat("x", 3<<20+1) + `"}}`
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	for _, r := range []struct {
		what, method, path, body string
		headers                  []string
		code                     int
		reason                   metav1.StatusReason
		message                  string
	}{
		{"no JSON", "POST", pods, `{"a`, nil, 400, "BadRequest", "couldn't get version/kind; json parse error: unexpected end of JSON input"},
		{"empty body", "POST", pods, ``, nil, 400, "BadRequest", "couldn't get version/kind"},
		{"no kind", "POST", pods, `{"apiVersion":"v1"}`, nil, 422, "Invalid", `Pod "" is invalid: [metadata.name: Required value: name or generateName is required, spec.containers: Required value]`},
		{"another kind", "POST", pods, `{"apiVersion":"v1","kind":"Secret"}`, nil, 400, "BadRequest", `Secret in version "v1" cannot be handled as a Pod: converting (v1.Secret) to (core.Pod): unknown conversion`},
		{"another version", "POST", pods, `{"apiVersion":"v2","kind":"Pod"}`, nil, 400, "BadRequest", ""},
		{"unknown content", "POST", pods, `{}`, []string{"Content-Type: text/plain"}, 415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include:"},
		{"unknown patch", "PATCH", pods + "/x", `{}`, []string{"Content-Type: application/json"}, 415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"},
		{"nothing acceptable", "GET", pods, ``, []string{"Accept: text/plain"}, 406, "NotAcceptable", "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"too big", "POST", "/api/v1/namespaces/default/configmaps", big, nil, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"},
		{"too deep", "POST", pods, deep, nil, 400, "BadRequest", ""},
		{"bad label selector", "GET", pods + "?labelSelector=a+b+c", ``, nil, 400, "BadRequest", `unable to parse requirement: found 'b', expected:`},
		{"bad field selector", "GET", pods + "?fieldSelector=a", ``, nil, 400, "BadRequest", `invalid selector: 'a'; can't understand 'a'`},
		{"unknown field", "GET", pods + "?fieldSelector=spec.frog%3D1", ``, nil, 400, "BadRequest", `field label not supported: spec.frog`},
		{"bad continue", "GET", pods + "?limit=1&continue=frog", ``, nil, 400, "BadRequest", "continue key is not valid"},
		{"bad revision", "GET", pods + "?resourceVersion=frog", ``, nil, 400, "BadRequest", ""},
		{"match without revision", "GET", pods + "?resourceVersionMatch=Exact", ``, nil, 422, "Invalid", "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"},
		{"unknown resource", "GET", "/api/v1/frogs", ``, nil, 404, "NotFound", "the server could not find the requested resource"},
		{"unknown subresource", "GET", pods + "/x/frog", ``, nil, 404, "NotFound", "the server could not find the requested resource"},
		{"unknown name", "GET", pods + "/x", ``, nil, 404, "NotFound", `pods "x" not found`},
		{"method", "POST", pods + "/x", `{}`, nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"},
		{"put without name", "PUT", pods, `{}`, nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"},
		{"create everywhere", "POST", "/api/v1/pods", `{}`, nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource"},
		{"strange method", "BREW", pods, ``, nil, 405, "MethodNotAllowed", ""},
		{"wrong token", "GET", pods, ``, []string{"Authorization: Bearer frog"}, 401, "Unauthorized", "Unauthorized"},
		{"basic", "GET", pods, ``, []string{"Authorization: Basic ZnJvZzpmcm9n"}, 401, "Unauthorized", "Unauthorized"},
		{"foreign host", "GET", pods, ``, []string{"Host: rebound.example.com"}, 403, "Forbidden", ""},
		{"a browser", "GET", pods, ``, []string{"Origin: https://example.com"}, 403, "Forbidden", ""},
		{"a browser's fetch", "POST", pods, `{}`, []string{"Sec-Fetch-Site: cross-site"}, 403, "Forbidden", ""},
	} {
		t.Run(r.what, func(t *testing.T) {
			headers := r.headers
			if r.method == "POST" && len(headers) == 0 {
				headers = []string{"Content-Type: application/json"}
			}
			got := c.call(r.method, r.path, r.body, headers...)
			status := got.status(t)
			if got.StatusCode != r.code || status.Reason != r.reason || status.Status != "Failure" || int(status.Code) != r.code {
				t.Errorf("got %d, and a Status of %d %s %s, want %d %s", got.StatusCode, status.Code, status.Status, status.Reason, r.code, r.reason)
			}
			if !strings.Contains(status.Message, r.message) {
				t.Errorf("got %q, want %q", status.Message, r.message)
			}
		})
	}
}

// TestUnknownGroup: for an unknown group the answer is not a Status.
func TestUnknownGroup(t *testing.T) {
	t.Parallel()
	c := newCaller(t, podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config())
	if got := c.call("GET", "/apis/example.com/v1/frogs", ""); got.StatusCode != http.StatusNotFound || got.body != "404 page not found\n" {
		t.Errorf("got %d %q", got.StatusCode, got.body)
	}
}

// TestAccept negotiates content types as client libraries do.
func TestAccept(t *testing.T) {
	t.Parallel()
	c := newCaller(t, podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config())
	for accept, want := range map[string][2]string{
		"":                                    {"application/json", "PodList"},
		"*/*":                                 {"application/json", "PodList"},
		"application/json":                    {"application/json", "PodList"},
		"application/yaml":                    {"application/yaml", "PodList"},
		"application/vnd.kubernetes.protobuf": {"application/vnd.kubernetes.protobuf", "k8s\x00"},
		"application/vnd.kubernetes.protobuf, application/json":                                                           {"application/vnd.kubernetes.protobuf", "k8s\x00"},
		"application/cbor, application/vnd.kubernetes.protobuf;q=0.5, application/json;q=0.9":                             {"application/json", "PodList"},
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json": {"application/json", `"Table"`},
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io":                                                               {"application/json", `meta.k8s.io/v1beta1`},
		"application/json;as=Table;v=v9;g=meta.k8s.io, application/json":                                                  {"application/json", "PodList"},
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io":                                                {"application/json", "PartialObjectMetadataList"},
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json":            {"application/vnd.kubernetes.protobuf", "PartialObjectMetadataList"},
		"text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8":                                              {"application/json", "PodList"},
	} {
		headers := []string{}
		if accept != "" {
			headers = append(headers, "Accept: "+accept)
		}
		got := c.call("GET", pods, "", headers...)
		if kind := got.Header.Get("Content-Type"); got.StatusCode != http.StatusOK || !strings.HasPrefix(kind, want[0]) || !strings.Contains(got.body, want[1]) {
			t.Errorf("Accept: %s: got %d %s %.200q, want %s with %q", accept, got.StatusCode, kind, got.body, want[0], want[1])
		}
	}
}

// TestHeaders checks the response headers.
func TestHeaders(t *testing.T) {
	t.Parallel()
	c := newCaller(t, podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config())
	got := c.call("GET", pods, "")
	if got.ProtoMajor != 2 {
		t.Errorf("the answer came by %s, want HTTP/2", got.Proto)
	}
	if got.Header.Get("Audit-Id") == "" {
		t.Error("the answer has no Audit-Id")
	}
	if got.Header.Get("Cache-Control") != "no-cache, private" {
		t.Errorf("Cache-Control: %q", got.Header.Get("Cache-Control"))
	}
	created := c.call("POST", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"b"}],"frog":1}}`,
		"Content-Type: application/json")
	if created.StatusCode != http.StatusCreated || created.Header.Get("Warning") != `299 - "unknown field \"spec.frog\""` {
		t.Errorf("a pod with an unknown field: %d, Warning: %s", created.StatusCode, created.Header.Get("Warning"))
	}
	if c.call("GET", pods, "", "Authorization: Bearer wrong").Header.Get("Audit-Id") == "" {
		t.Error("a refusal has no Audit-Id")
	}
}

// TestGzip requests compression, which large answers have.
func TestGzip(t *testing.T) {
	t.Parallel()
	c := newCaller(t, podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config())
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`
	if got := c.call("POST", "/api/v1/namespaces/default/configmaps", body, "Content-Type: application/json"); got.StatusCode != http.StatusCreated {
		t.Fatal(got.body)
	}
	got := c.call("GET", "/api/v1/namespaces/default/configmaps/big", "", "Accept-Encoding: gzip")
	if got.Header.Get("Content-Encoding") != "gzip" || got.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("a large answer has headers %v", got.Header)
	}
	unpacked, err := gzip.NewReader(strings.NewReader(got.body))
	must(t, err)
	data, err := io.ReadAll(unpacked)
	must(t, err)
	if !bytes.Contains(data, []byte("xxxxx")) {
		t.Errorf("got %.100q", data)
	}
	if small := c.call("GET", "/api/v1/namespaces/default", "", "Accept-Encoding: gzip"); small.Header.Get("Content-Encoding") != "" {
		t.Error("a small answer is compressed")
	}
}

// TestProtocols uses HTTP/1.1 and protobuf.
func TestProtocols(t *testing.T) {
	t.Parallel()
	config := podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config()
	old := rest.CopyConfig(config)
	old.NextProtos = []string{"http/1.1"}
	if got := newCaller(t, old).call("GET", pods, ""); got.ProtoMajor != 1 || got.StatusCode != http.StatusOK {
		t.Errorf("over HTTP/1.1: %s %d", got.Proto, got.StatusCode)
	}

	binary := rest.CopyConfig(config)
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(binary)
	must(t, err)
	made, err := client.CoreV1().Pods("default").Create(t.Context(), unscheduled("binary"), metav1.CreateOptions{})
	must(t, err)
	if made.UID == "" || made.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("made in protobuf: %+v", made)
	}
	watcher, err := client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer watcher.Stop()
	if event := <-watcher.ResultChan(); event.Object.(*corev1.Pod).UID != made.UID { //nolint:errcheck,forcetypeassert // a panic says as much
		t.Errorf("watched in protobuf: %+v", event)
	}

	meta, err := metadata.NewForConfig(config)
	must(t, err)
	list, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].UID != made.UID {
		t.Errorf("metadata alone: %+v", list.Items)
	}
}

// TestWatchRequests requests watches as the client libraries do.
func TestWatchRequests(t *testing.T) {
	t.Parallel()
	config := podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config()
	c := newCaller(t, config)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	_, err = client.CoreV1().Pods("default").Create(t.Context(), unscheduled("one"), metav1.CreateOptions{})
	must(t, err)

	for path, want := range map[string]string{
		pods + "?watch=true&resourceVersion=0":      "^ADDED$",
		pods + "?watch=true&resourceVersion=":       "^ADDED$",
		pods + "?watch=true":                        "^ADDED$",
		"/api/v1/watch/namespaces/default/pods?a=b": "^ADDED$",
		pods + "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan": "^ADDED BOOKMARK",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			got := (&caller{T: t, client: c.client, config: c.config}).call("GET", path+"&timeoutSeconds=20", "")
			events := strings.Join(eventTypes(t, got.body), " ")
			if got.StatusCode != http.StatusOK || !regexp.MustCompile(want).MatchString(events) {
				t.Errorf("%d %s, want %s: %s", got.StatusCode, events, want, got.body)
			}
			if strings.Contains(want, "BOOKMARK") && !strings.Contains(got.body, `"k8s.io/initial-events-end":"true"`) {
				t.Errorf("the bookmark does not end the initial events: %s", got.body)
			}
			if took := time.Since(began); took < 20*time.Second || took > conditionTimeout {
				t.Errorf("a watch of 20 s took %v", took)
			}
		})
	}

	one := c.call("GET", pods+"/one?watch=true&timeoutSeconds=1", "") // a watch of one object
	if one.StatusCode != http.StatusOK || len(eventTypes(t, one.body)) != 1 {
		t.Errorf("watch of one name: %d %s", one.StatusCode, one.body)
	}

	for _, query := range []string{"resourceVersion=0", "resourceVersion=0&resourceVersionMatch=NotOlderThan", "limit=500&resourceVersion=0"} {
		if got := c.call("GET", pods+"?"+query, ""); got.StatusCode != http.StatusOK || !strings.Contains(got.body, `"one"`) {
			t.Errorf("list with %s: %d %s", query, got.StatusCode, got.body)
		}
	}
}

// eventTypes returns the types of the events in a stream.
func eventTypes(t *testing.T, stream string) []string {
	t.Helper()
	var all []string
	for decoder := json.NewDecoder(strings.NewReader(stream)); ; {
		var event metav1.WatchEvent
		err := decoder.Decode(&event)
		if err == io.EOF {
			return all
		}
		must(t, err)
		all = append(all, event.Type)
	}
}

// TestPages lists in pages, as kubectl and older informers do.
func TestPages(t *testing.T) {
	t.Parallel()
	config := podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	const all = 25
	for i := range all {
		_, err := client.CoreV1().Pods("default").Create(t.Context(), unscheduled(fmt.Sprintf("pod-%02d", i)), metav1.CreateOptions{})
		must(t, err)
	}
	var names []string
	options := metav1.ListOptions{Limit: 10}
	for page := 0; ; page++ {
		list, err := client.CoreV1().Pods("default").List(t.Context(), options)
		must(t, err)
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if left := all - len(names); left > 0 && (list.RemainingItemCount == nil || int(*list.RemainingItemCount) != left) {
			t.Errorf("page %d says that %v are left, want %d", page, list.RemainingItemCount, left)
		}
		if page == 0 { // later changes have a later revision and do not belong to this list
			_, err := client.CoreV1().Pods("default").Create(t.Context(), unscheduled("pod-99"), metav1.CreateOptions{})
			must(t, err)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	if len(names) != all {
		t.Errorf("listed %d pods by pages, want %d: %v", len(names), all, names)
	}
}

// TestCertificate trusts only the authority in the kubeconfig.
func TestCertificate(t *testing.T) {
	t.Parallel()
	config := podfalltest.Start(t, podfalltest.Controllers("*", "-scheduler")).Config()
	if config.Insecure || len(config.CAData) == 0 && config.CAFile == "" {
		t.Error("the config does not check the server's certificate")
	}
	_, err := (&tls.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(config.Host, "https://"))
	if err == nil {
		t.Error("the server's certificate is trusted by everyone")
	}
}
