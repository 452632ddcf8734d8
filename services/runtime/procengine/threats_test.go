package procengine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// TestT8ProgramHasNoRights is T8: a program has no capability and no way to get one. If the runtime
// is root, the program has another user and none of root's groups. Its resources are bounded.
func TestT8ProgramHasNoRights(t *testing.T) {
	dir := openTempDir(t)
	elevated := filepath.Join(dir, "elevated")
	copyFile(t, "/usr/bin/id", elevated)
	if err := os.Chmod(elevated, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	for name, way := range isolations(t) {
		t.Run(name, func(t *testing.T) {
			s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Isolation = way })
			id := s.runShell("app", "grep -E 'Uid|Groups|Cap|NoNewPrivs' /proc/self/status; ulimit -c; ulimit -n; umask; "+elevated+" -u; echo ready; exec sleep 1000")
			uid, groups := os.Geteuid(), []int(nil)
			if way.User != nil {
				uid = way.User.UID
			} else {
				groups, _ = os.Getgroups()
			}
			lines := strings.Split(strings.ReplaceAll(s.log(id), "\t", " "), "\n")
			want := []string{
				fmt.Sprintf("Uid: %d %d %d %d", uid, uid, uid, uid), "Groups: " + strings.Trim(fmt.Sprint(groups), "[]") + " ",
				"CapInh: 0000000000000000", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "", "CapAmb: 0000000000000000",
				"NoNewPrivs: 1", "0", "", "0022", strconv.Itoa(uid), "ready", "",
			}
			for i, line := range want {
				if line != "" && (i >= len(lines) || lines[i] != line) {
					t.Errorf("line %d of what it says is not %q:\n%s", i, line, s.log(id))
				}
			}
			s.signal(id, "SIGKILL")
			s.await(id, exited)
		})
	}
}

// TestT8OnlyWhatIsAllowed is T8: programs that are not allowed do not run, whatever they are
// called.
func TestT8OnlyWhatIsAllowed(t *testing.T) {
	dir := t.TempDir()
	copyFile(t, "/bin/true", filepath.Join(dir, "good"))
	copyFile(t, "/bin/true", filepath.Join(dir, "elevated"))
	if err := os.Chmod(filepath.Join(dir, "elevated"), 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	allow, err := procengine.NewAllowlist([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Allow = allow })
	for i, program := range []string{
		"/bin/sh", "sh", dir + "/../../../../bin/sh", "../../bin/sh", dir + "/elevated", "elevated", "", ".", "..", dir, "/proc/self/exe",
	} {
		id := s.id(fmt.Sprint("app", i))
		s.load(s.request(id, program))
		if err := s.Start(t.Context(), id, testNow()); err != nil {
			t.Fatal(err)
		}
		s.wantExit(id, engine.ExitStartError, engine.ReasonStartError)
	}
	id := s.id("preload")
	c := s.request(id, "good")
	c.Request.Env = map[string]string{"LD_PRELOAD": "/tmp/evil.so"}
	s.load(c)
	if err := s.Start(t.Context(), id, testNow()); err != nil {
		t.Fatal(err)
	}
	s.wantExit(id, engine.ExitStartError, engine.ReasonStartError)
	good := s.id("good")
	s.load(s.request(good, "good"))
	if err := s.Start(t.Context(), good, testNow()); err != nil {
		t.Fatal(err)
	}
	s.wantExit(good, 0, engine.ReasonCompleted)
}

// TestT10IdentitiesAreNoPaths is T10: a container id is a directory name, and cannot lead out of
// the engine's directory.
func TestT10IdentitiesAreNoPaths(t *testing.T) {
	s := newTestEngine(t, nil)
	for _, id := range []string{"", ".", "..", "../x", "a/b", "/etc", "a/../.."} {
		if _, err := s.Load(t.Context(), s.request(id, "/bin/true")); err == nil || !strings.Contains(err.Error(), "want the name of a directory") {
			t.Errorf("container id %q: %v", id, err)
		}
	}
}

// TestT9ProcessNumberReused is T9: a process with a reused PID is never signaled: not while the
// runtime runs, not at its restart, and not when it cleans up after a shim. The test runs in a PID
// namespace, in which it can choose the next PID.
func TestT9ProcessNumberReused(t *testing.T) {
	command := osexec.CommandContext(t.Context(), os.Args[0], asFirst, openTempDir(t))
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   syscall.SIGKILL, // the first of its namespace takes all others along
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// runPIDReuse is the test's body as process 1 of its namespace. It returns the exit code.
func runPIDReuse(dir string) int {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("mount /proc:", err)
		return 1
	}
	for _, victim := range []string{"program", "shim"} {
		if err := checkPIDReuse(filepath.Join(dir, victim), victim); err != nil {
			fmt.Printf("%s killed: %v\n", victim, err)
			return 1
		}
	}
	return 0
}

// checkPIDReuse gives the PID of a dead program to an unrelated process, which must outlive all
// that is done to the container.
func checkPIDReuse(dir, victim string) error {
	allow, err := procengine.NewAllowlist([]string{"/bin"})
	if err != nil {
		return err
	}
	cfg := procengine.Config{Dir: dir, Shim: []string{os.Args[0], asShim}, Launch: launchCommand(), Allow: allow}
	e, err := procengine.New(cfg)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	told := make(chan engine.Status, 10)
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx, func(_ string, status engine.Status) { told <- status }) })
	defer running.Wait()
	defer end()
	request := &proto.CreateContainerRequest{Name: "app", Command: []string{"sh", "-c", "exec sleep 1000"}}
	if _, err = e.Load(ctx, engine.Container{ID: "app", Request: request}); err != nil {
		return err
	}
	if err := e.Start(ctx, "app", testNow()); err != nil {
		return err
	}
	if status := <-told; status.State != proto.ContainerState_CONTAINER_STATE_RUNNING {
		return fmt.Errorf("it is %+v", status)
	}
	var process shim.Process
	data, err := os.ReadFile(filepath.Join(dir, "app", "process.json"))
	if err == nil {
		err = json.Unmarshal(data, &process)
	}
	if err != nil {
		return err
	}
	if victim == "shim" { // the program died with its shim, and no exit was recorded
		err = syscall.Kill(parentPID(process.PID), syscall.SIGKILL)
	} else {
		err = e.Signal(ctx, "app", engine.SIGKILL, testNow())
	}
	if err != nil {
		return err
	}
	<-told
	if victim == "shim" { // it has become our child, and keeps its PID until it is reaped
		if _, err := syscall.Wait4(process.PID, nil, 0, nil); err != nil {
			return err
		}
	}
	stranger, err := forkWithPID(process.PID)
	if err != nil {
		return err
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	for _, signal := range []string{engine.SIGTERM, engine.SIGKILL} {
		if err := e.Signal(ctx, "app", signal, testNow()); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(dir, "app", "exit.json")); err != nil { // as after a crash before it was written
		return err
	}
	again, err := procengine.New(cfg)
	if err != nil {
		return err
	}
	status, err := again.Load(ctx, engine.Container{
		ID: "app", Request: request, Events: engine.Events{Start: testNow(), Stop: testNow(), Kill: testNow()},
	})
	if err != nil || status.ExitCode != engine.ExitUnknown {
		return fmt.Errorf("it was found %+v, %w", status, err)
	}
	again.Remove(ctx, "app")
	if err := procengine.KillAll(ctx, dir); err != nil {
		return err
	}
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.PID))
	if err != nil || strings.Contains(string(state), "(sleep) Z") { // not reaped yet
		return fmt.Errorf("the stranger is %q, %w", state, err)
	}
	return nil
}

// forkWithPID starts an unrelated process with a certain PID.
func forkWithPID(pid int) (*osexec.Cmd, error) {
	for {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			return nil, err
		}
		stranger := osexec.Command("/bin/sleep", "1000")
		if err := stranger.Start(); err != nil {
			return nil, err
		}
		if stranger.Process.Pid == pid {
			for { // until it is the program that it says
				if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(line) == "sleep\n" {
					return stranger, nil
				}
			}
		}
		_ = stranger.Process.Kill() // a thread was faster
		_ = stranger.Wait()
	}
}

// parentPID returns the parent of a process.
func parentPID(pid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if number, found := strings.CutPrefix(line, "PPid:"); found {
			ppid, _ := strconv.Atoi(strings.TrimSpace(number))
			return ppid
		}
	}
	return 0
}
