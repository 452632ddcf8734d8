// Package stories tells what a cluster does, in files that need no Go to read. Each
// file of testdata is a sequence of commands, and after each ---- what happened until
// the command was done: the virtual time since the first DELETE, who, and what.
//
// `go test ./e2e/stories -update` writes them again; the difference is reviewed like
// code.
package stories

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "write the files with what happens now")

// story is one file: the commands, each with what followed.
type story struct {
	head  string // the comment that opens the file
	steps []step
}

type step struct {
	command  string
	expected string
}

func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("stories: %v, found %d", err, len(paths))
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := parseStory(t, string(data))
			var got story
			synctest.Test(t, func(t *testing.T) { got = runStory(t, want) })
			if *update {
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for i, step := range got.steps {
				if step.expected != want.steps[i].expected {
					t.Errorf("after %q\ngot:\n%swant:\n%s", step.command, step.expected, want.steps[i].expected)
				}
			}
		})
	}
}

// runStory runs a story's commands and records what happens.
func runStory(t *testing.T, want story) story {
	got := story{head: want.head}
	stage := &player{t: t}
	defer stage.close()
	for _, step := range want.steps {
		step.expected = stage.runCommand(step.command)
		got.steps = append(got.steps, step)
	}
	return got
}

// parseStory parses a file: a comment, then commands. Each command ends at a line of four dashes;
// what followed it ends at an empty line.
func parseStory(t *testing.T, text string) story {
	t.Helper()
	var s story
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(block, "#") {
			s.head += block + "\n\n"
			continue
		}
		command, expected, found := strings.Cut(block+"\n", "\n----\n")
		if !found {
			t.Fatalf("no ---- after %q", block)
		}
		s.steps = append(s.steps, step{command: command, expected: expected})
	}
	return s
}

func (s story) String() string {
	var b strings.Builder
	b.WriteString(s.head)
	for i, step := range s.steps {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n----\n%s", step.command, step.expected)
	}
	return b.String()
}

// formatSeconds prints a virtual time exactly and briefly: 12.004s, 0s.
func formatSeconds(d time.Duration) string {
	text := strings.TrimRight(fmt.Sprintf("%.6f", d.Seconds()), "0")
	return strings.TrimSuffix(text, ".") + "s"
}
