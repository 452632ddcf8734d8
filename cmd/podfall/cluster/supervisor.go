package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/trouble"
	"github.com/podfall/podfall/proto"
)

// stopTimeout bounds how long a process may take to exit before it is killed.
const stopTimeout = 10 * time.Second

// Supervisor owns the processes of one cluster.
type Supervisor struct {
	layout   Layout
	options  Options
	progress func(string)

	mu       sync.Mutex
	children map[string]*child
	reapers  sync.WaitGroup
	// starting holds a channel with room for one token per process. A goroutine holds the token
	// while it starts the process.
	starting map[string]chan struct{}
	// troubles records processes that are down or paused.
	troubles *trouble.Log
}

// NewSupervisor returns a Supervisor of the cluster. progress is called with one line per step,
// from several goroutines.
func NewSupervisor(layout Layout, options Options, progress func(string)) *Supervisor {
	s := &Supervisor{layout: layout, options: options, progress: progress, children: map[string]*child{}, starting: map[string]chan struct{}{}}
	for _, name := range layout.Names(options) {
		s.starting[name] = make(chan struct{}, 1)
	}
	return s
}

// Run starts every process, calls ready once all are, and runs until ctx ends; then it stops them.
// Whenever again delivers, it starts the requested processes that have ended. A start that waits
// for another process delays only requests for the same process. Run never leaves a process
// running. It returns ErrRunning if the cluster has a supervisor.
func (s *Supervisor) Run(ctx context.Context, again <-chan os.Signal, ready func()) error {
	unlock, err := s.layout.lockSupervisor()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.layout.StopLeftovers(ctx, s.progress); err != nil {
		return err
	}
	end, err := s.openHistory()
	if err != nil {
		return err
	}
	defer end()
	defer s.layout.killPrograms(ctx, s.progress)
	defer s.reapers.Wait()
	defer s.stopAll()
	if _, err := s.layout.takeStartRequests(); err != nil { // requests to an earlier supervisor: everything is started now
		return err
	}
	if err := s.startMissing(ctx, nil); err != nil {
		return err
	}
	ready()
	var starts sync.WaitGroup
	defer starts.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			wanted, err := s.layout.takeStartRequests()
			if err != nil {
				s.progress(err.Error())
			}
			for _, names := range wanted {
				starts.Go(func() {
					if err := s.startMissing(ctx, names); err != nil {
						s.progress(err.Error())
					}
				})
			}
		}
	}
}

// openHistory opens the supervisor's history.
func (s *Supervisor) openHistory() (end func(), err error) {
	schedule, err := s.options.Schedule()
	if err != nil {
		return nil, err
	}
	var entropy [4]byte
	_, _ = rand.Read(entropy[:]) // never fails
	recorder, err := history.Open(history.Config{
		Dir: s.layout.History(), Process: supervisorName, Boot: proto.NewBoot(clock.Clock{}.Now(), entropy),
		Clock: clock.NewDriver(schedule).Clock(), Warn: func(err error) { s.progress(err.Error()) },
	})
	s.troubles = trouble.NewLog(recorder, trouble.ProcessKinds()...)
	return recorder.Close, err
}

// startMissing starts the processes that do not run, stage by stage. If there are names, it starts
// only those.
func (s *Supervisor) startMissing(ctx context.Context, names []string) error {
	at := Addresses{Runtimes: map[string]string{}}
	for _, stage := range Plan(s.layout, s.options) {
		missing := slices.DeleteFunc(slices.Clone(stage), func(m Member) bool { return len(names) > 0 && !slices.Contains(names, m.Name) })
		if err := s.startStage(ctx, missing, at); err != nil {
			return err
		}
		if err := s.layout.readAddresses(stage, &at); err != nil {
			return err
		}
	}
	return nil
}

// startStage starts the members that do not run, and waits until all are ready.
func (s *Supervisor) startStage(ctx context.Context, stage []Member, at Addresses) error {
	failures := make([]error, len(stage))
	var starting sync.WaitGroup
	for i, member := range stage {
		starting.Go(func() { failures[i] = s.startUnlessRunning(ctx, member, at) })
	}
	starting.Wait()
	return errors.Join(failures...)
}

// startUnlessRunning waits for a start of the member that is under way, and starts the member if it
// does not run then.
func (s *Supervisor) startUnlessRunning(ctx context.Context, member Member, at Addresses) error {
	select {
	case s.starting[member.Name] <- struct{}{}:
		defer func() { <-s.starting[member.Name] }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if running := s.child(member.Name); running != nil && running.isRunning() || ctx.Err() != nil {
		return ctx.Err()
	}
	return s.startOne(ctx, member, at)
}

func (s *Supervisor) startOne(ctx context.Context, member Member, at Addresses) error {
	began := s.troubles.Now()
	started, ready, err := s.layout.start(member, at)
	if err != nil {
		return fmt.Errorf("start %s: %w", member.Name, err)
	}
	defer ready.Close()
	s.mu.Lock()
	s.children[member.Name] = started
	s.mu.Unlock()
	s.reapers.Go(func() {
		started.reap(
			func() { s.troubles.Begin(s.troubles.Now(), history.TroublePaused, member.Name) },
			func() { s.troubles.End(s.troubles.Now(), history.TroublePaused, member.Name) },
		)
		s.troubles.Begin(s.troubles.Now(), history.TroubleDown, member.Name)
		s.progress(fmt.Sprintf("%s ended: %s", member.Name, started.command.ProcessState))
	})
	if err := awaitReady(ctx, member, ready); err != nil {
		if ctx.Err() != nil {
			return err
		}
		lines := s.layout.lastLogLines(member.Name, 3)
		return fmt.Errorf("%w; the end of %s:\n%s", err, s.layout.logFile(member.Name), strings.Join(lines, "\n"))
	}
	s.progress(fmt.Sprintf("%s ready (pid %d)", member.Name, started.record.PID))
	s.troubles.End(began, history.TroubleDown, member.Name)
	started.record.Ready = true
	return s.layout.writeRecord(started.record)
}

func (s *Supervisor) child(name string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[name]
}

// stopAll stops every child, the last stage first, and removes their records.
func (s *Supervisor) stopAll() {
	stages := Plan(s.layout, s.options)
	slices.Reverse(stages)
	for _, stage := range stages {
		var stopping sync.WaitGroup
		for _, member := range stage {
			if started := s.child(member.Name); started != nil {
				stopping.Go(func() {
					timer := clock.Clock{}.Timer(stopTimeout)
					defer timer.Stop()
					started.stop(timer.C)
					_ = os.Remove(s.layout.recordFile(member.Name))
				})
			}
		}
		stopping.Wait()
	}
}

// readAddresses adds the addresses that the stage has published.
func (l Layout) readAddresses(stage []Member, at *Addresses) error {
	for _, member := range stage {
		switch {
		case member.Name == "bus":
			if err := readJSON(l.busAddresses(), &at.Bus); err != nil {
				return err
			}
		case strings.HasPrefix(member.Name, "runtime/"):
			url, err := readURL(l.runtimeAddress(member.Node))
			if err != nil {
				return err
			}
			at.Runtimes[member.Node] = url
		}
	}
	return nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ErrRunning means that the cluster already has a supervisor.
var ErrRunning = errors.New("the cluster is up already")

// lockSupervisor takes the supervisor lock, which the kernel releases however the supervisor ends.
func (l Layout) lockSupervisor() (release func(), err error) {
	file, err := os.OpenFile(l.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrRunning, l.Root)
		}
		return nil, err
	}
	if _, err := l.record(supervisorName, os.Getpid()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() {
		_ = os.Remove(l.recordFile(supervisorName))
		_ = file.Close()
	}, nil
}

const supervisorName = "supervisor"

// StopLeftovers stops the processes of a supervisor that was killed.
func (l Layout) StopLeftovers(ctx context.Context, progress func(string)) error {
	records, err := l.Records()
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.PID == os.Getpid() {
			continue
		}
		if record.Alive() {
			progress(fmt.Sprintf("%s (pid %d) was left by an earlier supervisor: stopping it", record.Name, record.PID))
			if err := record.Stop(ctx, stopTimeout); err != nil {
				return fmt.Errorf("stop %s: %w", record.Name, err)
			}
		}
		if err := os.Remove(l.recordFile(record.Name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// Stop sends SIGTERM, and after timeout SIGKILL. It returns when the process is gone.
func (r Record) Stop(ctx context.Context, patience time.Duration) error {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		switch err := r.Signal(signal); {
		case errors.Is(err, os.ErrProcessDone):
			return nil
		case err != nil:
			return err
		}
		_ = r.Signal(syscall.SIGCONT) // a paused process handles the signal after SIGCONT
		if r.awaitExit(ctx, patience) {
			return nil
		}
	}
	return fmt.Errorf("pid %d does not end", r.PID)
}

// awaitExit waits until the recorded process, which need not be a child, has exited.
func (r Record) awaitExit(ctx context.Context, patience time.Duration) bool {
	return poll(ctx, patience, func() bool { return !r.Alive() })
}

// poll waits until is returns true, and reports whether it did before the timeout.
func poll(ctx context.Context, patience time.Duration, is func() bool) bool {
	var wall clock.Clock
	for deadline := wall.Now().Add(patience); !is(); {
		if wall.Now().After(deadline) || wall.Sleep(ctx, 10*time.Millisecond) != nil {
			return false
		}
	}
	return true
}
