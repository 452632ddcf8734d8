package tidy

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// minInputs is how many inputs a corpus has at least: both sides of a parser, and its edges.
const minInputs = 5

// TestEveryFuzzTargetHasACorpus looks for the inputs of each target in testdata/fuzz of its
// package, and for directories there that are no target's.
func TestEveryFuzzTargetHasACorpus(t *testing.T) {
	wanted := map[string]bool{}
	for _, f := range sources(t) {
		for _, declared := range f.syntax.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || !isTest(f.path) || function.Recv != nil || !strings.HasPrefix(function.Name.Name, "Fuzz") {
				continue
			}
			corpus := filepath.Join(filepath.Dir(f.path), "testdata", "fuzz", function.Name.Name)
			wanted[corpus] = true
			inputs, err := os.ReadDir(filepath.Join(root, corpus))
			if err != nil || len(inputs) < minInputs {
				t.Errorf("%s: %s has %d inputs in %s, want %d or more", f.path, function.Name.Name, len(inputs), corpus, minInputs)
			}
		}
	}
	walk(t, func(path string) {
		corpus := filepath.Dir(path)
		if strings.HasSuffix(filepath.Dir(corpus), filepath.Join("testdata", "fuzz")) && !wanted[corpus] {
			t.Errorf("%s is an input of no target", path)
		}
	})
}
