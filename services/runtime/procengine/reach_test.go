package procengine_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podfall/podfall/proto"
)

// TestReach reaches a program's port as probes and hooks do: only on loopback (T8), whatever the
// manifest or the program says.
func TestReach(t *testing.T) {
	var loops, elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			if loops.Add(1) < 50 {
				http.Redirect(w, r, "/loop", http.StatusFound)
			}
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/moved":
			http.Redirect(w, r, "/healthz", http.StatusFound)
		default:
			fmt.Fprintf(w, "%s %s", r.Host, r.Header.Get("X-Given"))
		}
	}))
	t.Cleanup(program.Close)
	_, portText, err := net.SplitHostPort(program.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	s := newTestEngine(t, nil)
	id := s.id("app")
	container := s.request(id, "/bin/sh")
	container.Request.Ports = []int32{int32(port)}
	s.load(container)
	for name, c := range map[string]struct {
		scheme, host, path string
		code               int32 // 0 when there is no answer
		says               string
	}{
		"healthy":               {"http", "", "/healthz", 200, "example.com by the manifest"},
		"moved":                 {"http", "localhost", "/moved", 200, ""},
		"moved to another host": {"http", "", "/away", 302, ""},
		"moved in circles":      {"http", "", "/loop", 0, "stopped after 10 redirects"},
		"a port":                {"tcp", "", "", 0, ""},
		"another machine":       {"http", "192.0.2.1", "/", 0, "want an address of loopback"},
		"a name":                {"tcp", "example.com", "/", 0, "want an address of loopback"},
		"another scheme":        {"ftp", "", "/", 0, "want http, https, grpc or tcp"},
	} {
		answer, err := s.Reach(t.Context(), &proto.ReachRequest{
			ContainerId: id, Scheme: c.scheme, Host: c.host, Port: int32(port), Path: c.path,
			Headers: []*proto.Header{{Name: "Host", Value: "example.com"}, {Name: "X-Given", Value: "by the manifest"}},
		})
		text := string(answer.GetBody())
		if err != nil {
			text = err.Error()
		}
		if answer.GetCode() != c.code || !strings.Contains(text, c.says) || err == nil && c.code == 0 && c.scheme != "tcp" {
			t.Errorf("%s: %d %q, want %d %q", name, answer.GetCode(), text, c.code, c.says)
		}
	}
	if n := loops.Load(); n != 10 {
		t.Errorf("it went round %d times", n)
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect led to another server")
	}
}

// TestReachOnlyWhatIsThePods: a probe reaches no other server of the machine (T8), but every port
// on which the pod's own programs listen.
func TestReachOnlyWhatIsThePods(t *testing.T) {
	others := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another's server was asked") }))
	t.Cleanup(others.Close)
	port := func(server *httptest.Server) int32 {
		_, text, err := net.SplitHostPort(server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return int32(number)
	}
	s := newTestEngine(t, nil)
	id := s.id("app")
	container := s.request(id, "/bin/sh")
	container.Request.Ports = []int32{1, 2}
	s.load(container)
	for _, scheme := range []string{"http", "https", "tcp", "grpc"} {
		_, err := s.Reach(t.Context(), &proto.ReachRequest{ContainerId: id, Scheme: scheme, Port: port(others), Path: "/"})
		want := fmt.Sprintf("port %d is not allowed to this pod: it declares 1 2, and none of its processes listens there", port(others))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", scheme, err, want)
		}
	}
}
