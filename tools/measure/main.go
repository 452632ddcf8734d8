// Program measure prints figures about the style of Go code: how long functions are, how wide
// structs are, how many names are one word, and how comments begin. It reads syntax alone, and
// passes over tests, testdata, vendored and generated files.
//
//	go run ./measure -walk ../docs/deletion.md podfall=.. raft=DIR…
//
// One row is one directory tree, under its name. With -walk it also sums the lines of the files that a document
// names in backquotes, by paths from the document's repository, which is the first tree.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	walk := flag.String("walk", "", "document whose files are one walk through the first tree")
	flag.Parse()
	if err := run(os.Stdout, flag.Args(), *walk); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// run prints a row for each tree.
func run(out io.Writer, trees []string, walk string) error {
	if len(trees) == 0 {
		return fmt.Errorf("want one directory or more")
	}
	fmt.Fprintln(out, "| tree | files | lines | functions: median, 90%, 99%, longest | structs, flattened: median, 99%, widest | one-word functions, methods | documented, begin with the name, then a verb |")
	fmt.Fprintln(out, "|---|--:|--:|---|---|---|---|")
	for _, tree := range trees {
		name, directory := nameOf(tree)
		t, err := readTree(directory)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, t.row(name))
	}
	if walk == "" {
		return nil
	}
	_, root := nameOf(trees[0])
	files, lines, err := measureWalk(root, walk)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s names %d files of %d lines.\n", filepath.Base(walk), files, lines)
	return nil
}

// nameOf splits NAME=DIR; a directory without a name is called by its path.
func nameOf(argument string) (name, directory string) {
	if name, directory, found := strings.Cut(argument, "="); found {
		return name, directory
	}
	return argument, argument
}

// measureWalk counts the Go files that a document names, and their lines.
func measureWalk(root, document string) (files, lines int, err error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return 0, 0, err
	}
	seen := map[string]bool{}
	for _, match := range regexp.MustCompile("`([a-z0-9_./-]+\\.go)`").FindAllSubmatch(text, -1) {
		path := string(match[1])
		if seen[path] {
			continue
		}
		seen[path] = true
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return 0, 0, err
		}
		lines += strings.Count(string(source), "\n")
	}
	return len(seen), lines, nil
}

// row is a tree's figures as a line of a table.
func (t *tree) row(name string) string {
	slices.Sort(t.functions)
	slices.Sort(t.structs)
	return fmt.Sprintf("| %s | %d | %d | %d, %d, %d, %d | %d, %d, %d | %s, %s | %s, %s, %s |", name, t.files, t.lines,
		at(t.functions, 50), at(t.functions, 90), at(t.functions, 99), at(t.functions, 100),
		at(t.structs, 50), at(t.structs, 99), at(t.structs, 100),
		share(t.oneWord[0], t.named[0]), share(t.oneWord[1], t.named[1]),
		share(t.documented, t.named[0]+t.named[1]), share(t.beginsWithName, t.documented), share(t.thenVerb, t.documented))
}

// at returns the percentile of sorted numbers; 100 is the greatest.
func at(sorted []int, percent int) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}

// share returns a part of a whole in percent.
func share(part, whole int) string {
	if whole == 0 {
		return "–"
	}
	return fmt.Sprintf("%d %%", (100*part+whole/2)/whole)
}
