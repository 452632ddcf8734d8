// Package mutants plants bugs: each is a small edit of the product and the guarantee that it
// breaks, and each must be caught by the checker of that guarantee. A mutant that nobody
// catches is a workload or a check that is missing.
//
//	testdata/*.mutant  the bugs, each as the lines that it changes
//	testdata/upstream  those that etcd, Kubernetes, containerd and NATS have had: TestHunt has
//	                   the simulator find them, and makes each a short story
//	mutants.go         reads them
//	plant.go           plants all of them at once, each behind a switch of its own
//
// The product's own files stay as they are: the planted ones are an overlay, with which a
// test binary is built once and then run for each mutant.
package mutants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is one planted bug.
type Mutant struct {
	// Name is the name of the mutant's file, for example K3-early or A8+D3-longer.
	Name string
	// Guarantees are the ids of the violated guarantees; the name begins with them.
	Guarantees []string
	// What describes the mutant in a sentence.
	What string
	// Suite names the tests that catch the mutant; see suites. Args are its arguments: the seed or
	// the scenario that meets the bug.
	Suite string
	Args  []string
	// Edits are the changes of the product; most mutants have one.
	Edits []Edit
}

// Edit is a change within one function.
type Edit struct {
	// File is the product's file, from the root. Old occurs in it once, and New replaces it.
	File, Old, New string
}

// Read reads every mutant in a directory, by name.
//
// A mutant's file says what it does, which suite catches it, and where it is; then the
// lines as a diff has them, unchanged ones among them. One that changes several functions
// has an "in" for each:
//
//	SIGKILL comes a second early.
//	caught by lives -seeds=3
//	in services/runtime/stop_plan.go
//	-	killAt := s.began.Add(s.timeout)
//	+	killAt := s.began.Add(s.timeout - time.Second)
func Read(dir string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.mutant"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: want files called *.mutant", dir)
	}
	slices.Sort(paths)
	all := make([]Mutant, 0, len(paths))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(path), ".mutant"), string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func parse(name, text string) (Mutant, error) {
	broken, _, _ := strings.Cut(name, "-")
	m := Mutant{Name: name, Guarantees: strings.Split(broken, "+")}
	for line := range strings.Lines(text) {
		file, another := strings.CutPrefix(line, "in ")
		caught, suite := strings.CutPrefix(line, "caught by ")
		switch words := strings.Fields(caught); {
		case m.What == "":
			m.What = strings.TrimSpace(line)
		case m.Suite == "" && suite && len(words) > 0:
			m.Suite, m.Args = words[0], words[1:]
		case another:
			m.Edits = append(m.Edits, Edit{File: strings.TrimSpace(file)})
		case len(m.Edits) == 0 || !m.Edits[len(m.Edits)-1].add(line):
			return m, fmt.Errorf("want \"caught by …\", \"in …\", or a line that begins with a space, - or +, not %q", line)
		}
	}
	for _, e := range m.Edits {
		if e.Old == "" || e.Old == e.New {
			return m, fmt.Errorf("want lines that change in %s", e.File)
		}
	}
	if len(m.Edits) == 0 {
		return m, errors.New("want what the mutant does, \"caught by …\", \"in …\" and the lines that change")
	}
	return m, nil
}

// add adds one line of the change; false if it is no such line.
func (e *Edit) add(line string) bool {
	switch line[0] {
	case '-':
		e.Old += line[1:]
	case '+':
		e.New += line[1:]
	case ' ':
		e.Old += line[1:]
		e.New += line[1:]
	default:
		return false
	}
	return true
}
