package procs

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestCommandsWithoutTheGateway runs kubectl's commands while the cluster's own gateway is down: they
// go over the bus, and the deletion is told as client:admin's.
func TestCommandsWithoutTheGateway(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	c.must("crash", "gateway")
	c.runPod("web", "on TERM exits 0 after 0s", 30)
	for _, row := range []struct{ line, want string }{
		{"get pods", "Running"},
		{"label pod web tier=front", "pod/web labeled"},
		{"get pods -l tier=front -o name", "pod/web"},
		{"logs web", "started"},
		{"auth can-i delete pods", "yes"},
		{"api-resources -o name", "deployments.apps"},
		{"explain pod.spec.nodeName", "FIELD: nodeName"},
		{"get --raw /metrics/apiserver", "process_start_time_seconds"},
	} {
		if out := c.run(strings.Fields(row.line)...); out.code != 0 || !strings.Contains(out.stdout, row.want) {
			t.Errorf("podfall %s: %+v, want %q", row.line, out, row.want)
		}
	}
	c.must("delete", "pod", "web")
	if out := c.must("timeline", "pod/web"); !strings.Contains(out, "client:admin asks for the deletion") {
		t.Errorf("the timeline is\n%s", out)
	}
}

// TestOtherClusters names a cluster that is not podfall's in the user's kubeconfig: a command reaches
// it only if a flag says so, and never because --data was forgotten.
func TestOtherClusters(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	var deletes, asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method == http.MethodDelete {
			deletes.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`))
	}))
	t.Cleanup(other.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: real, contexts: [{name: real, context: {cluster: real, namespace: elsewhere}}], clusters: [{name: real, cluster: {server: "` + other.URL + `"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(arguments ...string) result {
		ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
		defer cancel()
		command := exec.CommandContext(ctx, podfall, arguments...)
		command.Dir, command.Env = t.TempDir(), []string{"KUBECONFIG=" + kubeconfig, "HOME=" + t.TempDir()}
		return c.runExec(ctx, command)
	}
	if out := run("--data", c.data, "get", "configmaps"); out.code != 0 || asked.Load() > 0 || strings.Contains(out.stderr, "elsewhere") {
		t.Errorf("with --data: %+v, %d requests elsewhere", out, asked.Load())
	}
	if out := run("delete", "pod", "web"); out.code != 1 || !strings.Contains(out.stderr, "is no podfall cluster") || deletes.Load() > 0 {
		t.Errorf("without --data: %+v, %d deletes", out, deletes.Load())
	}
	before := asked.Load()
	if out := run("--data", c.data, "get", "pods", "--context", "real"); out.code != 1 || asked.Load() == before {
		t.Errorf("with --context: %+v, %d requests", out, asked.Load()-before)
	}
}

// TestPlugins runs kubectl's plug-ins with the cluster's kubeconfig, and a mistyped command not at all.
func TestPlugins(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1")
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$KUBECONFIG $*\"\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl-greet"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	command := exec.CommandContext(ctx, podfall, "--data", c.data, "greet", "a", "b")
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out := c.runExec(ctx, command)
	if want := filepath.Join(c.data, "kubeconfig") + " a b\n"; out.code != 0 || out.stdout != want {
		t.Errorf("%+v, want %q", out, want)
	}
}
