package mutants

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Switch is the environment variable that names the active mutant. Without it a process behaves as
// the product does.
const Switch = "PODFALL_MUTANT"

// Plant writes an overlay into dir, in which every mutant is planted, and returns the path
// that go's -overlay wants. root is the repository's.
//
// Each function that a mutant changes begins by asking whether it is to be that one, and
// then has the changed body before its own.
//
// The error names every mutant whose lines the product no longer has.
func Plant(root, dir string, all []Mutant) (string, error) {
	byFile := map[string][]place{}
	for _, m := range all {
		for _, e := range m.Edits {
			byFile[e.File] = append(byFile[e.File], place{m.Name, e})
		}
	}
	replace := map[string]string{}
	var gone []error
	for path, of := range byFile {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			gone = append(gone, fmt.Errorf("%s.mutant: %w", of[0].mutant, err))
			continue
		}
		planted, pkg, err := plant(string(data), of)
		gone = append(gone, err)
		replace[filepath.Join(root, path)] = planted
		replace[filepath.Join(root, filepath.Dir(path), "mutant.go")] = fmt.Sprintf(switchboard, pkg, Switch)
	}
	if err := errors.Join(gone...); err != nil {
		return "", err
	}
	for original, text := range replace {
		to := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(original, root), "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[original] = to
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

const switchboard = `package %s

import "os"

var mutantOfThisProcess = os.Getenv(%q)

func isMutant(name string) bool { return mutantOfThisProcess == name }
`

// place is an edit of a mutant in a file.
type place struct {
	mutant string
	Edit
}

// plant returns the file's text with its mutants, and the name of its package.
func plant(text string, all []place) (planted, pkg string, err error) {
	original, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	if err != nil {
		return "", "", err
	}
	var gone []error
	bodies := map[int]string{} // what is put at the beginning of which body
	for _, p := range all {
		at, body, err := p.body(text, original)
		if err != nil {
			gone = append(gone, fmt.Errorf("%s.mutant: %w", p.mutant, err))
			continue
		}
		begin := fmt.Sprintf("\nif isMutant(%q) {", p.mutant)
		if strings.Contains(bodies[at], begin) {
			gone = append(gone, fmt.Errorf("%s.mutant: it changes one function twice; want one \"in\" with both changes", p.mutant))
		}
		bodies[at] += fmt.Sprintf("%s%s\n}\n", begin, body)
	}
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(bodies))) {
		text = text[:at] + bodies[at] + text[at:]
	}
	return text, original.Name.Name, errors.Join(gone...)
}

// body returns the changed body of the function that holds the edit, and where the product's body
// begins.
func (p place) body(text string, original *ast.File) (at int, body string, err error) {
	at = strings.Index(text, p.Old)
	if found := strings.Count(text, p.Old); found != 1 {
		return 0, "", fmt.Errorf("its old lines are %d times in %s; want once:\n%s", found, p.File, p.Old)
	}
	mutated := text[:at] + p.New + text[at+len(p.Old):]
	changed, err := parser.ParseFile(token.NewFileSet(), "", mutated, parser.SkipObjectResolution)
	if err != nil {
		return 0, "", err
	}
	for i := 0; i < min(len(p.Old), len(p.New)) && p.Old[i] == p.New[i]; i++ {
		at++ // to the first that differs
	}
	before, now := enclosingFunc(original, at), enclosingFunc(changed, at)
	if before == nil || now == nil || before.Name.Name != now.Name.Name {
		return 0, "", fmt.Errorf("want lines of one function's body in %s", p.File)
	}
	body = mutated[now.Body.Lbrace : now.Body.Rbrace-1]
	if now.Type.Results == nil {
		body += "; return"
	}
	return int(before.Body.Lbrace), body, nil
}

// enclosingFunc returns the function whose body holds the offset.
func enclosingFunc(file *ast.File, offset int) *ast.FuncDecl {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Body != nil && int(f.Body.Lbrace) <= offset+1 && offset < int(f.Body.Rbrace) {
			return f
		}
	}
	return nil
}
