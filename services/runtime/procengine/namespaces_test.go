package procengine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
)

// newIsolated returns a testEngine with namespaces.
func newIsolated(t *testing.T) *testEngine {
	t.Helper()
	s := newTestEngine(t, func(cfg *procengine.Config) {
		cfg.Isolation = procengine.DetectIsolation(t.Context(), cfg.Launch, nil)
	})
	if !s.cfg.Isolation.Namespaces {
		t.Fatalf("this machine refuses namespaces: %s", s.cfg.Isolation.Refused)
	}
	return s
}

// TestNamespacesProcessOne is CRI-11 by the kernel: the first process of a PID namespace gets no
// signal without a handler. Commands beside it are in the same namespace.
func TestNamespacesProcessOne(t *testing.T) {
	s := newIsolated(t)
	id := s.runShell("deaf", "echo I am $$; setsid sleep 1000 & (setsid setsid sleep 1000 &); echo ready; exec sleep 1000")
	s.signal(id, "SIGTERM")
	s.poll("beside it runs what the shell has become", func() bool {
		answer, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{"sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l"}})
		if err != nil {
			t.Fatal(err)
		}
		return strings.HasPrefix(string(answer.Stdout), "sleep 1000")
	})
	if log := s.log(id); !strings.Contains(log, "I am 1\n") {
		t.Errorf("it says %q", log)
	}
	if status := s.reports[id]; status.State == exited {
		t.Errorf("a signal that it does not handle has ended it: %+v", status)
	}
	s.signal(id, "SIGKILL")
	s.wantExit(id, 137, engine.ReasonError)
	if left := s.markedProcesses(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestNamespacesShimKilled: killing a shim kills the whole namespace.
func TestNamespacesShimKilled(t *testing.T) {
	s := newIsolated(t)
	id := s.runShell("app", "setsid sleep 1000 & setsid sh -c 'env -i sleep 1000 & env -i sleep 1000' & echo ready; sleep 1000")
	s.kill(s.shimOf(id))
	s.wantExit(id, 255, engine.ReasonUnknown)
}

// TestNamespacesMounts: mounts are at their paths for the program and for commands beside it; the
// machine sees none of them.
func TestNamespacesMounts(t *testing.T) {
	s := newIsolated(t)
	volume, other := filepath.Join(openTempDir(t), "volume"), filepath.Join(openTempDir(t), "other")
	for _, dir := range []string{volume, other} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(filepath.Base(dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	existing := openTempDir(t)
	id := s.id("app")
	c := s.request(id, "/bin/sh", "-c", "cat /podfall-data/file /podfall-data/nested/file /etc/podfall-test/deep/conf "+existing+"/file; "+
		"echo new > /podfall-data/written; { echo no > "+existing+"/refused; } 2>&1; echo ready; exec sleep 1000")
	c.Request.Mounts = []*proto.Mount{
		{HostPath: other, ContainerPath: "/podfall-data/nested"},
		{HostPath: volume, ContainerPath: "/podfall-data"},
		{HostPath: filepath.Join(volume, "file"), ContainerPath: "/etc/podfall-test/deep/conf"},
		{HostPath: other, ContainerPath: existing, ReadOnly: true},
	}
	s.load(c)
	if err := s.Start(t.Context(), id, testNow()); err != nil {
		t.Fatal(err)
	}
	s.awaitReady(id)
	if log := s.log(id); !strings.Contains(log, "volumeothervolumeother") || !strings.Contains(log, "Read-only") {
		t.Errorf("it says %q", log)
	}
	answer, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{"cat", "/podfall-data/written"}})
	if err != nil || string(answer.Stdout) != "new\n" {
		t.Errorf("beside it: %v, %v", answer, err)
	}
	for _, path := range []string{"/podfall-data", "/etc/podfall-test", filepath.Join(existing, "file"), filepath.Join(other, "refused")} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there on the machine", path)
		}
	}
	if data, err := os.ReadFile(filepath.Join(volume, "written")); string(data) != "new\n" {
		t.Errorf("the volume has %q, %v", data, err)
	}
	s.signal(id, "SIGKILL")
	s.await(id, exited)
}

// TestT10MountsThatAreRefused is T8 and T10: a mount cannot replace an allowed program or lead
// elsewhere, whatever a volume contains.
func TestT10MountsThatAreRefused(t *testing.T) {
	s := newIsolated(t)
	volume := openTempDir(t)
	for name, target := range map[string]string{"bin": "/usr/bin", "passwd": "/etc/passwd", "up": "../../../../../.."} {
		if err := os.Symlink(target, filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	for i, row := range []struct {
		host, container, want string
	}{
		{volume, "/bin", "nothing may be mounted there"},
		{volume, "/usr", "nothing may be mounted there"},
		{volume, "/", "nothing may be mounted there"},
		{volume, "/etc/../usr/lib", "nothing may be mounted there"},
		{volume, "/proc/1", "nothing may be mounted there"},
		{volume, "/v/bin/deeper", ""},
		{filepath.Join(volume, "passwd"), "/v/passwd2", "symbolic links"},
		{filepath.Join(volume, "bin"), "/v2", "symbolic links"},
		{"/nonexistent/of/podfall", "/v2", "no such file"},
	} {
		id := s.id(fmt.Sprint("app", i))
		c := s.request(id, "/bin/true")
		c.Request.Mounts = []*proto.Mount{{HostPath: volume, ContainerPath: "/v"}, {HostPath: row.host, ContainerPath: row.container}}
		s.load(c)
		if err := s.Start(t.Context(), id, testNow()); err != nil {
			t.Fatal(err)
		}
		status := s.await(id, exited)
		if status.Reason != engine.ReasonStartError || !strings.Contains(status.Message, row.want) {
			t.Errorf("%s on %s: %+v, want a refusal that says %q", row.host, row.container, status, row.want)
		}
	}
	if _, err := os.Stat("/usr/bin/deeper"); err == nil {
		t.Error("a mount point was made outside of the volume")
	}
}
