package shim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
)

const (
	// maxResult is how many bytes of each stream of a command are kept.
	maxResult = 1 << 20
	// drainTime bounds how long processes started by a command may write after its end.
	drainTime = time.Second
)

// command is a command that runs beside the program.
type command struct {
	process *os.Process
	program string
	out     stdio
	// answer is nil for a command with a connected client.
	answer  func(message)
	copying sync.WaitGroup
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	ended   chan struct{}
	code    int32 // set before ended is closed
	// killed is set by the shim's goroutine once the timeout has passed.
	killed bool
}

// startCommand starts a command. The answer is sent when the command has ended.
func (s *shim) startCommand(asked request) error {
	out, err := openStdio(false, false, nil)
	if err != nil {
		return err
	}
	process, err := s.launchProcess(s.commandPlan(asked.Exec.Program, asked.Exec.Args), out)
	if err != nil {
		return err
	}
	c := &command{process: process, program: asked.Exec.Program, out: out, answer: asked.answer, ended: make(chan struct{})}
	_ = s.signals.journal.append(Record{Exec: c.program}) // a journal error must not stop a hook
	s.commands[process.Pid] = c
	c.copying.Go(func() { readLimited(&c.stdout, out.output[proto.ChannelStdout]) })
	c.copying.Go(func() { readLimited(&c.stderr, out.output[proto.ChannelStderr]) })
	if asked.Exec.Timeout > 0 {
		s.output.Go(func() { s.awaitTimeout(c, asked.Exec.Timeout) })
	}
	return nil
}

// awaitTimeout asks the shim's goroutine to kill a command after its timeout.
func (s *shim) awaitTimeout(c *command, timeout time.Duration) {
	timer := clock.Clock{}.Timer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ended:
		return
	}
	select {
	case s.requests <- request{expired: c, answer: func(message) {}}:
	case <-c.ended:
	}
}

// finishCommand answers for a command. Other processes descend from the program and need no answer.
func (s *shim) finishCommand(pid int, status unix.WaitStatus) {
	c, ok := s.commands[pid]
	if !ok {
		return
	}
	delete(s.commands, pid)
	c.code = exitCode(status)
	close(c.ended)
	_ = s.signals.journal.append(Record{Exec: c.program, Code: c.code, Done: true})
	if c.answer == nil {
		return
	}
	s.output.Go(func() {
		limit := clock.Clock{}.Now().Add(drainTime)
		for _, from := range c.out.output {
			_ = from.SetReadDeadline(limit)
		}
		c.copying.Wait()
		c.out.closeOurs()
		c.answer(message{Result: &Result{
			Code: c.code, Stdout: c.stdout.Bytes(), Stderr: c.stderr.Bytes(), TimedOut: c.killed,
		}})
	})
}

// readLimited reads to the end and keeps at most maxResult bytes.
func readLimited(into *bytes.Buffer, from *os.File) {
	_, err := io.Copy(into, io.LimitReader(from, maxResult))
	if err == nil {
		_, err = io.Copy(io.Discard, from)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		left := readBuffered(from)
		into.Write(left[:min(len(left), maxResult-into.Len())])
	}
}

var errEnded = errors.New("the program has ended")

// handleRequest carries out a request and answers it. A command is answered when it has ended.
func (s *shim) handleRequest(asked request) {
	var err error
	switch {
	case asked.do != nil:
		asked.do()
		return
	case asked.expired != nil:
		err = s.killExpired(asked.expired)
	case !s.status.FinishedAt.IsZero():
		err = errEnded
	case asked.Exec != nil:
		if err = s.startCommand(asked); err == nil {
			return
		}
	case asked.Signal != "":
		err = s.signalProgram(asked.Signal)
	default:
		err = errEmptyRequest
	}
	if err != nil {
		asked.answer(message{Error: err.Error()})
		return
	}
	asked.answer(message{})
}

var errEmptyRequest = errors.New("want a signal or a command")

// killExpired kills a command after its timeout, unless it has ended meanwhile.
func (s *shim) killExpired(c *command) error {
	if s.commands[c.process.Pid] != c {
		return nil
	}
	c.killed = true
	return c.process.Kill()
}
