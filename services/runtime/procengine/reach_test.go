package procengine_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine"
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
	s := newProxyEngine(t)
	id, port := s.runProxy("app", program)
	defer s.end(id)
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
			ContainerId: id, Scheme: c.scheme, Host: c.host, Port: port, Path: c.path,
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
	s := newTestEngine(t, nil)
	id := s.id("app")
	container := s.request(id, "/bin/sh")
	container.Request.Ports = []int32{1, 2}
	s.load(container)
	for _, scheme := range []string{"http", "https", "tcp", "grpc"} {
		_, err := s.Reach(t.Context(), &proto.ReachRequest{ContainerId: id, Scheme: scheme, Port: portOf(t, others), Path: "/"})
		want := fmt.Sprintf("port %d is not allowed to this pod: it declares 1 2, and none of its processes listens there", portOf(t, others))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", scheme, err, want)
		}
	}
}

// TestReachNotAnotherPods: a port that a pod declares and another pod's process holds is not reached
// (T8): the other pod's answer says nothing about this pod. If no process listens, the connection is
// refused.
func TestReachNotAnotherPods(t *testing.T) {
	program := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(program.Close)
	s := newProxyEngine(t)
	first, port := s.runProxy("first", program)
	defer s.end(first)
	for name, sandbox := range map[string]string{"sidecar": "box", "second": "other box"} {
		c := s.request(s.id(name), "/bin/sh")
		c.Request.SandboxId, c.Request.Ports = sandbox, []int32{port}
		s.load(c)
	}
	reach := func(name string) string {
		answer, err := s.Reach(t.Context(), &proto.ReachRequest{ContainerId: s.id(name), Scheme: "http", Port: port, Path: "/"})
		if err != nil {
			return err.Error()
		}
		return strconv.Itoa(int(answer.Code))
	}
	refused := fmt.Sprintf("port %d is not allowed to this pod: a process outside the pod listens there, and none of its own", port)
	for name, want := range map[string]string{"first": "200", "sidecar": "200", "second": refused} {
		if got := reach(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	s.end(first)
	if got := reach("second"); !strings.Contains(got, "connection refused") {
		t.Errorf("a port without a listener: %s", got)
	}
}

// asProxy makes this binary a program that forwards connections to an address.
const asProxy = "be-a-proxy"

func runProxy(target string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // its container ends it
	if err != nil {
		panic(err)
	}
	fmt.Println("listens", listener.Addr(), "ready")
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer conn.Close()
			onward, err := net.Dial("tcp", target) //nolint:noctx // as above
			if err != nil {
				return
			}
			defer onward.Close()
			go func() { _, _ = io.Copy(onward, conn) }()
			_, _ = io.Copy(conn, onward)
		}()
	}
}

// newProxyEngine returns an engine that may run this binary.
func newProxyEngine(t *testing.T) *testEngine {
	t.Helper()
	return newTestEngine(t, func(cfg *procengine.Config) {
		allow, err := procengine.NewAllowlist([]string{"/bin", os.Args[0]})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Allow = allow
	})
}

// runProxy starts a container that listens on a port of its own and forwards to a server. The caller
// ends it.
func (s *testEngine) runProxy(name string, to *httptest.Server) (id string, port int32) {
	s.t.Helper()
	id = s.runShell(name, fmt.Sprintf("exec %s %s %s", os.Args[0], asProxy, to.Listener.Addr()))
	if _, err := fmt.Sscanf(s.log(id), "listens 127.0.0.1:%d ready", &port); err != nil {
		s.t.Fatalf("%q: %v", s.log(id), err)
	}
	return id, port
}

func (s *testEngine) end(id string) {
	s.t.Helper()
	s.signal(id, "SIGKILL")
	s.await(id, exited)
}

func portOf(t *testing.T, server *httptest.Server) int32 {
	t.Helper()
	address, ok := server.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(server.Listener.Addr())
	}
	return int32(address.Port)
}
