package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/client"
)

// logsBegan is when the first line of every log was written; the others follow at seconds.
var logsBegan = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Ask is a kubelet that has the logs.
func (s *stage) Ask(_ context.Context, node, verb string, request []byte) ([]byte, error) {
	s.process.hear("%s %s %s", node, verb, request)
	text := fmt.Sprint(s.logs.Load())
	if strings.HasPrefix(text, "{") {
		return []byte(text), nil
	}
	var asked proto.LogsRequest
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, err
	}
	var lines []string
	at := logsBegan
	for line := range strings.Lines(text) {
		if !at.Before(asked.SinceTime) {
			lines = append(lines, at.Format(time.RFC3339Nano)+" "+line)
		}
		at = at.Add(time.Second)
	}
	if asked.TailLines != nil {
		lines = lines[max(0, len(lines)-int(*asked.TailLines)):]
	}
	return []byte(strings.Join(lines, "")), nil
}

// process is what every exec and attach talks with.
type process struct {
	// text is the exit code and what it writes, or a Status.
	text string

	mu   sync.Mutex
	told []string
}

func (p *process) hear(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, fmt.Sprintf(format, args...))
}

// heard is what the kubelets were asked since it was last called.
func (p *process) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := p.told
	p.told = nil
	return told
}

// Open is a kubelet that has a process.
func (s *stage) Open(_ context.Context, node, verb string, request []byte) (client.Conversation, error) {
	s.process.hear("%s %s %s", node, verb, request)
	var asked proto.StreamRequest
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, err
	}
	c := &conversation{frames: make(chan []byte, 8), done: make(chan struct{}), stage: s}
	if strings.HasPrefix(s.process.text, "{") {
		c.frames <- proto.StreamFrame(proto.ChannelError, []byte(s.process.text))
		return c, nil
	}
	code, text, _ := strings.Cut(s.process.text, " ")
	status, err := strconv.Atoi(code)
	if err != nil {
		return nil, err
	}
	c.frames <- proto.StreamFrame(proto.ChannelStdout, nil)
	c.end = func(read string) {
		if c.end = nil; read != "" {
			c.frames <- proto.StreamFrame(proto.ChannelStdout, []byte(read))
		}
		c.frames <- proto.StreamFrame(proto.ChannelStderr, []byte(text))
		c.frames <- proto.StatusFrame(proto.ExitStatus(int32(status)))
	}
	c.stdin = asked.Stdin
	return c, nil
}

// conversation is with a process that reads until there is no more, and then writes.
type conversation struct {
	stage  *stage
	stdin  bool
	read   string
	end    func(read string)
	frames chan []byte
	done   chan struct{}
}

func (c *conversation) Send(_ context.Context, frame []byte) error {
	channel, data, err := proto.ParseStreamFrame(frame)
	switch {
	case err != nil:
		return err
	case channel == proto.ChannelResize:
		c.stage.process.hear("resize %s", data)
	case channel == proto.ChannelStdin:
		c.read += string(data)
	}
	if c.end != nil && (!c.stdin || channel == proto.ChannelClose) {
		c.end(c.read)
	}
	return nil
}

func (c *conversation) Receive(ctx context.Context) ([]byte, error) {
	select {
	case frame := <-c.frames:
		return frame, nil
	case <-c.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *conversation) Done() <-chan struct{} { return c.done }

func (c *conversation) Close() { close(c.done) }

// screen is a terminal of 80 by 24.
type screen struct{}

func (screen) Raw() (func(), error) { return func() {}, nil }

func (screen) Size() (proto.TerminalSize, error) {
	return proto.TerminalSize{Width: 80, Height: 24}, nil
}

func (screen) Resized() (<-chan os.Signal, func()) { return nil, func() {} }
