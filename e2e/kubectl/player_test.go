package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a command may take, or a pattern may be waited for: longer
	// than any --timeout that is to be met.
	patience = 4 * time.Minute
	// settling is how long a "?" command may print something else.
	settling = 2 * time.Minute
	// settled is how many times in a row a "?" command prints the same, when transcripts
	// are written anew.
	settled = 15
)

// player runs the lines of one transcript with one program.
type player struct {
	*testing.T
	program   string
	namespace string // "" in a cluster of its own
	env       []string
	tidy      *strings.Replacer
	started   []*background
}

// background is a command that was started with "&".
type background struct {
	command        *exec.Cmd
	stdout, stderr *output
	// isPipe and interrupted tell what its exit code depends on.
	isPipe, interrupted bool
}

func newPlayer(t *testing.T, s *script, program string) *player {
	p := &player{T: t, program: program}
	c, dir := shared, t.TempDir()
	if s.cluster != nil {
		var err error
		if c, err = up(filepath.Join(dir, "cluster"), s.cluster...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(c.logs())
			}
			if err := c.down(); err != nil {
				t.Error(err)
			}
		})
	} else {
		p.namespace = strings.NewReplacer(".", "").Replace(s.name + "-" + program)
	}
	p.env = []string{
		"HOME=" + filepath.Dir(c.data), // kubectl keeps what it has discovered here, by address
		"KUBECONFIG=" + filepath.Join(dir, "kubeconfig"),
		"PODFALL_DATA=" + c.data,
		"PATH=" + filepath.Dir(programs[program]) + ":/usr/bin:/bin",
		"TMPDIR=" + dir,
		"FILES=" + dir, // for what a command writes
		"GOGC=off",     // kubectl is soon gone, and collecting garbage is a third of its time
	}
	p.tidy = strings.NewReplacer(replacements(dir, c.data, p.namespace)...)
	p.settle(c)
	t.Cleanup(p.stopAll)
	return p
}

// replacements are of what is fixed for one player.
func replacements(dir, data, namespace string) []string {
	pairs := []string{dir, "<tmp>", data, "<data>"}
	if namespace != "" {
		pairs = append(pairs, namespace, "<ns>")
	}
	return pairs
}

// settle makes the kubeconfig, and the namespace.
func (p *player) settle(c *cluster) {
	p.Helper()
	config, err := os.ReadFile(c.kubeconfig())
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(p.variable("KUBECONFIG"), config, 0o600); err != nil {
		p.Fatal(err)
	}
	if p.namespace == "" {
		return
	}
	for _, arguments := range [][]string{
		{"config", "set-context", "--current", "--namespace", p.namespace},
		{"create", "namespace", p.namespace},
	} {
		command := exec.CommandContext(p.Context(), programs[stock], arguments...)
		command.Env = p.env
		if out, err := command.CombinedOutput(); err != nil {
			p.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}

func (p *player) variable(name string) string {
	for _, pair := range slices.Backward(p.env) {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			return value
		}
	}
	return ""
}

// run runs a line, and returns what it printed as the lines of a transcript.
func (p *player) run(l *line) []string {
	switch l.kind {
	case '&':
		p.start(l)
		return nil
	case ':':
		p.seen(l.command())
		return nil
	case '^':
		return p.stop(l.command())
	case '?':
		return p.until(l)
	default:
		return p.once(l)
	}
}

// until runs a line again and again, until it prints what is wanted; when transcripts are
// written anew, until it has printed the same for a while.
func (p *player) until(l *line) []string {
	limit := time.NewTimer(settling)
	defer limit.Stop()
	wait := 100 * time.Millisecond // and longer each time: every kubectl is work for the machine
	var before []string
	for same := 0; ; {
		printed := p.once(l)
		if same++; !slices.Equal(printed, before) {
			before, same = printed, 0
		}
		if slices.Equal(printed, l.wanted(p.program)) || *update && same == settled {
			return printed
		}
		select {
		case <-time.After(wait):
			wait = min(wait*3/2, 800*time.Millisecond)
		case <-limit.C:
			return printed
		}
	}
}

func (p *player) once(l *line) []string {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := p.shell(ctx, l, "")
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if ctx.Err() != nil {
		p.Fatalf("%s: did not end in %v; it printed\n%s%s", l.text, patience, &stdout, &stderr)
	}
	return p.lines(stdout.String(), stderr.String(), p.code(err))
}

// shell is a line made ready to run. An interrupt ends the whole of it.
func (p *player) shell(ctx context.Context, l *line, before string) *exec.Cmd {
	command := exec.CommandContext(ctx, "sh", "-c", before+p.said(l.command()))
	command.Dir = "testdata"
	command.Env = append([]string{}, p.env...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Minute // after its end, for who else holds what it writes to
	command.Stdin = strings.NewReader(stdin(l))
	return command
}

func stdin(l *line) string {
	var text strings.Builder
	for _, line := range l.stdin {
		fmt.Fprintln(&text, strings.TrimPrefix(strings.TrimPrefix(line, "<"), " "))
	}
	return text.String()
}

var (
	namespaced = regexp.MustCompile(`kubectl (get|describe|delete|create|apply|patch|logs|exec|events|wait|edit|diff|replace|rollout|scale|set|expose|autoscale|run|label|annotate)\b`)
	elsewhere  = regexp.MustCompile(` (-n|-A|--namespace|--all-namespaces)\b`)
)

// said is a command as it is said to the program: podfall reads no kubeconfig of the user's
// and has to be told the namespace.
func (p *player) said(command string) string {
	command = strings.ReplaceAll(command, "<ns>", p.namespace)
	if p.program == own && p.namespace != "" && !elsewhere.MatchString(command) {
		command = namespaced.ReplaceAllString(command, "kubectl $1 -n "+p.namespace)
	}
	return command
}

func (p *player) code(err error) int {
	p.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		p.Fatal(err)
	}
	return exit.ExitCode()
}

var (
	watches = regexp.MustCompile(`kubectl (get|events|wait)\b`)
	logLine = regexp.MustCompile(`(?m)^[IWE]\d{4} .*\n`)
	watched = regexp.MustCompile(`(?m)^I\d{4} .*watch=true.*200 OK`)
)

// start starts a line in the background. Kubectl's watches are waited for, by what
// kubectl logs, so that nothing that comes later is missed.
func (p *player) start(l *line) {
	b := &background{isPipe: strings.Contains(l.command(), " | "), stdout: newOutput(), stderr: newOutput()}
	watching := watches.MatchString(l.command())
	verbose := *l
	if watching {
		verbose.text = watches.ReplaceAllString(l.text, "$0 -v=6")
	}
	b.command = p.shell(p.Context(), &verbose, "exec ")
	b.command.Stdout, b.command.Stderr = b.stdout, b.stderr
	if err := b.command.Start(); err != nil {
		p.Fatal(err)
	}
	p.started = append(p.started, b)
	if watching {
		p.printed(b.stderr, watched)
	}
}

// printed waits until the output's whole lines have the pattern.
func (p *player) printed(o *output, pattern *regexp.Regexp) bool {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		text := o.String()
		if pattern.MatchString(text[:strings.LastIndexByte(text, '\n')+1]) {
			return true
		}
		select {
		case <-o.more:
		case <-limit.C:
			p.Errorf("%q was not printed in %v, but\n%s", pattern, patience, o)
			return false
		}
	}
}

// last is the background command that was started last.
func (p *player) last() *background {
	if len(p.started) == 0 {
		p.Fatal("nothing was started")
	}
	return p.started[len(p.started)-1]
}

// seen waits until the last background command has printed the pattern.
func (p *player) seen(pattern string) bool {
	return p.printed(p.last().stdout, regexp.MustCompile("(?m)"+pattern))
}

// stop waits until the last background command has printed the pattern, and interrupts
// it. Without a pattern it waits for its end.
func (p *player) stop(pattern string) []string {
	b := p.last()
	if pattern != "" {
		if p.seen(pattern) {
			b.interrupted = true
			_ = syscall.Kill(-b.command.Process.Pid, syscall.SIGINT) // in vain when it has ended
		} else {
			_ = b.command.Cancel()
		}
	}
	p.started = p.started[:len(p.started)-1]
	return p.ended(b)
}

// ended is what a background command has printed, and its exit code. Of a pipe that was
// interrupted it depends on who hears of that first whether the code is the signal's,
// kubectl's, or that of a reader who has read all.
func (p *player) ended(b *background) []string {
	limit := time.AfterFunc(patience, func() { _ = b.command.Cancel() })
	defer limit.Stop()
	code := p.code(b.command.Wait())
	if code == -1 || code == 130 || code == 0 && b.interrupted && b.isPipe {
		code = 1
	}
	return p.lines(b.stdout.String(), logLine.ReplaceAllString(b.stderr.String(), ""), code)
}

func (p *player) stopAll() {
	for _, b := range p.started {
		_ = b.command.Cancel() // in vain when it has ended
		_ = b.command.Wait()
	}
}

// lines is output as the lines of a transcript.
func (p *player) lines(stdout, stderr string, code int) []string {
	var lines []string
	lines = append(lines, prefixed("|", p.tidied(stdout))...)
	lines = append(lines, prefixed("!", p.tidied(stderr))...)
	if code != 0 {
		lines = append(lines, fmt.Sprintf("= %d", code))
	}
	return lines
}

func prefixed(mark, text string) []string {
	if text == "" {
		return nil
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		lines = append(lines, strings.TrimRight(mark+" "+line, " "))
	}
	if !strings.HasSuffix(text, "\n") {
		lines[len(lines)-1] += "⏎" // no newline at the end
	}
	return lines
}

// output is what a running command has printed so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newOutput() *output { return &output{more: make(chan struct{}, 1)} }

var _ io.Writer = &output{}

// Write implements [io.Writer].
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() {
		select {
		case o.more <- struct{}{}:
		default:
		}
	}()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
