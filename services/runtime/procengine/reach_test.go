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

// TestReach asks a program's port as probes and hooks do: on loopback and nowhere else
// (T8), whatever the manifest or the program says.
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
	s := newStand(t, nil)
	id := s.id("app")
	s.load(s.request(id, "/bin/sh"))
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
		said := string(answer.GetBody())
		if err != nil {
			said = err.Error()
		}
		if answer.GetCode() != c.code || !strings.Contains(said, c.says) || err == nil && c.code == 0 && c.scheme != "tcp" {
			t.Errorf("%s: %d %q, want %d %q", name, answer.GetCode(), said, c.code, c.says)
		}
	}
	if n := loops.Load(); n != 10 {
		t.Errorf("it went round %d times", n)
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect led to another server")
	}
}
