package tidy

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTestsNamedInDocumentsExist reads every `path/to/package.TestName` in backquotes, and
// wants one for each threat in docs/dev/threats.md.
func TestTestsNamedInDocumentsExist(t *testing.T) {
	there := map[string]bool{}
	for _, f := range sources(t) {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, declared := range f.syntax.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && function.Recv == nil {
				there[filepath.ToSlash(filepath.Dir(f.path))+"."+function.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile("`([a-z0-9_./-]+\\.(?:Test|Fuzz|Benchmark)[A-Za-z0-9_]*)`")
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, match := range named.FindAllStringSubmatch(readText(t, path), -1) {
			if !there[match[1]] {
				t.Errorf("%s names %s, which is not there", path, match[1])
			}
		}
	})
	threat := regexp.MustCompile(`^\| (T\d+) \|`)
	threats := 0
	for line := range strings.Lines(readText(t, "docs/dev/threats.md")) {
		if found := threat.FindStringSubmatch(line); found != nil {
			threats++
			if !named.MatchString(line) && found[1] != "T17" { // which no test can show
				t.Errorf("docs/dev/threats.md: %s has no test", found[1])
			}
		}
	}
	if threats != 19 {
		t.Errorf("docs/dev/threats.md has %d threats, want 19", threats)
	}
}
