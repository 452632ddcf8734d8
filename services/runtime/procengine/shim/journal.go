package shim

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// Record is a line of the journal, in which a shim says what it does to its program: once
// before it does it, and once when it has. It is the witness that a program's own account
// can be held against.
type Record struct {
	Container string `json:"container"`
	// Done is false before and true after.
	Done bool `json:"done"`
	// Signal is what the program was sent, by name.
	Signal string `json:"signal,omitempty"`
	// Exec is the program of a command that ran beside it, such as a hook; Code is how that
	// has ended.
	Exec string `json:"exec,omitempty"`
	Code int32  `json:"code,omitempty"`
	// Wall is the time on the wall, Mono that of CLOCK_MONOTONIC in ns, by which the records
	// of one machine are in order.
	Wall time.Time `json:"wall"`
	Mono int64     `json:"mono"`
	// Error is why it could not be done.
	Error string `json:"error,omitempty"`
}

// journal is the file that all shims of a runtime append to. A line is written as a whole
// and is on disk when write returns.
type journal struct{ path, container string }

// around writes a record before and after something is done.
func (j journal) around(record Record, do func() error) error {
	before := j.write(record)
	err := do()
	record.Done = true
	if err != nil {
		record.Error = err.Error()
	}
	// A signal that could not be written down was sent all the same: a full disk keeps no
	// program alive.
	return errors.Join(err, before, j.write(record))
}

func (j journal) write(record Record) error {
	if j.path == "" {
		return nil
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	record.Container, record.Wall, record.Mono = j.container, clock.Clock{}.Now(), now.Nano()
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_DSYNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
