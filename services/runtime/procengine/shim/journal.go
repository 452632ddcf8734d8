package shim

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/internal/clock"
)

// Record is a line of the journal. A shim writes a record before it acts on its program, and
// another one after. The journal is independent evidence against which a program's own output can
// be checked.
type Record struct {
	Container string `json:"container"`
	// Done is false before the action and true after.
	Done bool `json:"done"`
	// Signal is the name of the signal that was sent.
	Signal string `json:"signal,omitempty"`
	// Exec is the program of a command beside the container's program, for example a hook; Code is
	// its exit code.
	Exec string `json:"exec,omitempty"`
	Code int32  `json:"code,omitempty"`
	// Wall is the wall time. Mono is CLOCK_MONOTONIC in ns, which orders all records of one
	// machine.
	Wall time.Time `json:"wall"`
	Mono int64     `json:"mono"`
	// Error says why the action failed.
	Error string `json:"error,omitempty"`
}

// journal is the file that all shims of a runtime append to. Each line is written as a whole, and
// is on disk when append returns.
type journal struct{ path, container string }

// recordAround runs do with a record before and after.
func (j journal) recordAround(record Record, do func() error) error {
	before := j.append(record)
	err := do()
	record.Done = true
	if err != nil {
		record.Error = err.Error()
	}
	// A signal that could not be recorded was sent all the same: a full disk keeps no
	// program alive.
	return errors.Join(err, before, j.append(record))
}

func (j journal) append(record Record) error {
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
