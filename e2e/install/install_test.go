// Package install gets podfall as its users do: from a module proxy, into a directory that
// knows nothing of this repository.
package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root   = "../.."
	path   = "github.com/podfall/podfall"
	suite  = "package shop\n\nimport (\n\t\"testing\"\n\n\t\"" + path + "/podfalltest\"\n)\n\n" + suiteT
	suiteT = `func TestNodes(t *testing.T) {
	cluster := podfalltest.Start(t, podfalltest.Nodes(2))
	if nodes := cluster.Nodes(); len(nodes) != 2 {
		t.Errorf("the cluster has the nodes %v, want 2", nodes)
	}
}
`
)

// TestInstallFromProxy runs `go install …/cmd/podfall@vX` and the tests of a module that
// imports podfalltest. Both get podfall from a file proxy, and the libraries from the module
// cache that built this test, whose go.sum has verified them. A replace line in go.mod, or a file that go.mod's module does not
// ship, makes it fail.
func TestInstallFromProxy(t *testing.T) {
	cache := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOMODCACHE"))
	proxy := filepath.Join(t.TempDir(), "proxy")
	version := writeProxy(t, proxy)
	t.Cleanup(func() { removeFromCache(t, cache, version) })

	dir := t.TempDir()
	env := []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy) + ",file://" + filepath.ToSlash(filepath.Join(cache, "cache", "download")),
		"GOSUMDB=off", "GOWORK=off", "GOFLAGS=-mod=mod", "GOBIN=" + dir,
	}
	run(t, dir, env, "go", "install", path+"/cmd/podfall@"+version.Version)
	if out := run(t, dir, nil, filepath.Join(dir, "podfall"), "--version"); !strings.Contains(out, version.Version) {
		t.Errorf("podfall --version prints %q, want the module's version %s in it", out, version.Version)
	}

	writeFile(t, filepath.Join(dir, "shop", "go.mod"), "module example.com/shop\n\ngo 1.26.0\n\nrequire "+path+" "+version.Version+"\n")
	writeFile(t, filepath.Join(dir, "shop", "shop_test.go"), suite)
	run(t, filepath.Join(dir, "shop"), env, "go", "test", "./...")
}

// writeProxy makes a file tree that the go command reads as a module proxy with one version. The
// version is a hash of the files: the go command indexes a version of a module once, for ever.
func writeProxy(t *testing.T, dir string) module.Version {
	t.Helper()
	files := trackedFiles(t)
	version := module.Version{Path: path, Version: "v0.0.1-h" + hashFiles(t, files)}
	at := filepath.Join(dir, version.Path, "@v")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(at, "list"), version.Version+"\n")
	writeFile(t, filepath.Join(at, version.Version+".info"), fmt.Sprintf(`{"Version":%q}`, version.Version))
	writeFile(t, filepath.Join(at, version.Version+".mod"), string(mod))
	var archive bytes.Buffer
	if err := zip.Create(&archive, version, files); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(at, version.Version+".zip"), archive.String())
	return version
}

// hashFiles returns a hash of the files' names and contents, in hexadecimal.
func hashFiles(t *testing.T, files []zip.File) string {
	t.Helper()
	hash := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(root, file.Path()))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", file.Path(), len(data), data)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

// trackedFiles returns the files that git tracks or would track. zip.Create leaves out those of
// nested modules.
func trackedFiles(t *testing.T) []zip.File {
	t.Helper()
	var files []zip.File
	for name := range strings.FieldsSeq(run(t, root, nil, "git", "ls-files", "--cached", "--others", "--exclude-standard")) {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil { // deleted files are still cached
			files = append(files, repoFile(name))
		}
	}
	return files
}

// repoFile is a file of the repository, by its path from the root.
type repoFile string

func (f repoFile) Path() string                 { return string(f) }
func (f repoFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(root, string(f))) }
func (f repoFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, string(f))) }

// removeFromCache removes the version from the module cache, whose directories are read-only.
func removeFromCache(t *testing.T, cache string, version module.Version) {
	t.Helper()
	extracted := filepath.Join(cache, version.Path+"@"+version.Version)
	err := filepath.WalkDir(extracted, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, dir := range []string{extracted, filepath.Join(cache, "cache", "download", version.Path)} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// run returns what a command prints, and fails the test if the command fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
