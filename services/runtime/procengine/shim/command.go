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
	// maxResult is how much of each stream of a command is kept.
	maxResult = 1 << 20
	// drain is how long what a command has started may go on writing after its end.
	drain = time.Second
)

// command is one that runs beside the program.
type command struct {
	process *os.Process
	program string
	out     stdio
	// answer is nil for a command that somebody talks with.
	answer  func(message)
	copying sync.WaitGroup
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	ended   chan struct{}
	code    int32 // set before ended is closed
	// killed is set when the timeout has passed, by the shim's goroutine.
	killed bool
}

// execute starts a command; its answer comes when it has ended.
func (s *shim) execute(asked request) error {
	out, err := openStdio(false, false, nil)
	if err != nil {
		return err
	}
	process, err := s.launch(s.beside(asked.Exec.Program, asked.Exec.Args), out)
	if err != nil {
		return err
	}
	c := &command{process: process, program: asked.Exec.Program, out: out, answer: asked.answer, ended: make(chan struct{})}
	_ = s.signals.journal.write(Record{Exec: c.program}) // a witness that cannot write keeps no hook from running
	s.commands[process.Pid] = c
	c.copying.Go(func() { keep(&c.stdout, out.output[proto.ChannelStdout]) })
	c.copying.Go(func() { keep(&c.stderr, out.output[proto.ChannelStderr]) })
	if asked.Exec.Timeout > 0 {
		s.output.Go(func() { s.expire(c, asked.Exec.Timeout) })
	}
	return nil
}

// expire asks the shim's goroutine to kill a command when its time is up.
func (s *shim) expire(c *command, timeout time.Duration) {
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

// commandEnded answers for a command; any other process was the program's business.
func (s *shim) commandEnded(pid int, status unix.WaitStatus) {
	c, ok := s.commands[pid]
	if !ok {
		return
	}
	delete(s.commands, pid)
	c.code = exitCode(status)
	close(c.ended)
	_ = s.signals.journal.write(Record{Exec: c.program, Code: c.code, Done: true})
	if c.answer == nil {
		return
	}
	s.output.Go(func() {
		limit := clock.Clock{}.Now().Add(drain)
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

// keep reads all, and keeps what there is room for.
func keep(into *bytes.Buffer, from *os.File) {
	_, err := io.Copy(into, io.LimitReader(from, maxResult))
	if err == nil {
		_, err = io.Copy(io.Discard, from)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		left := rest(from)
		into.Write(left[:min(len(left), maxResult-into.Len())])
	}
}

var errEnded = errors.New("the program has ended")

// carryOut does what was asked, and answers. A command is answered when it has ended.
func (s *shim) carryOut(asked request) {
	var err error
	switch {
	case asked.do != nil:
		asked.do()
		return
	case asked.expired != nil:
		err = s.expired(asked.expired)
	case !s.status.FinishedAt.IsZero():
		err = errEnded
	case asked.Exec != nil:
		if err = s.execute(asked); err == nil {
			return
		}
	case asked.Signal != "":
		err = s.signal(asked.Signal)
	default:
		err = errNothing
	}
	if err != nil {
		asked.answer(message{Error: err.Error()})
		return
	}
	asked.answer(message{})
}

var errNothing = errors.New("want a signal or a command")

// expired kills a command whose time is up, unless it has ended meanwhile.
func (s *shim) expired(c *command) error {
	if s.commands[c.process.Pid] != c {
		return nil
	}
	c.killed = true
	return c.process.Kill()
}
