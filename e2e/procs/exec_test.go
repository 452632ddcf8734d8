package procs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	exitcode "k8s.io/client-go/util/exec"
)

// session is an exec or attach session through the gateway.
type session struct {
	t              *testing.T
	leave          context.CancelFunc
	ended          chan error
	input          *io.PipeWriter
	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// Write receives the process's output.
func (s *session) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stdout.Write(text)
}

func (s *session) output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stdout.String()
}

// openSession starts a session as kubectl does, with the given protocol version.
func (c *cluster) openSession(t *testing.T, protocol, subresource, pod string, options any) *session {
	t.Helper()
	config := c.restConfig()
	config.GroupVersion, config.NegotiatedSerializer, config.APIPath = &corev1.SchemeGroupVersion, scheme.Codecs, "/api"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request := client.Get().Namespace("default").Resource("pods").Name(pod).SubResource(subresource)
	tty := false
	switch options := options.(type) {
	case *corev1.PodExecOptions:
		tty = options.TTY
		request.VersionedParams(options, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		tty = options.TTY
		request.VersionedParams(options, scheme.ParameterCodec)
	}
	executor, err := remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, request.URL().String(), protocol)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	read, input := io.Pipe()
	s := &session{t: t, leave: leave, ended: make(chan error, 1), input: input}
	t.Cleanup(func() { leave(); _ = read.Close() })
	stream := remotecommand.StreamOptions{Stdin: read, Stdout: s, Tty: tty}
	if !tty {
		stream.Stderr = &s.stderr
	}
	go func() { s.ended <- executor.StreamWithContext(ctx, stream) }()
	return s
}

func (c *cluster) exec(t *testing.T, pod, script string, tty bool) *session {
	t.Helper()
	return c.openSession(t, "v5.channel.k8s.io", "exec", pod, &corev1.PodExecOptions{
		Container: "main", Command: []string{"/bin/sh", "-c", script}, Stdin: true, Stdout: true, Stderr: !tty, TTY: tty,
	})
}

// sleepers returns the processes of the machine that sleep for so many seconds.
func sleepers(seconds int) []string {
	var found []string
	for _, line := range commandLines() {
		if line == fmt.Sprintf("sleep %d", seconds) {
			found = append(found, line)
		}
	}
	return found
}

func commandLines() []string {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var lines []string
	for _, path := range paths {
		if line, err := readFile(path); err == nil {
			lines = append(lines, strings.TrimSpace(strings.ReplaceAll(line, "\x00", " ")))
		}
	}
	return lines
}

// TestExec: a command's output, input and exit code pass through, in both protocol versions. A
// client can also attach to the container's own program.
func TestExec(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t)
	c.applyProgram("web", 0, "/bin/sleep", "1000")
	for _, protocol := range []string{"v5.channel.k8s.io", "v4.channel.k8s.io"} {
		s := c.openSession(t, protocol, "exec", "web", &corev1.PodExecOptions{
			Container: "main", Command: []string{"/bin/sh", "-c", "read line; echo got $line; echo err >&2; exit 3"}, Stdin: true, Stdout: true, Stderr: true,
		})
		fmt.Fprintln(s.input, "hello")
		var code exitcode.CodeExitError
		if err := <-s.ended; !errors.As(err, &code) || code.Code != 3 || s.output() != "got hello\n" || s.stderr.String() != "err\n" {
			t.Errorf("%s: %v, %q, %q", protocol, err, s.output(), &s.stderr)
		}
	}
	s := c.exec(t, "web", "cat; echo over", false)
	text := strings.Repeat("0123456789abcdef", 1<<17)
	_, _ = io.Copy(s.input, strings.NewReader(text))
	_ = s.input.Close()
	if err := <-s.ended; err != nil || s.output() != text+"over\n" {
		t.Errorf("2 MiB there and back: %v, %d bytes", err, len(s.output()))
	}
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: talks}
spec:
  runtimeClassName: process
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: none, stdin: true, command: [/bin/sh, -c, "while read -r line; do echo got $line; done"]}
`)
	c.must("wait", "--for=condition=Ready", "pod/talks", waitFlag)
	attached := c.openSession(t, "v5.channel.k8s.io", "attach", "talks", &corev1.PodAttachOptions{Container: "main", Stdin: true, Stdout: true, Stderr: true})
	eventually(t, "the program answers", func() bool {
		fmt.Fprintln(attached.input, "hello")
		return strings.Contains(attached.output(), "got hello")
	})
	c.must("delete", "pod", "talks")
	if err := <-attached.ended; err != nil {
		t.Errorf("the attachment ended with %v", err)
	}
}

// TestNothingIsLeftOfExec kills each process between a client and a command, and the command
// itself. The client must get an error, and no process of the command may remain.
func TestNothingIsLeftOfExec(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t)
	c.applyProgram("web", 0, "/bin/sleep", "1000")
	seconds := 7000 + syscall.Getpid()%1000*20
	for name, end := range map[string]func(s *session, seconds int){
		"the client":      func(s *session, _ int) { s.leave() },
		"the command":     func(_ *session, seconds int) { killSleeper(t, seconds) },
		"the kubelet":     func(*session, int) { c.kill("kubelet/node-1") },
		"the runtime":     func(*session, int) { c.kill("runtime/node-1") },
		"the gateway":     func(*session, int) { c.kill("gateway") },
		"podfall's own":   nil,
		"the pod deleted": func(*session, int) { c.must("delete", "pod", "web", "--wait=false") },
	} {
		for _, tty := range []bool{false, true} {
			seconds++
			script := fmt.Sprintf("trap '' HUP; echo begun; sleep %d & sleep %d", seconds, seconds)
			if end == nil {
				c.killExecClient(script, seconds)
				continue
			}
			s := c.exec(t, "web", script, tty)
			eventually(t, name+": the command runs", func() bool { return strings.Contains(s.output(), "begun") && len(sleepers(seconds)) == 2 })
			end(s, seconds)
			if err := <-s.ended; err == nil {
				t.Errorf("%s (tty %v): the client was told that all is well", name, tty)
			}
			eventually(t, name+": nothing is left", func() bool { return len(sleepers(seconds)) == 0 })
			c.must("up", "--detach")
			if name == "the pod deleted" {
				c.must("wait", "--for=delete", "pod/web", waitFlag)
				c.applyProgram("web", 0, "/bin/sleep", "1000")
			}
			eventually(t, "commands run again", func() bool { return c.run("exec", "web", "--", "true").code == 0 })
		}
	}
}

// killSleeper kills a sleep process and the parent that waits for it.
func killSleeper(t *testing.T, seconds int) {
	t.Helper()
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := readFile(path)
		line = strings.ReplaceAll(line, "\x00", " ")
		if err == nil && strings.Contains(line, fmt.Sprintf("sleep %d", seconds)) {
			var pid int
			if _, err := fmt.Sscanf(path, "/proc/%d/cmdline", &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited with the other
			}
		}
	}
}

// killExecClient kills podfall exec with SIGKILL.
func (c *cluster) killExecClient(script string, seconds int) {
	c.t.Helper()
	command := exec.CommandContext(c.t.Context(), podfall, "--data", c.data, "exec", "-i", "web", "--", "/bin/sh", "-c", script)
	input, err := command.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = input.Close() }()
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, "the command runs", func() bool { return len(sleepers(seconds)) == 2 })
	_ = command.Process.Kill()
	_ = command.Wait()
	eventually(c.t, "nothing is left", func() bool { return len(sleepers(seconds)) == 0 })
}

// TestExecRefusals: impossible requests are refused before or after the upgrade, as upstream does.
func TestExecRefusals(t *testing.T) {
	t.Parallel()
	c, _ := upWithPrograms(t)
	c.applyProgram("web", 0, "/bin/sleep", "1000")
	c.runPod("scripted", "exec exits 4", 0)
	for name, row := range map[string]struct {
		pod     string
		options corev1.PodExecOptions
		want    string
	}{
		"a program that is not allowed": {"web", corev1.PodExecOptions{Container: "main", Command: []string{"/usr/sbin/nothing"}, Stdout: true}, "error executing command in container"},
		"no such container":             {"web", corev1.PodExecOptions{Container: "nope", Command: []string{"true"}, Stdout: true}, "container nope is not valid for pod web"},
		"no such pod":                   {"nope", corev1.PodExecOptions{Container: "main", Command: []string{"true"}, Stdout: true}, `pods "nope" not found`},
		"no command":                    {"web", corev1.PodExecOptions{Container: "main", Stdout: true}, "you must specify at least one command for the container"},
		"no stream":                     {"web", corev1.PodExecOptions{Container: "main", Command: []string{"true"}}, "you must specify at least 1 of stdin, stdout, stderr"},
		"a script that is talked to":    {"scripted", corev1.PodExecOptions{Container: "main", Command: []string{"true"}, Stdin: true, Stdout: true}, "container main of pod scripted is scripted: it has no process to run a command in"},
		"a script's answer":             {"scripted", corev1.PodExecOptions{Container: "main", Command: []string{"true"}, Stdout: true}, "command terminated with exit code 4"},
	} {
		s := c.openSession(t, "v5.channel.k8s.io", "exec", row.pod, &row.options)
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}
