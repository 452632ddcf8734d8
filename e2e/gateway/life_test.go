package gateway_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// TestReadingChangesNothing asks for everything with GET and HEAD, and finds the store at
// the revision at which it was (T2).
func TestReadingChangesNothing(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	revision := func() string {
		var list metav1.PartialObjectMetadataList
		if err := json.Unmarshal(r.made("GET "+pods, ""), &list); err != nil {
			t.Fatal(err)
		}
		return list.ResourceVersion
	}
	before := revision()
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{
			pods, pods + "/web", pods + "/web/status", pods + "/web/binding", pods + "/web/eviction", pods + "/web/ephemeralcontainers",
			pods + "/web/log", pods + "/web/exec?command=ls", pods + "?dryRun=All", "/api/v1/namespaces/default/finalize", "/api/v1/bindings",
			"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/api", "/apis", "/openapi/v3", "/version", "/metrics", "/healthz",
			pods + "?watch=1&timeoutSeconds=1", pods + "/web?gracePeriodSeconds=0",
		} {
			resp := r.stream(t.Context(), method+" "+path, "", "X-HTTP-Method-Override: DELETE")
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.close()
		}
	}
	if after := revision(); after != before {
		t.Errorf("the store went from %s to %s", before, after)
	}
}

func TestReviews(t *testing.T) {
	r := newRig(t)
	set, ctx := r.clientset(), t.Context()
	mayI, err := set.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"}},
	}, metav1.CreateOptions{})
	if err != nil || !mayI.Status.Allowed {
		t.Errorf("%v %+v", err, mayI)
	}
	for user, want := range map[string]bool{"kubernetes-admin": true, "eve": false} {
		may, err := set.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods"}},
		}, metav1.CreateOptions{})
		if err != nil || may.Status.Allowed != want {
			t.Errorf("%s: %v %+v", user, err, may)
		}
	}
	config := r.config()
	config.Impersonate.UserName, config.Impersonate.Groups = "eve", []string{"guests"}
	eve := clientsetFor(t, config)
	if mayI, err = eve.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/"}},
	}, metav1.CreateOptions{}); err != nil || mayI.Status.Allowed {
		t.Errorf("played by the admin: %v %+v", err, mayI)
	}
	if who, err := eve.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil ||
		who.Status.UserInfo.Username != "eve" || len(who.Status.UserInfo.Groups) != 2 {
		t.Errorf("%v %+v", err, who)
	}
	refused := `pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "default"`
	if _, err := eve.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil || err.Error() != refused {
		t.Errorf("played by the admin: %v, want %s", err, refused)
	}
	if _, err := eve.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("played by the admin: a watch: %v", err)
	}
	if err := eve.CoreV1().Nodes().Delete(ctx, "node-1", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("played by the admin: a delete: %v", err)
	}
	rules, err := set.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
	}, metav1.CreateOptions{})
	if err != nil || len(rules.Status.ResourceRules) != 1 || rules.Status.ResourceRules[0].Verbs[0] != "*" {
		t.Errorf("%v %+v", err, rules)
	}
	who, err := set.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "kubernetes-admin" {
		t.Errorf("%v %+v", err, who)
	}
	for offered, want := range map[string]bool{token: true, "another": false} {
		known, err := set.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: offered}}, metav1.CreateOptions{})
		if err != nil || known.Status.Authenticated != want {
			t.Errorf("%v %+v", err, known)
		}
	}
}

func TestMetrics(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	r.made("GET "+pods+"?dryRun=All", "")
	r.ask("GET "+pods+"/none", "")
	r.watch("resourceVersion=1").next()
	text := string(r.made("GET /metrics", ""))
	for _, want := range []string{
		`apiserver_request_total{verb="POST",group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver",dry_run="",code="201"} 1`,
		`apiserver_request_total{verb="GET",group="",version="v1",resource="pods",subresource="",scope="resource",component="apiserver",dry_run="",code="404"} 1`,
		`apiserver_longrunning_requests{verb="WATCH",group="",version="v1",resource="pods",subresource="",scope="namespace",component="apiserver"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 0`,
		`apiserver_watch_events_total{group="",version="v1",resource="pods"} 1`,
		"# TYPE apiserver_request_duration_seconds histogram",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("want %s in:\n%s", want, text)
		}
	}
}

// breaker is a dialer whose connections a test can break.
type breaker struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (b *breaker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns = append(b.conns, conn)
	}
	return conn, err
}

func (b *breaker) breakAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		_ = conn.Close()
	}
	b.conns = nil
}

// nameOf is the name of what a handler is given.
func nameOf(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return err.Error()
	}
	_, name, _ := strings.Cut(key, "/")
	return name
}

// TestAnInformerMissesNothing through broken connections and an apiserver that ends, and is
// told nothing twice.
func TestAnInformerMissesNothing(t *testing.T) {
	r := newRig(t)
	var broken breaker
	config := r.config()
	config.Dial = broken.dial
	set := clientsetFor(t, config)
	factory := informers.NewSharedInformerFactory(set, 0)
	informer := factory.Core().V1().ConfigMaps().Informer()
	seen := make(chan string, 1000)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "added " + nameOf(obj) },
		UpdateFunc: func(_, obj any) { seen <- "updated " + nameOf(obj) },
		DeleteFunc: func(obj any) { seen <- "deleted " + nameOf(obj) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("not in sync")
	}
	told := map[string]int{}
	await := func(last string) {
		for done := false; !done; {
			select {
			case news := <-seen:
				told[news]++
				done = news == last
			case <-time.After(patience):
				t.Fatalf("never told %q: %v", last, told)
			}
		}
	}
	const maps = "/api/v1/namespaces/default/configmaps"
	const rounds = 12
	for i := range rounds {
		if i%2 == 1 { // client-go lists anew after a watch that has told nothing before it broke
			await(fmt.Sprintf("deleted c-%d", i-1))
		}
		switch i % 4 {
		case 1:
			broken.breakAll()
		case 3:
			r.stopAPI()
			r.startAPI()
		}
		r.made("POST "+maps, fmt.Sprintf(`{"metadata":{"name":"c-%d"}}`, i))
		r.made("DELETE "+maps+fmt.Sprintf("/c-%d", i), "")
	}
	r.made("POST "+maps, `{"metadata":{"name":"last"}}`)
	await("added last")
	for news, times := range told {
		if times > 1 {
			t.Errorf("%s: told %d times", news, times)
		}
	}
	for i := range rounds {
		// A list after a break may skip what came and went meanwhile, but a watch that
		// resumes does not, and nothing here made history go.
		for _, what := range []string{"added", "deleted"} {
			if told[fmt.Sprintf("%s c-%d", what, i)] != 1 {
				t.Errorf("%s c-%d: told %d times", what, i, told[fmt.Sprintf("%s c-%d", what, i)])
			}
		}
	}
}

// TestTheApiserverIsAway: a request waits for it, and says so if it does not come.
func TestTheApiserverIsAway(t *testing.T) {
	r := newRig(t)
	r.stopAPI()
	resp, data := r.ask("GET "+pods+"?timeout=300ms", "")
	if resp.StatusCode != http.StatusGatewayTimeout && resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s %s", resp.Status, data)
	}
	if resp, _ := r.ask("GET /readyz", ""); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("readyz: %s", resp.Status)
	}
	if resp, _ := r.ask("GET /livez", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("livez: %s", resp.Status)
	}
	var asking sync.WaitGroup
	asking.Go(func() { r.made("GET "+pods, "") })
	r.startAPI()
	asking.Wait()
}

// TestTheGatewayEnds: watches end in peace, and so does the service.
func TestTheGatewayEnds(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	w := r.watch("timeoutSeconds=600")
	w.want("ADDED web")
	r.stopGateway()
	if w.lines.Scan() || w.lines.Err() != nil {
		t.Errorf("after the end: %q %v", w.lines.Text(), w.lines.Err())
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	afresh := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.trusted}}}
	if resp, err := afresh.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Errorf("after the end: %s", resp.Status)
	} else if _, refused := errors.AsType[*net.OpError](err); !refused {
		t.Errorf("after the end: %v", err)
	}
}
