package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// tree is what was counted in a directory and below.
type tree struct {
	files, lines int
	functions    []int  // lines of each, from func to the closing brace
	structs      []int  // fields of each, flattened
	named        [2]int // functions, methods
	oneWord      [2]int // of these, whose names have no inner capital
	documented   int
	// beginsWithName counts comments whose first word is the function's name, thenVerb those
	// of them whose second word is a verb other than "is", "are", "was" and "has".
	beginsWithName, thenVerb int
}

// readTree counts all packages below a directory.
func readTree(root string) (*tree, error) {
	t := &tree{}
	packages := map[string][]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); slices.Contains([]string{".git", "bin", "vendor", "testdata", "third_party"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		if ast.IsGenerated(file) {
			return nil
		}
		t.files++
		t.lines += set.File(file.Pos()).LineCount()
		packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if t.files == 0 {
		return nil, fmt.Errorf("%s holds no Go file", root)
	}
	for _, files := range packages {
		t.countPackage(set, files)
	}
	return t, nil
}

// countPackage counts the functions and structs of one package.
func (t *tree) countPackage(set *token.FileSet, files []*ast.File) {
	structs := map[string]*ast.StructType{}
	for _, file := range files {
		for _, declared := range file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				t.countFunction(set, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						if body, ok := s.Type.(*ast.StructType); ok {
							structs[s.Name.Name] = body
						}
					}
				}
			}
		}
	}
	for name, body := range structs {
		t.structs = append(t.structs, width(body, structs, []string{name}))
	}
}

// width counts the fields of a struct. A field that is itself a struct of the package, or one
// without a name, counts as its fields.
func width(body *ast.StructType, structs map[string]*ast.StructType, inside []string) int {
	fields := 0
	for _, field := range body.Fields.List {
		each := 1
		switch f := field.Type.(type) {
		case *ast.StructType:
			each = width(f, structs, inside)
		case *ast.Ident:
			if inner := structs[f.Name]; inner != nil && !slices.Contains(inside, f.Name) {
				each = width(inner, structs, append(slices.Clone(inside), f.Name))
			}
		}
		fields += each * max(len(field.Names), 1)
	}
	return fields
}

// countFunction counts a function's lines, name and comment.
func (t *tree) countFunction(set *token.FileSet, function *ast.FuncDecl) {
	t.functions = append(t.functions, set.Position(function.End()).Line-set.Position(function.Pos()).Line+1)
	kind := 0
	if function.Recv != nil {
		kind = 1
	}
	t.named[kind]++
	name := function.Name.Name
	if !strings.ContainsFunc(name[1:], unicode.IsUpper) {
		t.oneWord[kind]++
	}
	if function.Doc == nil {
		return
	}
	t.documented++
	words := strings.Fields(function.Doc.Text())
	if len(words) < 2 || words[0] != name {
		return
	}
	t.beginsWithName++
	if second := words[1]; strings.HasSuffix(second, "s") && !slices.Contains([]string{"is", "was", "has", "this"}, second) {
		t.thenVerb++
	}
}
