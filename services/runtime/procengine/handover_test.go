package procengine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/procengine"
)

// TestVolumesWithoutNamespaces: without namespaces a program, its children and commands beside it
// find its volumes by PODFALL_MOUNTS, in a directory that only the runtime may enter. If the
// program has another user, nothing else there is accessible.
func TestVolumesWithoutNamespaces(t *testing.T) {
	const at = `at() { echo "$PODFALL_MOUNTS" | while IFS== read -r inside outside; do [ "$inside" = "$1" ] && echo "$outside"; done; }; `
	for name, way := range isolations(t) {
		if way.Namespaces {
			continue
		}
		t.Run(name, func(t *testing.T) {
			closed := filepath.Join(openTempDir(t), "closed")
			volume, other := filepath.Join(closed, "volume"), filepath.Join(closed, "other")
			for _, dir := range []string{closed, volume, other} {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "file"), []byte(filepath.Base(dir)+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(volume, 0o777); err != nil { // whatever the umask is
				t.Fatal(err)
			}
			s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Isolation = way })
			id := s.id("app")
			c := s.request(id, "/bin/sh", "-c", at+`cat "$(at /data)/file" "$(at /etc/conf)"; echo new > "$(at /data)/written"; `+
				`cat "$(at /data)/../other/file"; ls "$(at /data)/.."; echo ready; exec sleep 1000`)
			c.Request.Mounts = []*proto.Mount{
				{HostPath: volume, ContainerPath: "/data"}, {HostPath: filepath.Join(volume, "file"), ContainerPath: "/etc/conf"},
			}
			s.load(c)
			if err := s.Start(t.Context(), id, testNow()); err != nil {
				t.Fatal(err)
			}
			s.awaitReady(id)
			log := s.log(id)
			if !strings.Contains(log, "volume\nvolume\n") {
				t.Errorf("in its volumes it finds %q", log)
			}
			if beside := strings.Contains(log, "other\n"); beside != (way.User == nil) {
				t.Errorf("beside its volumes it finds %q", log)
			}
			for _, descriptors := range []string{"", "100<&- 101<&-"} {
				answer, err := s.Exec(t.Context(), &proto.ExecSyncRequest{ContainerId: id, Command: []string{
					"bash", "-c", at + `cat "$(at /data)/written"; cat "$(at /data)/written" ` + descriptors,
				}})
				if err != nil || string(answer.Stdout) != "new\nnew\n" {
					t.Errorf("beside it: %v, %v", answer, err)
				}
			}
			s.signal(id, "SIGKILL")
			s.await(id, exited)
		})
	}
}

// TestT10VolumesWithoutLinks is T10: no volume is passed through a link.
func TestT10VolumesWithoutLinks(t *testing.T) {
	for name, way := range isolations(t) {
		if way.Namespaces || way.User == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			volume := openTempDir(t)
			if err := os.Symlink("/etc", filepath.Join(volume, "link")); err != nil {
				t.Fatal(err)
			}
			s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Isolation = way })
			id := s.id("app")
			c := s.request(id, "/bin/true")
			c.Request.Mounts = []*proto.Mount{{HostPath: filepath.Join(volume, "link"), ContainerPath: "/data"}}
			s.load(c)
			if err := s.Start(t.Context(), id, testNow()); err != nil {
				t.Fatal(err)
			}
			if status := s.await(id, exited); !strings.Contains(status.Message, "hand over /data") || !strings.Contains(status.Message, "symbolic links") {
				t.Errorf("it is %+v", status)
			}
		})
	}
}
