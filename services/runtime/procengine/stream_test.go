package procengine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
)

// client is the other end of a stream, in this process.
type client struct {
	t        *testing.T
	up, down chan []byte
	left     chan struct{}
	ended    chan error
	leaving  sync.Once

	mu             sync.Mutex
	stdout, stderr strings.Builder
	status         *metav1.Status
}

// processSide is the connection that the engine gets for a client.
type processSide struct{ c *client }

func (p processSide) Send(ctx context.Context, frame []byte) error {
	select {
	case p.c.down <- frame:
		return nil
	case <-p.c.left:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p processSide) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-p.c.up:
		return frame, nil
	case <-p.c.left:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p processSide) Done() <-chan struct{} { return p.c.left }

// openStream starts a stream; its client reads nothing until begin.
func (s *testEngine) openStream(req *proto.ContainerStreamRequest) *client {
	s.t.Helper()
	c := &client{t: s.t, up: make(chan []byte), down: make(chan []byte), left: make(chan struct{}), ended: make(chan error, 1)}
	go func() { c.ended <- s.Stream(context.Background(), req, processSide{c}) }()
	s.t.Cleanup(c.leave)
	return c
}

func (c *client) leave() { c.leaving.Do(func() { close(c.left) }) }

func (c *client) send(channel proto.Channel, text string) {
	c.t.Helper()
	select {
	case c.up <- proto.StreamFrame(channel, []byte(text)):
	case err := <-c.ended:
		c.t.Fatalf("the conversation has ended: %v", err)
	}
}

// receive handles one frame.
func (c *client) receive(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch channel, data, _ := proto.ParseStreamFrame(frame); channel {
	case proto.ChannelStdout:
		c.stdout.Write(data)
	case proto.ChannelStderr:
		c.stderr.Write(data)
	case proto.ChannelError:
		c.status = &metav1.Status{}
		if err := json.Unmarshal(data, c.status); err != nil {
			c.t.Error(err)
		}
	default:
		c.t.Errorf("a frame on channel %d", channel)
	}
}

// begin starts to read.
func (c *client) begin() {
	c.t.Helper()
	select {
	case frame := <-c.down:
		c.receive(frame)
	case err := <-c.ended:
		c.t.Fatalf("no offer: %v", err)
	}
	c.send(proto.ChannelStdin, "")
	go func() {
		for {
			select {
			case frame := <-c.down:
				c.receive(frame)
			case <-c.left:
				return
			}
		}
	}()
}

func (c *client) stdoutSoFar() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stdout.String()
}

// awaitEnd waits for the end of the stream and returns all output.
func (c *client) awaitEnd() (stdout, stderr string, code int32) {
	c.t.Helper()
	if err := <-c.ended; err != nil {
		c.t.Fatalf("the conversation broke: %v", err)
	}
	for told := false; !told; { // the last frame is taken in by another goroutine
		if err := (clock.Clock{}).Sleep(c.t.Context(), time.Millisecond); err != nil {
			c.t.Fatal("nobody has told how it ended")
		}
		c.mu.Lock()
		told = c.status != nil
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	code, told := proto.ExitCode(c.status)
	if !told {
		c.t.Fatalf("no exit code: %+v", c.status)
	}
	return c.stdout.String(), c.stderr.String(), code
}

func execute(id string, command ...string) *proto.ContainerStreamRequest {
	return &proto.ContainerStreamRequest{ContainerId: id, Command: command, Stdout: true, Stderr: true}
}

func shell(id, script string) *proto.ContainerStreamRequest {
	return execute(id, "/bin/sh", "-c", script)
}

func TestStreamedExec(t *testing.T) {
	linked := t.TempDir()
	s := newTestEngine(t, func(cfg *procengine.Config) {
		var err error
		if cfg.Allow, err = procengine.NewAllowlist([]string{"/bin", linked}); err != nil {
			t.Fatal(err)
		}
	})
	id := s.runShell("app", "echo ready; exec sleep 1000")
	for _, row := range []struct {
		script, stdout, stderr string
		code                   int32
	}{
		{"echo out; echo err >&2; exit 3", "out\n", "err\n", 3},
		{"true", "", "", 0},
		{"kill -9 $$", "", "", 137},
		{"head -c 1000000 /dev/zero | tr '\\0' x", strings.Repeat("x", 1_000_000), "", 0},
		{"cat", "", "", 0},                 // there is nothing to read
		{"sleep 1000 & exit 5", "", "", 5}, // it goes with the container
	} {
		c := s.openStream(shell(id, row.script))
		c.begin()
		if stdout, stderr, code := c.awaitEnd(); stdout != row.stdout || stderr != row.stderr || code != row.code {
			t.Errorf("%s: %.40q (%d bytes), %q, %d", row.script, stdout, len(stdout), stderr, code)
		}
	}
	out := filepath.Join(linked, "out")
	if err := os.Symlink(os.Args[0], out); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{os.Args[0], out, "out"} {
		if err := <-s.openStream(execute(id, program)).ended; err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("a program that is not allowed, as %s: %v", program, err)
		}
		if _, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{program}}); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("a program that is not allowed, as %s in a hook: %v", program, err)
		}
	}
	s.signal(id, engine.SIGKILL)
	s.wantExit(id, 137, engine.ReasonError)
}

// TestStreamedStdin: the client's input arrives, including its end.
func TestStreamedStdin(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	req := execute(id, "/bin/cat")
	req.Stdin = true
	c := s.openStream(req)
	c.begin()
	text := strings.Repeat("0123456789abcdef", 1<<16)
	for rest := text; rest != ""; {
		n := min(len(rest), proto.MaxStreamFrame)
		c.send(proto.ChannelStdin, rest[:n])
		rest = rest[n:]
	}
	c.send(proto.ChannelClose, string([]byte{byte(proto.ChannelStdin)}))
	if stdout, stderr, code := c.awaitEnd(); stdout != text || stderr != "" || code != 0 {
		t.Errorf("%d bytes of %d came back, %q, %d", len(stdout), len(text), stderr, code)
	}
	s.signal(id, engine.SIGKILL)
	s.wantExit(id, 137, engine.ReasonError)
}

// TestStreamedTerminal: a command can have a terminal of the client's size.
func TestStreamedTerminal(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	req := shell(id, `test -t 0 && test -t 1 && test -t 2 && echo "$TERM"; while read -r line; do echo "got $line at $(stty size)"; done; echo over`)
	req.Stdin, req.Tty = true, true
	c := s.openStream(req)
	c.begin()
	s.poll("it has a terminal", func() bool { return strings.Contains(c.stdoutSoFar(), "xterm\r\n") })
	c.send(proto.ChannelResize, `{"Width":132,"Height":43}`)
	c.send(proto.ChannelStdin, "a line\n")
	s.poll("it has read, and knows the size", func() bool { return strings.Contains(c.stdoutSoFar(), "got a line at 43 132") })
	c.send(proto.ChannelClose, string([]byte{byte(proto.ChannelStdin)}))
	if stdout, _, code := c.awaitEnd(); !strings.HasSuffix(stdout, "over\r\n") || code != 0 {
		t.Errorf("%q, %d", stdout, code)
	}
	s.signal(id, engine.SIGKILL)
	s.wantExit(id, 137, engine.ReasonError)
}

// TestNothingIsLeftOfAConversation: if the client or this process disconnects, the command and all
// that it started are killed, whatever signals they ignore.
func TestNothingIsLeftOfAConversation(t *testing.T) {
	for name, script := range map[string]string{
		"it sleeps":                 "echo begun; sleep 1000",
		"it ignores signals":        "trap '' HUP TERM INT; echo begun; while :; do sleep 1000; done",
		"it has children":           "echo begun; (sleep 1000; true) & (sleep 1000; true) & wait",
		"it writes without end":     "echo begun; while :; do echo y; done",
		"it reads nothing":          "echo begun; sleep 1000",
		"it has closed its outputs": "echo begun; exec >&- 2>&-; sleep 1000",
	} {
		for _, tty := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newTestEngine(t, nil)
				id := s.runShell("app", "echo ready; exec sleep 500")
				s.poll("it is alone", func() bool { return len(s.markedProcesses()) == 1 }) // none while one program becomes another
				req := shell(id, script)
				req.Stdin, req.Tty = true, tty
				c := s.openStream(req)
				c.begin()
				s.poll("it has begun", func() bool { return strings.Contains(c.stdoutSoFar(), "begun") })
				if name == "it reads nothing" {
					go func() {
						for {
							select {
							case c.up <- proto.StreamFrame(proto.ChannelStdin, make([]byte, proto.MaxStreamFrame)):
							case <-c.left:
								return
							}
						}
					}()
				}
				c.leave()
				if err := <-c.ended; err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("Stream: %v", err)
				}
				s.poll("it has gone", func() bool { return len(s.markedProcesses()) == 1 })
				s.signal(id, engine.SIGKILL)
				s.wantExit(id, 137, engine.ReasonError)
			})
		}
	}
}

// TestASlowClient: a slow client receives everything, and the container's end waits for it only a
// moment.
func TestASlowClient(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	c := s.openStream(shell(id, "head -c 3000000 /dev/zero | tr '\\0' x"))
	c.receive(<-c.down)
	c.send(proto.ChannelStdin, "")
	for {
		frame := <-c.down
		if c.receive(frame); proto.Channel(frame[0]) == proto.ChannelError {
			break
		}
		_ = clock.Clock{}.Sleep(t.Context(), 3*time.Millisecond)
	}
	if stdout, _, code := c.awaitEnd(); len(stdout) != 3_000_000 || code != 0 {
		t.Errorf("%d bytes, %d", len(stdout), code)
	}
	stalled := s.openStream(shell(id, "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"))
	<-stalled.down
	stalled.send(proto.ChannelStdin, "")
	<-stalled.down
	s.signal(id, engine.SIGKILL)
	s.wantExit(id, 137, engine.ReasonError)
}

// TestACommandThatLeavesAWriterBehind: a process that writes on after its command has ended blocks
// nothing.
func TestACommandThatLeavesAWriterBehind(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	c := s.openStream(shell(id, "(while :; do echo on; sleep 0.1; done) & exit 5"))
	c.begin()
	if _, _, code := c.awaitEnd(); code != 5 {
		t.Errorf("it ended with %d, want 5", code)
	}
	s.signal(id, engine.SIGKILL)
	s.wantExit(id, 137, engine.ReasonError)
}

// TestACommandEndsWithItsContainer: a command ends with its container, and its client gets the end.
func TestACommandEndsWithItsContainer(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	c := s.openStream(shell(id, "echo begun; sleep 1000"))
	c.begin()
	s.poll("it has begun", func() bool { return c.stdoutSoFar() == "begun\n" })
	s.signal(id, engine.SIGKILL)
	if _, _, code := c.awaitEnd(); code != 137 {
		t.Errorf("the command ended with %d", code)
	}
	s.wantExit(id, 137, engine.ReasonError)
	if err := <-s.openStream(execute(id, "/bin/true")).ended; err == nil {
		t.Error("a command ran in a container that had ended")
	}
}

// TestAttach: an attached client gets the program's output from then on, and can write to a program
// with stdin.
func TestAttach(t *testing.T) {
	for name, row := range map[string]struct {
		stdin, once, tty bool
	}{
		"nothing to read": {}, "stdin": {stdin: true}, "stdin once": {stdin: true, once: true}, "a terminal": {stdin: true, tty: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEngine(t, nil)
			id := s.id("app")
			c := s.request(id, "/bin/sh", "-c", `echo ready; while read -r line; do echo "got $line"; done; echo over; while :; do echo tick; sleep 0.05; done`)
			c.Request.Stdin, c.Request.StdinOnce, c.Request.Tty = row.stdin, row.once, row.tty
			s.load(c)
			if err := s.Start(t.Context(), id, testNow()); err != nil {
				t.Fatal(err)
			}
			s.await(id, proto.ContainerState_CONTAINER_STATE_RUNNING)
			s.poll("it is ready", func() bool { return strings.Contains(s.log(id), "ready") })
			attach := &proto.ContainerStreamRequest{ContainerId: id, Stdin: true, Stdout: true, Stderr: true}
			first, second := s.openStream(attach), s.openStream(attach)
			first.begin()
			second.begin()
			if row.stdin {
				for _, c := range []*client{first, second} { // both are attached once they hear something
					s.poll("it answers", func() bool {
						c.send(proto.ChannelStdin, "hello\n")
						_ = clock.Clock{}.Sleep(t.Context(), 10*time.Millisecond)
						return strings.Contains(c.stdoutSoFar(), "got hello")
					})
				}
				if strings.Contains(first.stdoutSoFar(), "ready") {
					t.Errorf("it heard what was written before: %q", first.stdoutSoFar())
				}
				first.send(proto.ChannelClose, string([]byte{byte(proto.ChannelStdin)}))
				first.leave()
				if err := <-first.ended; err != nil && !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				if row.once {
					s.poll("it reads the end", func() bool { return strings.Contains(second.stdoutSoFar(), "over") })
				} else {
					second.send(proto.ChannelStdin, "still there\n")
					s.poll("it answers", func() bool { return strings.Contains(second.stdoutSoFar(), "got still there") })
				}
			}
			if !row.stdin {
				s.poll("it hears", func() bool { return strings.Contains(second.stdoutSoFar(), "tick") })
			}
			s.signal(id, engine.SIGKILL)
			if _, _, code := second.awaitEnd(); code != 0 {
				t.Errorf("the attachment ended with %d", code)
			}
			s.wantExit(id, 137, engine.ReasonError)
			if row.stdin && !strings.Contains(s.log(id), "got hello") {
				t.Errorf("the log has not what was attached to: %q", s.log(id))
			}
		})
	}
}

// TestAConversationBreaksWithItsShim: if the shim is killed, everything ends with it, and the
// client gets an error.
func TestAConversationBreaksWithItsShim(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "echo ready; exec sleep 1000")
	c := s.openStream(shell(id, "echo begun; sleep 1000"))
	c.begin()
	s.poll("it has begun", func() bool { return c.stdoutSoFar() == "begun\n" })
	s.kill(s.shimOf(id))
	if err := <-c.ended; err == nil {
		t.Error("the conversation ended in order")
	}
	s.wantExit(id, engine.ExitUnknown, engine.ReasonUnknown)
}
