package procengine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podfall/podfall/services/runtime/engine"
	"github.com/podfall/podfall/services/runtime/procengine"
)

// TestAllowlist is T8: only allowed programs run, however they are named.
func TestAllowlist(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	inside := filepath.Join(dir, "inside")
	namesake := filepath.Join(dir, "other", "server") // a directory that is called like a program
	if err := os.Mkdir(filepath.Dir(namesake), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{outside, inside, namesake} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, nil, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(inside, "server"), 0o755)
	write(filepath.Join(inside, "data"), 0o644)
	write(filepath.Join(inside, "root"), 0o755|os.ModeSetuid)
	write(filepath.Join(inside, "group"), 0o755|os.ModeSetgid)
	write(filepath.Join(outside, "server"), 0o755)
	write(dir+"/version", 0o755)
	aliased := dir + "/alias"
	write(dir+"/insideout", 0o755) // begins like the allowed directory
	if err := errors.Join(
		os.Symlink(filepath.Join(outside, "server"), filepath.Join(inside, "link")),
		os.Symlink(filepath.Join(inside, "server"), filepath.Join(outside, "link")),
		os.Symlink(inside, filepath.Join(dir, "door")), // as /bin leads to /usr/bin
		os.Symlink("version", aliased),
	); err != nil {
		t.Fatal(err)
	}
	allow, err := procengine.NewAllowlist([]string{namesake, inside, aliased})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		inside + "/server":              inside + "/server",
		"server":                        inside + "/server",
		outside + "/link":               "",
		aliased:                         dir + "/version",
		"alias":                         dir + "/version",
		dir + "/version":                dir + "/version",
		dir + "/door/server":            inside + "/server",
		dir + "/door/../inside/server":  inside + "/server",
		inside + "/.":                   "",
		inside + "/..":                  "",
		inside + "/../inside/server":    inside + "/server",
		inside + "/link":                "",
		"link":                          "",
		outside + "/server":             "",
		inside + "/../outside/server":   "",
		dir + "/insideout":              "",
		inside + "/data":                "",
		inside + "/root":                "",
		inside + "/group":               "",
		inside:                          "",
		"./server":                      "",
		"../inside/server":              "",
		"sh":                            "",
		"/bin/sh":                       "",
		"":                              "",
		"..":                            "",
		inside + "/no/such":             "",
		"/proc/self/root/" + inside[1:]: "",
	} {
		got, err := allow.ResolveProgram(name)
		if got != want && want != "" || (err == nil) != (want != "") {
			t.Errorf("Program(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	there, err := allow.ResolveProgram(outside + "/server")
	_, nowhere := allow.ResolveProgram(outside + "/none/server")
	if there != "" || strings.ReplaceAll(err.Error(), "outside/server", "") != strings.ReplaceAll(nowhere.Error(), "outside/none/server", "") {
		t.Errorf("a refusal tells whether a file exists:\n%v\n%v", err, nowhere)
	}
	if err := os.Symlink(outside, filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		inside: inside, inside + "/../inside": inside, outside: "", inside + "/out": "", inside + "/..": "", "inside": "", "": "",
	} {
		if got, err := allow.ResolveDirectory(name); got != want || (err == nil) != (want != "") {
			t.Errorf("Directory(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := (procengine.Allowlist{}).ResolveProgram(inside + "/server"); !errors.Is(err, procengine.ErrNotAllowed) {
		t.Errorf("without an allowance: %v", err)
	}
}

// TestNotAllowedIsAStartError: a program that is not allowed is a failed start, and the error says
// how to allow it.
func TestNotAllowedIsAStartError(t *testing.T) {
	s := newTestEngine(t, func(cfg *procengine.Config) { cfg.Allow = procengine.Allowlist{} })
	id := s.id("app")
	s.load(s.request(id, "/bin/sh", "-c", "echo ran"))
	if err := s.Start(t.Context(), id, testNow()); err != nil {
		t.Fatal(err)
	}
	s.wantExit(id, engine.ExitStartError, engine.ReasonStartError)
	want := `failed to start container: program "/bin/sh" is not allowed: podfall runs no program of a manifest unless --allow-exec names it or its directory`
	if got := s.reports[id].Message; got != want {
		t.Errorf("the message is\n%s\nwant\n%s", got, want)
	}
	if log := s.log(id); log != "" {
		t.Errorf("it wrote %q", log)
	}
}

// TestLoaderVariablesAreRefused is T8: a manifest cannot load a library into an allowed program.
func TestLoaderVariablesAreRefused(t *testing.T) {
	s := newTestEngine(t, nil)
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH"} {
		c := s.request(s.id(name), "/bin/sh", "-c", "echo ran")
		c.Request.Env = map[string]string{name: "/tmp/evil.so"}
		s.load(c)
		if err := s.Start(t.Context(), c.ID, testNow()); err != nil {
			t.Fatal(err)
		}
		s.wantExit(c.ID, engine.ExitStartError, engine.ReasonStartError)
		if log := s.log(c.ID); log != "" {
			t.Errorf("with %s it wrote %q", name, log)
		}
	}
}

// TestLimits: a program inherits limits: no core file, and a bounded number of descriptors.
func TestLimits(t *testing.T) {
	s := newTestEngine(t, nil)
	id := s.runShell("app", "ulimit -c; ulimit -n; echo ready")
	s.wantExit(id, 0, engine.ReasonCompleted)
	var core, files int
	if _, err := fmt.Sscan(s.log(id), &core, &files); err != nil || core != 0 || files > 1<<16 {
		t.Errorf("the limits are %q, %v", s.log(id), err)
	}
}
