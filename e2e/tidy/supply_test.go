package tidy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDependenciesHaveChecksums checks T17: whatever a module of the repository is built of has
// one exact version and a checksum, the only replacements are other modules of the repository,
// and no script of the build fetches anything by another way than the go command, or a version
// that moves.
func TestDependenciesHaveChecksums(t *testing.T) {
	const root = "../.."
	shared, err := os.ReadFile(filepath.Join(root, "go.work.sum")) // which go writes if the go.sum files lack a checksum
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	required := regexp.MustCompile(`(?m)^\s*(?:require )?([a-z0-9.-]+\.[a-z]+/\S+) (v\S+)`)
	replaced := regexp.MustCompile(`(?m)^.*=>\s*(\S+)`)
	modules, seen := 0, map[string]bool{}
	for _, pattern := range []string{"go.mod", "*/go.mod"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			modules++
			text := readFile(t, path)
			sums := readFile(t, filepath.Join(filepath.Dir(path), "go.sum")) + string(shared)
			for _, match := range required.FindAllStringSubmatch(text, -1) {
				module, version := match[1], match[2]
				if module == "github.com/podfall/podfall" {
					continue
				}
				seen[module] = true
				if !strings.Contains(sums, module+" "+version+"/go.mod h1:") {
					t.Errorf("%s: %s %s has no checksum", path, module, version)
				}
			}
			for _, match := range replaced.FindAllStringSubmatch(text, -1) {
				if !strings.HasPrefix(match[1], "../") && !strings.HasPrefix(match[1], "./") {
					t.Errorf("%s: replaced by %s, which is not of this repository", path, match[1])
				}
			}
		}
	}
	if modules < 3 || len(seen) < 20 {
		t.Errorf("%d modules need %d others: they are not all there", modules, len(seen))
	}
}

// TestTheBuildFetchesNothingElse is the other half: what the build runs asks nobody but the go
// command for what it needs, and never for the latest.
func TestTheBuildFetchesNothingElse(t *testing.T) {
	const root = "../.."
	fetches := regexp.MustCompile(`@latest|@master|@main|\b(curl|wget)\b[^\n]*https?://(?:[^1l\s]|l[^o\s])`)
	looked := 0
	for _, pattern := range []string{"Makefile", "Dockerfile", ".ci/*", "tools/*.sh"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			looked++
			if text := fetches.FindString(readFile(t, path)); text != "" {
				t.Errorf("%s: %s", path, text)
			}
		}
	}
	if looked < 6 {
		t.Errorf("%d files were looked at: they are not all there", looked)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
