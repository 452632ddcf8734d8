package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"

	"github.com/podfall/podfall/internal/clock"
)

// Prepare creates a container's directory and writes its spec.
func Prepare(dir string, spec Spec) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return writeJSON(root, fileSpec, spec)
}

// ReadExit returns how the container in dir exited. If it has neither a shim nor a recorded exit,
// ReadExit kills its remaining processes and records it as Lost. Nothing can be started in dir
// after that. ErrClaimed means that the shim is running.
func ReadExit(dir, marker string) (Status, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Status{}, err
	}
	defer root.Close()
	status, err := readJSON[Status](root, fileExit)
	if !errors.Is(err, fs.ErrNotExist) {
		return status, err
	}
	lock, err := lockDir(root)
	if err != nil {
		return Status{}, err
	}
	defer lock.Close()
	if status, err = readJSON[Status](root, fileExit); !errors.Is(err, fs.ErrNotExist) {
		return status, err
	}
	if err := killMarked(marker); err != nil {
		return Status{}, err
	}
	status = Status{Exited: true, Lost: true, Code: 255, FinishedAt: clock.Clock{}.Now()}
	return status, writeJSON(root, fileExit, status)
}

// IsGone reports whether the container in dir has no shim, not even one that is about to exit.
func IsGone(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return true
	}
	defer root.Close()
	lock, err := lockDir(root)
	if err != nil {
		return false
	}
	lock.Close()
	return true
}

// OpenLogs opens the container's log directory; fs.ErrNotExist if the container never ran.
func OpenLogs(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot(dirLog)
}

// Conn is a runtime's connection to a shim. Its methods are safe for concurrent use.
type Conn struct {
	conn net.Conn
	in   *json.Decoder

	mu      sync.Mutex
	out     *json.Encoder
	last    uint64
	waiting map[uint64]chan message
	gone    bool
}

// Dial connects to the shim of the container in dir, and waits for its first status. If the shim
// could not start its program, it has exited: see ReadExit.
func Dial(ctx context.Context, dir string) (*Conn, Status, error) {
	at, err := os.Open(dir)
	if err != nil {
		return nil, Status{}, err
	}
	defer at.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socketPath(at))
	if err != nil {
		return nil, Status{}, err
	}
	c := &Conn{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn), waiting: map[uint64]chan message{}}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var first message
	if err := c.in.Decode(&first); err != nil || first.Status == nil {
		return nil, Status{}, errors.Join(errGone, err, conn.Close())
	}
	return c, *first.Status, nil
}

// Run reports every further status until the shim exits or ctx ends. It closes the connection.
func (c *Conn) Run(ctx context.Context, report func(Status)) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.Close() })
	defer stop()
	defer c.hangUp()
	for {
		var m message
		if c.in.Decode(&m) != nil {
			return
		}
		if m.Status != nil {
			report(*m.Status)
			continue
		}
		c.mu.Lock()
		waiting := c.waiting[m.ID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		if waiting != nil {
			waiting <- m
		}
	}
}

// hangUp fails every waiting call.
func (c *Conn) hangUp() {
	_ = c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for id, waiting := range c.waiting {
		delete(c.waiting, id)
		waiting <- message{Error: errGone.Error()}
	}
}

var errGone = errors.New("the shim has gone")

// RequestSignal asks for a signal and does not wait. Errors are dropped: the end of the program or
// the shim is reported elsewhere.
func (c *Conn) RequestSignal(name string) { _ = c.send(message{Signal: name}, nil) }

// Signal asks for a signal, and waits until it was sent or can no longer be sent. [Conn.Run] must
// be running. The only error is the context's.
func (c *Conn) Signal(ctx context.Context, name string) error {
	answer := make(chan message, 1)
	if c.send(message{Signal: name}, answer) != nil {
		return nil //nolint:nilerr// it has exited
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-answer:
		return nil
	}
}

// Exec runs a command and waits for its end.
func (c *Conn) Exec(ctx context.Context, command Command) (Result, error) {
	answer := make(chan message, 1)
	if err := c.send(message{Exec: &command}, answer); err != nil {
		return Result{}, err
	}
	select {
	case <-ctx.Done():
		return Result{}, ctx.Err()
	case m := <-answer:
		if m.Result == nil {
			return Result{}, fmt.Errorf("exec %q: %s", command.Program, m.Error)
		}
		return *m.Result, nil
	}
}

func (c *Conn) send(m message, answer chan message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errGone
	}
	c.last++
	m.ID = c.last
	if answer != nil {
		c.waiting[m.ID] = answer
	}
	_ = c.conn.SetWriteDeadline(clock.Clock{}.Now().Add(writeTimeout))
	if err := c.out.Encode(m); err != nil {
		delete(c.waiting, m.ID)
		return errors.Join(errGone, err)
	}
	return nil
}
