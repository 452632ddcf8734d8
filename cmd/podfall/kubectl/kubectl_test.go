package kubectl_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/podfall/podfall/cmd/podfall/kubectl"
)

// TestVerb finds the command behind flags and their values.
func TestVerb(t *testing.T) {
	for line, want := range map[string]string{
		"get pods": "get", "-n get delete pod": "delete", "--namespace=x get": "get", "--data d get": "get", "-A get": "get",
		"-f - apply": "-", "--help": "", "-- get": "", "": "", "--context a --as b -v 6 top": "top",
	} {
		if got := kubectl.Verb(strings.Fields(line)); got != want {
			t.Errorf("Verb(%q) = %q, want %q", line, got, want)
		}
	}
}

// TestNamesCluster wants a cluster's name in front of two dashes only.
func TestNamesCluster(t *testing.T) {
	for line, want := range map[string]bool{
		"get pods": false, "get pods --context x": true, "get pods --kubeconfig=x": true, "-s http://x get": true, "exec p -- x --context y": false,
		"get pods --contexts": false,
	} {
		if got := kubectl.NamesCluster(strings.Fields(line)); got != want {
			t.Errorf("NamesCluster(%q) = %v, want %v", line, got, want)
		}
	}
}

// apiServer is a server of pods, of which one has a forged status.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	t.Setenv("HOME", t.TempDir()) // no settings and no cache of the user's
	answers := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}`,
		"/api/v1/namespaces/default/pods/web": `{"kind":"Table","apiVersion":"meta.k8s.io/v1","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Status","type":"string"}],` +
			`"rows":[{"cells":["web","Odd\u202e\u0007"],"object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"status":{"reason":"Odd\u202e"}}}]}`,
		"/api/v1/namespaces/default/pods/no": `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no\u001b[2J"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, there := answers[r.URL.Path]
		if strings.HasSuffix(r.URL.Path, "/web") && !strings.Contains(r.Header.Get("Accept"), "as=Table") {
			answer = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"status":{"reason":"Odd\u202e"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		if !there || strings.HasSuffix(r.URL.Path, "/no") {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// run runs a command line against the server.
func run(t *testing.T, config *rest.Config, args ...string) (code int, out, errs string) {
	t.Helper()
	var output, problems bytes.Buffer
	code, err := kubectl.Run(t.Context(), kubectl.Config{
		Args: args, In: strings.NewReader(""), Out: &output, Err: &problems, Kubeconfig: os.DevNull,
		Connect: func() (*rest.Config, error) { return config, nil },
	})
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return code, output.String(), problems.String()
}

// TestRun wants kubectl's words and exit codes, text for people without control characters, and
// text for programs as it is.
func TestRun(t *testing.T) {
	config := apiServer(t)
	for _, c := range []struct {
		line      string
		code      int
		out, errs string
	}{
		{"get pod web", 0, "NAME   STATUS\nweb    Odd\\u202e\n", ""},
		{"get pod web -o jsonpath={.status.reason}", 0, "Odd\u202e", ""},
		{"get pod no", 1, "", "Error from server (NotFound): no[2J\n"},
		{"get pod web --frog", 1, "", "error: unknown flag: --frog\nSee 'podfall get --help' for usage.\n"},
		{"delete pod web --now --grace-period=3", 1, "", "error: --now and --grace-period cannot be specified together\n"},
	} {
		code, out, errs := run(t, config, strings.Fields(c.line)...)
		if code != c.code || out != c.out || errs != c.errs {
			t.Errorf("%s: exit code %d, %q, %q; want %d, %q, %q", c.line, code, out, errs, c.code, c.out, c.errs)
		}
	}
}

// TestTheUsersKubeconfigIsNotRead sets a namespace that no request may have.
func TestTheUsersKubeconfigIsNotRead(t *testing.T) {
	config := apiServer(t)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"kind":"Config","apiVersion":"v1","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","namespace":"elsewhere"}}],"clusters":[{"name":"x","cluster":{"server":"http://192.0.2.1"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	if code, _, errs := run(t, config, "get", "pod", "web"); code != 0 {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if got := os.Getenv("KUBECONFIG"); got != file {
		t.Errorf("KUBECONFIG is %q afterwards", got)
	}
	if entries, err := os.ReadDir(os.Getenv("HOME")); err != nil || len(entries) > 0 {
		t.Errorf("HOME holds %v (%v)", entries, err)
	}
}

// TestErrors passes on why there is no cluster, and knows its commands.
func TestErrors(t *testing.T) {
	var out, errs bytes.Buffer
	refuse := func() (*rest.Config, error) { return nil, errors.New("no cluster here") }
	cfg := kubectl.Config{Args: []string{"get", "pods"}, In: strings.NewReader(""), Out: &out, Err: &errs, Kubeconfig: os.DevNull, Connect: refuse}
	if code, err := kubectl.Run(t.Context(), cfg); err != nil || code != 1 || errs.String() != "error: no cluster here\n" {
		t.Errorf("exit code %d, %v: %s", code, err, &errs)
	}
	cfg.Args = []string{"frobnicate"}
	if _, err := kubectl.Run(t.Context(), cfg); !errors.Is(err, kubectl.ErrUnknown) {
		t.Errorf("frobnicate: %v", err)
	}
}

// TestHelp shows podfall's name, asks no cluster, and completes commands that are not kubectl's.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	cfg := kubectl.Config{
		In: strings.NewReader(""), Out: &out, Err: &out, Kubeconfig: os.DevNull, Others: []kubectl.Command{{Name: "why", Short: "say why"}},
		Connect: func() (*rest.Config, error) { t.Error("help asks the cluster"); return nil, errors.New("no") },
	}
	for line, want := range map[string]string{
		"delete --help": "podfall delete pod", "completion bash": "__start_podfall", "__complete wh": "why\tsay why", "help get": "podfall get pods",
	} {
		out.Reset()
		cfg.Args = strings.Fields(line)
		if code, err := kubectl.Run(t.Context(), cfg); err != nil || code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %v, want %q:\n%s", line, code, err, want, &out)
		}
	}
	if names := kubectl.Commands(); len(names) < 40 {
		t.Errorf("%d commands: %v", len(names), names)
	}
}
