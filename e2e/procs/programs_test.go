package procs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serverArgument makes this test's binary a program for pods: an HTTP server that drains.
const serverArgument = "be-a-server"

// runServer is that program. It records its address, each signal, and its end.
func runServer(diary string) int {
	file, err := os.OpenFile(diary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	terminated := make(chan struct{})
	server := http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			fmt.Fprintln(file, "request")
			<-terminated
		}
		fmt.Fprintln(w, "answered")
	})}
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, syscall.SIGTERM)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		<-signals
		fmt.Fprintln(file, "TERM")
		close(terminated)
		_ = server.Shutdown(context.Background())
	}()
	fmt.Fprintln(file, "listens", listener.Addr())
	_ = server.Serve(listener) // ends with Shutdown
	<-drained
	for len(signals) > 0 {
		<-signals
		fmt.Fprintln(file, "another TERM")
	}
	fmt.Fprintln(file, "exits")
	return 0
}

// readDiary returns the lines that a program has recorded.
func readDiary(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// applyProgram applies a pod of real processes.
func (c *cluster) applyProgram(name string, grace int, command ...string) {
	c.t.Helper()
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  runtimeClassName: process
  restartPolicy: Never
  terminationGracePeriodSeconds: %d
  containers:
  - {name: main, image: none, command: [%s]}
`, name, grace, strings.Join(quoted, ", ")))
	c.must("wait", "--for=condition=Ready", "pod/"+name, waitFlag)
}

// upWithPrograms starts a cluster with pods that may run this test's binary and the shell.
func upWithPrograms(t *testing.T, more ...string) (*cluster, string) {
	t.Helper()
	arguments := []string{"--nodes", "1", "--timing", "fastest", "--allow-exec", program, "--allow-exec", "/bin", "--i-am-in-a-container"}
	return up(t, append(arguments, more...)...), program
}

// copyExecutable copies this test's binary to where every user of the machine can execute it.
func copyExecutable(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o700); err != nil {
		return err
	}
	return errors.Join(os.Chmod(path, 0o755), os.Chmod(filepath.Dir(path), 0o755)) // independent of the umask
}

// sharedDir returns a directory in which programs of any user may write.
func sharedDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestProgramDrains runs a server that drains: SIGTERM arrives once, the request under way is
// answered, and the exit code is the program's. Runtime and kubelet may be killed meanwhile; they
// restart and find it.
func TestProgramDrains(t *testing.T) {
	t.Parallel()
	c, self := upWithPrograms(t)
	for _, restart := range [][]string{nil, {"runtime/node-1"}, {"runtime/node-1", "kubelet/node-1"}} {
		path := filepath.Join(sharedDir(t), "diary")
		c.applyProgram("web", 30, self, serverArgument, path)
		var address string
		eventually(t, "the server listens", func() bool {
			_, found := fmt.Sscanf(readDiary(t, path)[0], "listens %s", &address)
			return found == nil
		})
		if restart != nil {
			c.kill(restart...)
			c.must("up", "--detach")
		}
		answer := make(chan string, 1)
		go func() { answer <- get("http://" + address + "/slow") }()
		eventually(t, "the request is under way", func() bool { return slices.Contains(readDiary(t, path), "request") })
		stop := c.watchPod()
		c.must("delete", "pod", "web")
		if got := <-answer; got != "answered\n" {
			t.Errorf("after the kill of %v: the request that was under way was answered %q", restart, got)
		}
		rows := stop()
		if last := rows[len(rows)-1]; last != "DELETED web 0/1 Completed" {
			t.Errorf("after the kill of %v: the last row is %q", restart, last)
		}
		want := []string{"listens " + address, "request", "TERM", "exits"}
		if got := readDiary(t, path); !slices.Equal(got, want) {
			t.Errorf("after the kill of %v: the program saw %q, want %q", restart, got, want)
		}
	}
}

func get(url string) string {
	answer, err := http.Get(url) //nolint:noctx // the server ends it
	if err != nil {
		return err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

// TestProgramIgnoresTerm: a program that ignores SIGTERM, with children in new sessions, is killed
// at the end of its grace and not before, and no process is left.
func TestProgramIgnoresTerm(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t)
	c.applyProgram("deaf", 2, "sh", "-c",
		"trap '' TERM; (setsid sleep 1000 &); (setsid sh -c 'sleep 1000 & sleep 1000' &); echo ready; while :; do sleep 0.1; done")
	deaf := func() int {
		count := 0
		paths, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(data), "PODFALL_CONTAINER=") && strings.Contains(string(data), c.data) {
				count++
			}
		}
		return count
	}
	eventually(t, "it and its children run", func() bool { return deaf() >= 4 })
	began := time.Now()
	c.must("delete", "pod", "deaf")
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("it was gone after %v, before its grace of 2 s was over", took)
	}
	if left := deaf(); left > 0 {
		t.Errorf("%d processes are left", left)
	}
}

// TestDownEndsPrograms: stopping a cluster whose runtime is dead leaves no program running.
func TestDownEndsPrograms(t *testing.T) {
	t.Parallel()
	c, self := upWithPrograms(t)
	path := filepath.Join(sharedDir(t), "diary")
	c.applyProgram("web", 30, self, serverArgument, path)
	eventually(t, "the server listens", func() bool { return strings.HasPrefix(readDiary(t, path)[0], "listens") })
	c.kill("runtime/node-1")
	if got := get("http://" + strings.TrimPrefix(readDiary(t, path)[0], "listens ") + "/"); got != "answered\n" {
		t.Errorf("while the runtime is away the server answers %q", got)
	}
	c.must("down")
	if got := get("http://" + strings.TrimPrefix(readDiary(t, path)[0], "listens ") + "/"); !strings.Contains(got, "refused") {
		t.Errorf("after down the server answers %q", got)
	}
}

// TestProgramIsALink: a program that is allowed by a symbolic link runs by that link and by its target,
// also after a restart of the runtime.
func TestProgramIsALink(t *testing.T) {
	t.Parallel()
	link := filepath.Join(sharedDir(t), "link")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	c := up(t, "--nodes", "1", "--timing", "fastest", "--allow-exec", link, "--i-am-in-a-container")
	for name, command := range map[string]string{"linked": link, "direct": program, "named": "link"} {
		c.applyProgram(name, 0, command, serverArgument, filepath.Join(sharedDir(t), "diary"))
	}
	c.kill("runtime/node-1")
	c.must("up", "--detach")
	c.applyProgram("again", 0, link, serverArgument, filepath.Join(sharedDir(t), "diary"))
}

// TestProgramNotAllowed: programs of manifests that are not allowed do not run.
func TestProgramNotAllowed(t *testing.T) {
	t.Parallel()
	c := up(t, "--nodes", "1", "--timing", "fastest")
	path := filepath.Join(sharedDir(t), "diary")
	c.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  runtimeClassName: process
  restartPolicy: Never
  containers:
  - {name: main, image: none, command: [/bin/sh, -c, "echo ran > %s"]}
`, path))
	c.must("wait", "--for=jsonpath={.status.phase}=Failed", "pod/web", waitFlag)
	state := c.must("get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.message}")
	if want := `program "/bin/sh" is not allowed: podfall runs no program of a manifest unless --allow-exec names it`; !strings.Contains(state, want) {
		t.Errorf("the container says %q, want it to say %q", state, want)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it ran: %v", err)
	}
}

// TestT19RootRunsNoPrograms is T19: root runs no programs of manifests unless the machine is
// declared a container. Other users may, and messages about users are true for them.
func TestT19RootRunsNoPrograms(t *testing.T) {
	t.Parallel()
	c := &cluster{t: t, data: filepath.Join(t.TempDir(), "c")}
	arguments, want := []string{"up", "--detach", "--allow-exec", "/bin"}, "--allow-exec as root"
	if os.Geteuid() != 0 {
		arguments, want = append(arguments, "--exec-user", "1"), "only root can run programs as another user"
	}
	if out := c.run(arguments...); out.code == 0 || !strings.Contains(out.stderr, want) {
		t.Errorf("podfall %v: %+v", arguments, out)
	}
	for _, user := range []string{"0", "root", "1:0", "-1", "1:2:3", "99999999999"} {
		if out := c.run("up", "--allow-exec", "/bin", "--i-am-in-a-container", "--exec-user", user); out.code == 0 || !strings.Contains(out.stderr, "--exec-user") {
			t.Errorf("--exec-user %s: %+v", user, out)
		}
	}
	if _, err := os.Stat(c.data); !os.IsNotExist(err) {
		t.Errorf("commands that were refused have made %s", c.data)
	}
}
