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

// Names are the cluster's processes, in the order of their starts.
func (l Layout) Names(options Options) []string {
	var names []string
	for _, stage := range Plan(l, options) {
		for _, member := range stage {
			names = append(names, member.Name)
		}
	}
	return names
}

// Known is an error that names those which are no processes of the cluster.
func (l Layout) Known(options Options, names ...string) error {
	known := l.Names(options)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no process %q: want one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// find is the record of a process of that name, which runs.
func (l Layout) find(options Options, name string) (Record, error) {
	if err := l.Known(options, name); err != nil {
		return Record{}, err
	}
	records, err := l.byName()
	if err != nil {
		return Record{}, err
	}
	if record := records[name]; record.Alive() {
		return record, nil
	}
	return Record{}, fmt.Errorf("%s does not run", name)
}

// Crash ends a process as kill -9 does, paused or not, and returns when it is gone. It
// stays so until it is started.
func (l Layout) Crash(ctx context.Context, options Options, name string) error {
	record, err := l.find(options, name)
	if err != nil {
		return err
	}
	if err := record.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !record.gone(ctx, patience) {
		return fmt.Errorf("%s (pid %d) does not end", name, record.PID)
	}
	return nil
}

// Pause stops a process where it is, as a frozen machine does: its connections stay. It
// returns when the process has stopped.
func (l Layout) Pause(ctx context.Context, options Options, name string) error {
	record, err := l.find(options, name)
	if err == nil {
		err = record.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		return err
	}
	if !within(ctx, patience, func() bool { return record.paused() || !record.Alive() }) {
		return fmt.Errorf("%s (pid %d) does not stop where it is", name, record.PID)
	}
	return nil
}

// Resume lets a process go on that was paused, and returns when it does; one that was not
// paused goes on.
func (l Layout) Resume(ctx context.Context, options Options, name string) error {
	record, err := l.find(options, name)
	if err == nil {
		err = record.Signal(syscall.SIGCONT)
	}
	if err != nil {
		return err
	}
	if !within(ctx, patience, func() bool { return !record.paused() }) {
		return fmt.Errorf("%s (pid %d) does not go on", name, record.PID)
	}
	return nil
}

// Restart starts processes that have ended, and returns when they are ready.
func (l Layout) Restart(ctx context.Context, options Options, names []string, progress func(string)) error {
	supervisor, err := l.supervisor()
	if err != nil {
		return err
	}
	if err := l.Known(options, names...); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := l.find(options, name); err == nil {
			return fmt.Errorf("%s runs already", name)
		}
	}
	if !supervisor.Alive() {
		return fmt.Errorf("the cluster in %s is not up; start it with podfall up", l.Root)
	}
	return l.startAgain(ctx, supervisor, names, progress)
}

// want leaves a file that names what the supervisor is to start when it is asked; no names
// are everything.
func (l Layout) want(names []string) error {
	var entropy [8]byte
	_, _ = rand.Read(entropy[:]) // never fails
	return WriteFile(filepath.Join(l.run(), fmt.Sprintf("start-%x.want", entropy)), []byte(strings.Join(names, "\n")))
}

// takeWanted reads the files of all who want something, and removes them.
func (l Layout) takeWanted() (wanted [][]string, err error) {
	paths, err := filepath.Glob(filepath.Join(l.run(), "start-*.want"))
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
