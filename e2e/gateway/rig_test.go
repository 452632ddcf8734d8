// Package gateway_test takes requests through the whole of a cluster's front: a client's
// HTTPS, the gateway, the bus, the apiserver and its store.
package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/pki"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver"
	gatewayservice "github.com/podfall/podfall/services/gateway"
)

const token = "open-sesame"

// patience is how long a condition may take.
const patience = 2 * time.Minute

// rig is a bus, an apiserver that can be stopped, and a gateway on a port of its own.
type rig struct {
	t    testing.TB
	hub  *bus.Server
	url  string
	ca   []byte
	http *http.Client
	// trusted has the authority that ca is.
	trusted *x509.CertPool
	dir     string

	stopAPI     func()
	stopGateway func()
}

func newRig(t testing.TB) *rig {
	t.Helper()
	hub, err := bus.StartServer(t.Context(), bus.ServerConfig{Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hub.Close)
	r := &rig{t: t, hub: hub, dir: t.TempDir()}
	r.startAPI()
	t.Cleanup(func() { r.stopAPI() })
	r.startGateway()
	return r
}

func (r *rig) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (r *rig) dial(id proto.Identity) *bus.Conn {
	r.t.Helper()
	conn, err := bus.Dial(r.t.Context(), bus.Config{Identity: id, InProcess: r.hub.InProcessConn})
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

// begin runs a service until the function it returns is called.
func (r *rig) begin(run func(ctx context.Context, ready func()) error) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	ready := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx, sync.OnceFunc(func() { close(ready) })); err != nil {
			r.t.Errorf("a service ended: %v", err)
		}
		cancel()
	})
	select {
	case <-ready:
	case <-ctx.Done():
		r.t.Fatal("a service ended before it was ready")
	}
	return func() { cancel(); running.Wait() }
}

func boot() proto.Boot { return proto.NewBoot(clock.Clock{}.Now(), [4]byte{1}) }

func (r *rig) startAPI() {
	conn := r.dial(proto.APIServer)
	stop := r.begin(func(ctx context.Context, ready func()) error {
		return apiserver.Run(ctx, apiserver.Config{Bus: conn, DataDir: r.dir, Boot: boot(), Log: r.log(), NoSync: true, Ready: ready, Keep: 200})
	})
	r.stopAPI = func() { stop(); conn.Close() }
}

func (r *rig) startGateway() {
	now := time.Now()
	authority, err := pki.NewAuthority("test", now)
	if err != nil {
		r.t.Fatal(err)
	}
	server, err := authority.IssueServer("gateway", pki.Loopback(), now)
	if err != nil {
		r.t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(server.Certificate, server.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	conn := r.dial(proto.Gateway)
	stop := r.begin(func(ctx context.Context, ready func()) error {
		return gatewayservice.Run(ctx, gatewayservice.Config{
			Bus: conn, Listener: listener, Token: token, Boot: boot(), Log: r.log(),
			TLS:   &tls.Config{Certificates: []tls.Certificate{certificate}},
			Ready: func(url string) { r.url = url; ready() },
		})
	})
	r.stopGateway = sync.OnceFunc(func() { stop(); conn.Close() })
	r.t.Cleanup(r.stopGateway)
	r.ca = authority.Certificate
	r.trusted = x509.NewCertPool()
	r.trusted.AppendCertsFromPEM(r.ca)
	r.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.trusted}, ForceAttemptHTTP2: true}}
	r.t.Cleanup(r.http.CloseIdleConnections)
}

func (r *rig) config() *rest.Config {
	return &rest.Config{
		Host: r.url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: r.ca}, QPS: -1,
		UserAgent: "gatewaytest/1.0",
	}
}

func (r *rig) clientset() *kubernetes.Clientset {
	r.t.Helper()
	return clientsetFor(r.t, r.config())
}

func clientsetFor(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// reply is an answer whose body may still be read.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
	Body       io.Reader
	// close gives the body up.
	close func()
}

// ask is one request: "POST /api/v1/namespaces/default/pods", its body, and headers as
// "Name: value".
func (r *rig) ask(what, body string, headers ...string) (*reply, []byte) {
	r.t.Helper()
	resp := r.stream(r.t.Context(), what, body, headers...)
	defer resp.close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	return resp, data
}

// stream is ask, with the answer still to be read.
func (r *rig) stream(ctx context.Context, what, body string, headers ...string) *reply {
	r.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	resp, err := r.http.Do(req) //nolint:bodyclose // reply.close does
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	return &reply{resp.StatusCode, resp.Status, resp.Header, resp.Body, func() { _ = resp.Body.Close() }}
}

// made is ask for what has to succeed.
func (r *rig) made(what, body string, headers ...string) []byte {
	r.t.Helper()
	resp, data := r.ask(what, body, headers...)
	if resp.StatusCode >= 300 {
		r.t.Fatalf("%s: %s: %s", what, resp.Status, data)
	}
	return data
}

func statusIn(t testing.TB, data []byte) metav1.Status {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil || status.Kind != "Status" {
		t.Fatalf("not a Status: %s (%v)", data, err)
	}
	return status
}

const pods = "/api/v1/namespaces/default/pods"

func podJSON(name string) string {
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","labels":{"app":"web"}},` +
		`"spec":{"containers":[{"name":"web","image":"web:1"}]}}`
}
