package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Names returns the names of the cluster's processes in start order.
func (l Layout) Names(options Options) []string {
	var names []string
	for _, stage := range Plan(l, options) {
		for _, member := range stage {
			names = append(names, member.Name)
		}
	}
	return names
}

// CheckNames fails if a name is not a process of the cluster.
func (l Layout) CheckNames(options Options, names ...string) error {
	known := l.Names(options)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no process %q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// findRunning returns the record of a running process.
func (l Layout) findRunning(options Options, name string) (Record, error) {
	if err := l.CheckNames(options, name); err != nil {
		return Record{}, err
	}
	records, err := l.recordsByName()
	if err != nil {
		return Record{}, err
	}
	if record := records[name]; record.Alive() {
		return record, nil
	}
	return Record{}, fmt.Errorf("%s does not run", name)
}

// Crash kills a process with SIGKILL, paused or not, and returns when it is gone. It stays down
// until it is started.
func (l Layout) Crash(ctx context.Context, options Options, name string) error {
	record, err := l.findRunning(options, name)
	if err != nil {
		return err
	}
	if err := record.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !record.awaitExit(ctx, stopTimeout) {
		return fmt.Errorf("%s (pid %d) does not end", name, record.PID)
	}
	return nil
}

// Pause stops a process with SIGSTOP, like a frozen machine: its connections stay open. It returns
// when the process has stopped.
func (l Layout) Pause(ctx context.Context, options Options, name string) error {
	record, err := l.findRunning(options, name)
	if err == nil {
		err = record.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		return err
	}
	if !poll(ctx, stopTimeout, func() bool { return record.paused() || !record.Alive() }) {
		return fmt.Errorf("%s (pid %d) does not stop where it is", name, record.PID)
	}
	return nil
}

// Resume continues a paused process, and returns when it runs. It does nothing if the process was
// not paused.
func (l Layout) Resume(ctx context.Context, options Options, name string) error {
	record, err := l.findRunning(options, name)
	if err == nil {
		err = record.Signal(syscall.SIGCONT)
	}
	if err != nil {
		return err
	}
	if !poll(ctx, stopTimeout, func() bool { return !record.paused() }) {
		return fmt.Errorf("%s (pid %d) does not go on", name, record.PID)
	}
	return nil
}

// Restart starts processes that have ended, and returns when they are ready.
func (l Layout) Restart(ctx context.Context, options Options, names []string, progress func(string)) error {
	supervisor, err := l.supervisorRecord()
	if err != nil {
		return err
	}
	if err := l.CheckNames(options, names...); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := l.findRunning(options, name); err == nil {
			return fmt.Errorf("%s runs already", name)
		}
	}
	if !supervisor.Alive() {
		return fmt.Errorf("the cluster in %s is not up; start it with podfall up", l.Root)
	}
	return l.requestStart(ctx, supervisor, names, progress)
}

// writeStartRequest writes a file with the names that the supervisor is to start. No names means
// all.
func (l Layout) writeStartRequest(names []string) error {
	var entropy [8]byte
	_, _ = rand.Read(entropy[:]) // never fails
	return WriteFile(filepath.Join(l.runDir(), fmt.Sprintf("start-%x.want", entropy)), []byte(strings.Join(names, "\n")))
}

// takeStartRequests reads and removes all start requests.
func (l Layout) takeStartRequests() (wanted [][]string, err error) {
	paths, err := filepath.Glob(filepath.Join(l.runDir(), "start-*.want"))
	for _, path := range paths {
		data, failed := os.ReadFile(path)
		if failed == nil {
			wanted = append(wanted, strings.Fields(string(data)))
			failed = os.Remove(path)
		}
		err = errors.Join(err, failed)
	}
	return wanted, err
}
