package procengine_test

import (
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/podfall/podfall/services/runtime/procengine"
	"github.com/podfall/podfall/services/runtime/procengine/launch"
)

// nobody is the user of programs if the runtime is root.
const nobody = 65534

// isolations returns the isolations to test on this machine, always including none, as if the
// kernel refused namespaces.
func isolations(t *testing.T) map[string]procengine.Isolation {
	t.Helper()
	ways := map[string]procengine.Isolation{"without namespaces": {Refused: "the test does without"}}
	if os.Geteuid() == 0 {
		ways["without namespaces, as nobody"] = procengine.Isolation{User: &launch.User{UID: nobody, GID: nobody}}
		ways["namespaces, as nobody"] = procengine.DetectIsolation(t.Context(), launchCommand(), &launch.User{UID: nobody, GID: nobody})
	}
	ways["namespaces"] = procengine.DetectIsolation(t.Context(), launchCommand(), nil)
	for name, way := range ways {
		t.Logf("%s: %s", name, way)
	}
	return ways
}

// asNobody marks a process that TestAsNobody started.
const asNobody = "PODFALL_TEST_AS_NOBODY"

// TestAsNobody runs this package's other tests as an unprivileged user, as most people run podfall.
// If the user is unprivileged anyway, they have run already.
func TestAsNobody(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv(asNobody) != "" {
		return
	}
	home := openTempDir(t)
	self := filepath.Join(home, "procengine.test")
	copyFile(t, os.Args[0], self)
	command := osexec.CommandContext(t.Context(), self, "-test.run", "TestConformance|TestNamespaces|TestNothingIsLeft|TestShimKilled|TestRuntimeRestart|TestExec")
	command.Dir = home
	command.Env = []string{asNobody + "=1", "TMPDIR=" + home, "PATH=" + os.Getenv("PATH")}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// openTempDir returns a directory that every user of the machine can use.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
