package client_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/urfave/cli/v2"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/client"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// TestTranscripts runs every testdata/*.txt. A file is paragraphs: a comment that says
// which rule is shown, lines that set the cluster up (see setup_test.go), and command
// lines with what they print. After "$ command":
//
//	> a request that was made
//	| a line of standard output
//	! a line of standard error
//	= the exit code, unless it is 0
//
// Each paragraph has a cluster and a
// bubble of its own, so that time passes at once. Run with -update to write what is
// printed now, and read the difference.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var written []string
		for paragraph := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			name, _, _ := strings.Cut(strings.TrimPrefix(paragraph, "# "), "\n")
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				got := ""
				synctest.Test(t, func(t *testing.T) { got = runParagraph(t, paragraph) })
				written = append(written, got)
				if !*update && got != paragraph {
					t.Errorf("%s: got\n%s\nwant\n%s", file, got, paragraph)
				}
			})
		}
		if *update && len(written) > 0 {
			if err := os.WriteFile(file, []byte(strings.Join(written, "\n\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func runParagraph(t *testing.T, paragraph string) string {
	s := newStage(t)
	var out []string
	for line := range strings.Lines(paragraph) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "", strings.ContainsRune(">|!=", rune(line[0])):
		case line[0] == '#':
			out = append(out, line)
		case line[0] == '$':
			out = append(out, line)
			out = append(out, s.command(line)...)
		default:
			out = append(out, line)
			s.set(line)
		}
	}
	return strings.Join(out, "\n")
}

// stage is a cluster and what the commands run in.
type stage struct {
	*testing.T
	cluster *fakeCluster
	compat  proto.Compat
	// offline makes every attempt to connect fail.
	offline bool
}

func newStage(t *testing.T) *stage {
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	return &stage{T: t, cluster: &fakeCluster{}, compat: compat}
}

// command runs one line of a transcript.
func (s *stage) command(line string) []string {
	line = strings.TrimPrefix(line, "$")
	stdout, stderr, code := s.run(s.Context(), split(line))
	var out []string
	for _, request := range s.cluster.Asked() {
		out = append(out, "> "+request)
	}
	out = append(append(out, prefixed("| ", stdout)...), prefixed("! ", stderr)...)
	if code != 0 {
		out = append(out, fmt.Sprintf("= %d", code))
	}
	return out
}

func prefixed(prefix, text string) []string {
	if text == "" {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		lines = append(lines, strings.TrimRight(prefix+line, " "))
	}
	if !strings.HasSuffix(text, "\n") {
		lines[len(lines)-1] += "⏎" // no newline at the end
	}
	return lines
}

// split splits at blanks outside of single quotes.
func split(line string) []string {
	var words []string
	word, quoted, some := "", false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			if some {
				words = append(words, word)
			}
			word, some = "", false
		default:
			word, some = word+string(r), true
		}
	}
	if some {
		words = append(words, word)
	}
	return words
}

// run is what cmd/podfall does with a command line.
func (s *stage) run(ctx context.Context, args []string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	env := client.Env{
		Stdout: &out,
		Stderr: &errs,
		Compat: s.compat,
		Dial: func(context.Context) (*client.Session, error) {
			if s.offline {
				return nil, errors.New("there is no cluster here")
			}
			return &client.Session{API: s.cluster}, nil
		},
	}
	app := &cli.App{
		Name:           "podfall",
		Writer:         &out,
		ErrWriter:      &errs,
		Flags:          []cli.Flag{&cli.StringFlag{Name: "data"}},
		Commands:       client.Commands(env),
		ExitErrHandler: func(*cli.Context, error) {},
	}
	line, err := client.Arrange(app.Flags, app.Commands, args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{"podfall"}, line...))
	}
	if misused, is := errors.AsType[*client.UsageError](err); is {
		fmt.Fprintf(&errs, "error: %v\n", misused)
		return out.String(), errs.String(), 2
	}
	if exit, ok := errors.AsType[cli.ExitCoder](err); ok {
		return out.String(), errs.String(), exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(&errs, "unexpected:", err)
		return out.String(), errs.String(), 99
	}
	return out.String(), errs.String(), 0
}
