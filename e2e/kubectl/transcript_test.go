package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The programs that a transcript may be played with.
const (
	// stock is the kubectl that is built from upstream's module.
	stock = "kubectl"
	// own is podfall, which runs the same code against a gateway of its own.
	own = "podfall"
	// installed is a kubectl on PATH of an older minor release, when there is one.
	installed = "1.32"
)

// TestTranscripts plays every testdata/*.txt, in a namespace of its own.
//
// A file begins with "#" lines that say what it shows; of these
//
//	#! podfall      it is played with podfall too, which must print the same
//	#! 1.32         and with the kubectl on PATH
//	#! cluster ...  it has a cluster of its own: podfall up's flags follow
//
// Then there are commands, each a line of shell:
//
//	$ command      run it
//	? command      run it until it prints what is written here, for at most two minutes
//	& command      start it and go on
//	: pattern      wait until the one that was started last has printed the pattern
//	^ pattern      wait until the one that was started last has printed the pattern, and interrupt it
//
// and after each what it is given and what is expected of it:
//
//	< a line of standard input
//	| a line of standard output
//	! a line of standard error
//	= the exit code, unless it is 0
//	~ name         what follows is what the program of that name prints instead
//
// What differs from run to run is replaced (see tidy_test.go). Run with -update to write
// what is printed now, and read the difference.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s, err := parse(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, program := range s.programs {
				if _, ok := programs[program]; !ok {
					continue
				}
				t.Run(program, func(t *testing.T) {
					if !*update {
						t.Parallel()
					}
					play(t, s, program)
				})
			}
			if *update {
				if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// script is a transcript.
type script struct {
	name     string
	programs []string
	// cluster is the flags of the cluster that it wants to itself; nil when it shares one.
	cluster []string
	lines   []*line
}

// line is a line of a transcript with what belongs to it.
type line struct {
	// text is the line as written. Kind is its first byte when it is a command, else 0.
	text string
	kind byte
	// stdin is as written, with its marks.
	stdin []string
	// want is what each program prints. One that is not here prints what stock prints.
	want map[string][]string
}

func (l *line) command() string { return strings.TrimSpace(l.text[1:]) }

// wanted is what a program is to print.
func (l *line) wanted(program string) []string {
	if want, ok := l.want[program]; ok {
		return want
	}
	return l.want[stock]
}

// learn takes what a program has printed for what it is to print.
func (l *line) learn(program string, printed []string) {
	if program != stock && slices.Equal(printed, l.want[stock]) {
		delete(l.want, program)
		return
	}
	l.want[program] = printed
}

func parse(file string) (*script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &script{name: strings.TrimSuffix(filepath.Base(file), ".txt"), programs: []string{stock}}
	speaker := stock
	for text := range strings.Lines(string(text)) {
		text = strings.TrimSuffix(text, "\n")
		last := s.last()
		switch {
		case text == "" || text[0] == '#':
			s.direct(text)
			s.lines = append(s.lines, &line{text: text})
		case strings.ContainsRune("$?&:^", rune(text[0])):
			s.lines = append(s.lines, &line{text: text, kind: text[0], want: map[string][]string{}})
			speaker = stock
		case last == nil || last.kind == 0:
			return nil, fmt.Errorf("%s: %q follows no command", file, text)
		case text[0] == '<':
			last.stdin = append(last.stdin, text)
		case text[0] == '~':
			speaker = strings.TrimSpace(text[1:])
			last.want[speaker] = []string{}
		case strings.ContainsRune("|!=", rune(text[0])):
			last.want[speaker] = append(last.want[speaker], text)
		default:
			return nil, fmt.Errorf("%s: %q is no line of a transcript", file, text)
		}
	}
	return s, nil
}

func (s *script) last() *line {
	if len(s.lines) == 0 {
		return nil
	}
	return s.lines[len(s.lines)-1]
}

// direct reads a "#!" line.
func (s *script) direct(text string) {
	words := strings.Fields(strings.TrimPrefix(text, "#!"))
	switch {
	case !strings.HasPrefix(text, "#!") || len(words) == 0:
	case words[0] == "cluster":
		s.cluster = append([]string{}, words[1:]...)
	default:
		s.programs = append(s.programs, words...)
	}
}

// String is the file.
func (s *script) String() string {
	var out strings.Builder
	for _, l := range s.lines {
		for _, text := range append(append([]string{l.text}, l.stdin...), l.want[stock]...) {
			fmt.Fprintln(&out, text)
		}
		for _, program := range []string{own, installed} {
			if want, ok := l.want[program]; ok {
				fmt.Fprintln(&out, "~", program)
				for _, text := range want {
					fmt.Fprintln(&out, text)
				}
			}
		}
	}
	return out.String()
}

// play runs the commands of a transcript in turn.
func play(t *testing.T, s *script, program string) {
	p := newPlayer(t, s, program)
	for _, l := range s.lines {
		if l.kind == 0 {
			continue
		}
		printed := p.run(l)
		if *update {
			l.learn(program, printed)
			continue
		}
		if difference := cmp.Diff(l.wanted(program), printed); difference != "" {
			t.Errorf("%s\nwanted (-), printed (+):\n%s", l.text, difference)
		}
	}
}
