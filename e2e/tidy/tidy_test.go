package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// file is one parsed Go file of ours.
type file struct {
	path   string // from the root
	syntax *ast.File
	set    *token.FileSet
}

// sources parses every Go file that is not generated.
func sources(t *testing.T) []file {
	t.Helper()
	var files []file
	set := token.NewFileSet()
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return
		}
		syntax, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{path: path, syntax: syntax, set: set})
	})
	if len(files) < 50 {
		t.Fatalf("found %d Go files: looked in the wrong place", len(files))
	}
	return files
}

// walk visits every file of the repository, by its path from the root.
func walk(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch name := entry.Name(); {
		case name == ".git" && !entry.IsDir(): // of a worktree
			return nil
		case entry.IsDir() && (name == ".git" || name == "bin" || name == ".podfall"):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		relative, err := filepath.Rel(root, path)
		visit(relative)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range sources(t) {
		if isTest(f.path) {
			continue
		}
		dir := filepath.Dir(f.path)
		if _, seen := comments[dir]; !seen {
			comments[dir] = nil
		}
		if f.syntax.Doc != nil {
			comments[dir] = append(comments[dir], filepath.Base(f.path))
		}
	}
	for dir, in := range comments {
		if len(in) != 1 {
			t.Errorf("%s: want one package comment, in the file to open first; found %d %v", dir, len(in), in)
		}
	}
}

func TestStructsAreNarrow(t *testing.T) {
	const most = 12
	for _, f := range sources(t) {
		if isTest(f.path) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if body, ok := spec.Type.(*ast.StructType); ok {
				if fields := body.Fields.NumFields(); fields > most {
					t.Errorf("%s: %s has %d fields, more than %d", f.path, spec.Name.Name, fields, most)
				}
			}
			return true
		})
	}
}

// TestGoroutinesHaveOwners forbids the go statement: a goroutine is started through
// something that waits for it, sync.WaitGroup.Go or daemon.Group. The few files that
// may use it say why.
func TestGoroutinesHaveOwners(t *testing.T) {
	allowed := []string{}
	for _, f := range sources(t) {
		if isTest(f.path) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if statement, ok := n.(*ast.GoStmt); ok && !slices.Contains(allowed, f.path) {
				t.Errorf("%s: a go statement; use sync.WaitGroup.Go or daemon.Group and wait", f.set.Position(statement.Pos()))
			}
			return true
		})
	}
}

// TestNoTestSleepsOrSkips lets only packages sleep whose tests use a bubble: there it
// takes no time.
func TestNoTestSleepsOrSkips(t *testing.T) {
	bubbles := map[string]bool{}
	for _, f := range sources(t) {
		if isTest(f.path) && strings.Contains(readText(t, f.path), `"testing/synctest"`) {
			bubbles[filepath.Dir(f.path)] = true
		}
	}
	for _, f := range sources(t) {
		bubble := bubbles[filepath.Dir(f.path)]
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			on, _ := selector.X.(*ast.Ident)
			switch {
			case on == nil:
			case on.Name == "time" && selector.Sel.Name == "Sleep" && !bubble && isTest(f.path):
				t.Errorf("%s: sleeps outside a bubble; wait for a condition", f.set.Position(call.Pos()))
			case on.Name == "t" && strings.HasPrefix(selector.Sel.Name, "Skip"):
				t.Errorf("%s: skips; a test that does not run proves nothing", f.set.Position(call.Pos()))
			}
			return true
		})
	}
}

// TestInternalIsShared wants at least two parts of the repository to import each package of
// internal: a package that one part alone imports belongs to that part.
func TestInternalIsShared(t *testing.T) {
	const prefix = "github.com/podfall/podfall/internal/"
	importers := map[string]map[string]bool{}
	for _, f := range sources(t) {
		if dir := filepath.ToSlash(filepath.Dir(f.path)); strings.HasPrefix(dir, "internal/") && strings.Count(dir, "/") == 1 {
			if importers[dir] == nil {
				importers[dir] = map[string]bool{}
			}
		}
	}
	for _, f := range sources(t) {
		for _, spec := range f.syntax.Imports {
			if name, ok := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), prefix); ok {
				top, _, _ := strings.Cut(name, "/")
				if part := partOf(f.path); part != "internal" && importers["internal/"+top] != nil {
					importers["internal/"+top][part] = true
				}
			}
		}
	}
	for dir, parts := range importers {
		if len(parts) < 2 {
			t.Errorf("%s is imported by %d parts of the repository, want 2 or more", dir, len(parts))
		}
	}
}

// partOf returns the part of the repository that a file belongs to: a service, or a folder
// at the top.
func partOf(path string) string {
	top, rest, _ := strings.Cut(filepath.ToSlash(path), "/")
	if top != "services" {
		return top
	}
	service, _, _ := strings.Cut(rest, "/")
	return top + "/" + service
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinksInDocumentsResolve(t *testing.T) {
	found := 0
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, match := range link.FindAllStringSubmatch(readText(t, path), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), match[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", path, match[1])
			}
		}
	})
	if found == 0 {
		t.Error("found no link in any document: looked in the wrong place")
	}
}

// TestFilesNamedInDocumentsExist reads every `path/to/file.go` in backquotes.
func TestFilesNamedInDocumentsExist(t *testing.T) {
	named := regexp.MustCompile("`([a-z0-9_./-]+/[a-z0-9_.-]+\\.(?:go|proto|yaml|sh))`")
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, match := range named.FindAllStringSubmatch(readText(t, path), -1) {
			if _, err := os.Stat(filepath.Join(root, match[1])); err != nil {
				t.Errorf("%s names %s, which is not there", path, match[1])
			}
		}
	})
}

// TestNothingOfAMachine keeps paths of a machine and names of registries out.
func TestNothingOfAMachine(t *testing.T) {
	forbidden := regexp.MustCompile(`/(root|home|work)/[a-z]|proxy\.golang|deb\.debian`)
	walk(t, func(path string) {
		if strings.HasPrefix(path, filepath.Join("e2e", "tidy")) {
			return
		}
		if match := forbidden.FindString(readText(t, path)); match != "" {
			t.Errorf("%s holds %q, which only one machine has", path, match)
		}
	})
}

func TestMakefileIsShort(t *testing.T) {
	const most = 16
	targets := regexp.MustCompile(`(?m)^[a-z][a-z-]*:`).FindAllString(readText(t, "Makefile"), -1)
	if len(targets) > most || len(targets) == 0 {
		t.Errorf("the Makefile has %d targets, want 1 to %d: %v", len(targets), most, targets)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
