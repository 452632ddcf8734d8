package procengine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/cgroups"
	"github.com/podfall/podfall/services/runtime/procengine/shim"
)

// TestOutOfMemory: a program over its memory limit is killed as a whole with OOMKilled, even
// without a cgroup; one within its limit is not.
func TestOutOfMemory(t *testing.T) {
	for name, way := range isolations(t) {
		t.Run(name, func(t *testing.T) {
			s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Isolation = way })
			for id, script := range map[string]string{
				s.id("itself"):   "x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 1000",
				s.id("children"): "sh -c 'x=$(head -c 60000000 /dev/zero | tr \"\\0\" x); sleep 1000' & sleep 1000",
			} {
				c := s.request(id, "/bin/sh", "-c", script)
				c.Request.Resources = &proto.LinuxContainerResources{MemoryLimitInBytes: 32 << 20}
				s.load(c)
				if err := s.Start(t.Context(), id, testNow()); err != nil {
					t.Fatal(err)
				}
				s.wantExit(id, engine.ExitKilled, engine.ReasonOOMKilled)
			}
			modest := s.id("modest")
			c := s.request(modest, "/bin/sh", "-c", "x=$(head -c 5000000 /dev/zero | tr '\\0' x); sleep 0.5")
			c.Request.Resources = &proto.LinuxContainerResources{MemoryLimitInBytes: 32 << 20}
			s.load(c)
			if err := s.Start(t.Context(), modest, testNow()); err != nil {
				t.Fatal(err)
			}
			s.wantExit(modest, 0, engine.ReasonCompleted)
		})
	}
}

// TestCgroup: if this user can create cgroups, each container has one. Processes hidden from the
// shim are found by it and end with it, and the cgroup is removed with the container.
func TestCgroup(t *testing.T) {
	tree, err := cgroups.Open("podfall-test-" + filepath.Base(filepath.Dir(t.TempDir())))
	t.Logf("cgroups: %v, %v", tree, err)
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Cgroups = tree })
	id := s.id("app")
	c := s.request(id, "/bin/sh", "-c", "cat /proc/self/cgroup; (setsid env -i sleep 1000 &); echo ready; exec sleep 1000")
	c.Request.CgroupParent = "/kubepods/burstable/pod1234"
	s.load(c)
	if err := s.Start(t.Context(), id, testNow()); err != nil {
		t.Fatal(err)
	}
	s.awaitReady(id)
	if want := "/kubepods/burstable/pod1234/" + id + "\n"; tree != nil && !strings.Contains(s.log(id), want) {
		t.Errorf("it says that its cgroups are\n%s, want one that ends with %s", s.log(id), want)
	}
	s.signal(id, "SIGKILL")
	s.wantExit(id, engine.ExitKilled, engine.ReasonError)
	s.Remove(t.Context(), id)
	if path := tree.Path(c.Request.CgroupParent, id); tree != nil {
		if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
			t.Errorf("the pod's cgroup is still there: %v", err)
		}
		if err := tree.RemoveAll(); err != nil {
			t.Error(err)
		}
	}
}

// TestJournal: the journal has each signal and each command twice, in order: before and after.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signals.ndjson")
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Journal = path })
	id := s.runShell("app", "trap 'echo heard' TERM; echo ready; while :; do sleep 0.01; done")
	if _, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{"sh", "-c", "exit 3"}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.signal(id, "SIGTERM")
	}
	s.poll("it is heard", func() bool { return strings.Contains(s.log(id), "heard") })
	s.signal(id, "SIGKILL")
	s.wantExit(id, engine.ExitKilled, engine.ReasonError)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	last := int64(0)
	for line := range bytes.Lines(data) {
		var record shim.Record
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatal(err)
		}
		if record.Container != id || record.Mono < last || record.Wall.IsZero() {
			t.Errorf("after %d: %+v", last, record)
		}
		last = record.Mono
		lines = append(lines, fmt.Sprintf("%s%s %d %v", record.Signal, filepath.Base(record.Exec), record.Code, record.Done))
	}
	want := "[SIGTERM. 0 false SIGTERM. 0 true SIGKILL. 0 false SIGKILL. 0 true]"
	want = strings.Replace(want, "[", "["+lines[0]+" "+lines[1]+" ", 1)
	if got := fmt.Sprint(lines); got != want || !strings.HasSuffix(lines[0], "sh 0 false") && !strings.HasSuffix(lines[0], "dash 0 false") || !strings.HasSuffix(lines[1], "sh 3 true") {
		t.Errorf("the journal has %v", lines)
	}
}
