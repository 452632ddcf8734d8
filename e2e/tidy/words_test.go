package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// retiredWords returns the names that functions, methods, types and files may not have, in any
// case. docs/glossary.md has the words to use instead.
func retiredWords() []string {
	return []string{
		"came", "told", "settled", "worded", "truly", "wholly", "suffer", "survive", "prod", "ordeal", "deed", "climb",
		"rung", "stand", "forge", "fence", "ghost", "valve", "station", "speaker", "witness", "movement", "face",
	}
}

// isRetired reports whether the whole name is a retired word.
func isRetired(name string) bool { return slices.Contains(retiredWords(), strings.ToLower(name)) }

// TestNamesUseGlossaryWords checks that no declared function, method, type or file has a retired
// word as its name. Deprecated aliases stay, because users of an earlier release may have the name.
func TestNamesUseGlossaryWords(t *testing.T) {
	for _, f := range sources(t) {
		if ast.IsGenerated(f.syntax) {
			continue
		}
		base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(f.path), ".go"), "_test")
		if isRetired(base) {
			t.Errorf("%s: the file's name is a retired word; docs/glossary.md has another", f.path)
		}
		for _, name := range retiredNames(f.syntax) {
			t.Errorf("%s: %q is a retired word; docs/glossary.md has another", f.set.Position(name.Pos()), name.Name)
		}
	}
}

// retiredNames returns the declared names that are retired words.
func retiredNames(file *ast.File) []*ast.Ident {
	var found []*ast.Ident
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if isRetired(n.Name.Name) && !isDeprecated(n.Doc) {
				found = append(found, n.Name)
			}
		case *ast.GenDecl:
			if isDeprecated(n.Doc) {
				return false
			}
		case *ast.TypeSpec:
			if isRetired(n.Name.Name) && !isDeprecated(n.Doc) {
				found = append(found, n.Name)
			}
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				for _, name := range method.Names {
					if isRetired(name.Name) {
						found = append(found, name)
					}
				}
			}
		}
		return true
	})
	return found
}

// isDeprecated reports whether a comment has a paragraph that begins with "Deprecated:".
func isDeprecated(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for paragraph := range strings.SplitSeq(doc.Text(), "\n\n") {
		if strings.HasPrefix(paragraph, "Deprecated:") {
			return true
		}
	}
	return false
}

// TestRetiredNames checks what counts as a declared name.
func TestRetiredNames(t *testing.T) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "p.go", `package p
type Valve struct{ told int }
func (v Valve) Told() { settled := 1; _ = settled }
func came(face int) {}
type source interface{ Station() }
// Deprecated: use Gate.
type Ghost = Valve
func toldAll() {}
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range retiredNames(syntax) {
		names = append(names, name.Name)
	}
	if got, want := fmt.Sprint(names), "[Valve Told came Station]"; got != want {
		t.Errorf("retired names %s, want %s", got, want)
	}
}
