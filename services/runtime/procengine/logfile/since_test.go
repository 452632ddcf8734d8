package logfile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/services/runtime/procengine/logfile"
)

// TestSince: a reader that continues after its last line gets every line once, whatever is rotated
// meanwhile and however little it may read at a time.
func TestSince(t *testing.T) {
	dir := open(t)
	var all strings.Builder
	const count = 20_000
	for i := range count {
		fmt.Fprintf(&all, "line %05d %s\n", i, strings.Repeat("x", i%97))
	}
	write(t, dir, logfile.Limits{Size: 500_000, Files: 20}, all.String())
	first := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	for _, number := range []int{0, 1, count / 3, count / 2, count - 2, count - 1} {
		got, err := logfile.Read(dir, logfile.Query{Since: first.Add(time.Duration(number) * time.Second)})
		want := fmt.Sprintf("line %05d ", number)
		if lines := strings.Count(string(got), "\n"); err != nil || !strings.HasPrefix(string(got), want) || lines != count-number {
			t.Errorf("since line %d: %d lines that begin with %.20q, %v", number, lines, got, err)
		}
	}
	if got, err := logfile.Read(dir, logfile.Query{Since: first.Add(count * time.Second)}); err != nil || len(got) > 0 {
		t.Errorf("after the last line: %q, %v", got, err)
	}
	at, read := first, 0
	for {
		got, err := logfile.Read(dir, logfile.Query{Since: at, MaxBytes: 100_000})
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(got), "\n")
		if !strings.HasPrefix(string(got), fmt.Sprintf("line %05d ", read)) {
			t.Fatalf("after %d lines: %.40q", read, got)
		}
		if read += lines; read == count {
			break
		}
		at = at.Add(time.Duration(lines) * time.Second)
	}
}

// TestNextTime: record times are unique, whatever the clock does.
func TestNextTime(t *testing.T) {
	dir := open(t)
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	steps := []time.Duration{0, 0, -time.Hour, 0, time.Second}
	log, err := logfile.Open(dir, logfile.Limits{}, func() time.Time {
		next := noon.Add(steps[0])
		steps = steps[1:]
		return next
	})
	if err != nil {
		t.Fatal(err)
	}
	log.Copy("stdout", strings.NewReader("a\nb\nc\nd\ne\n"))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := logfile.Read(dir, logfile.Query{Timestamps: true})
	want := "2026-01-02T12:00:00Z a\n2026-01-02T12:00:00.000000001Z b\n2026-01-02T12:00:00.000000002Z c\n" +
		"2026-01-02T12:00:00.000000003Z d\n2026-01-02T12:00:01Z e\n"
	if err != nil || string(got) != want {
		t.Errorf("the log is %q, %v, want %q", got, err, want)
	}
}

// TestRotationAfterOneThatFailed: an interrupted rotation left a gap. The next one fills it, and
// loses no older file.
func TestRotationAfterOneThatFailed(t *testing.T) {
	dir := open(t)
	const record = "2026-01-02T03:04:05Z stdout F %s\n"
	for name, text := range map[string]string{"4.log": "a", "3.log": "b", "2.log": "c", "current.log": "d"} {
		if err := os.WriteFile(dir.Name()+"/"+name, fmt.Appendf(nil, record, text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, logfile.Limits{Size: 40, Files: 5}, "e\n")
	got, err := logfile.Read(dir, logfile.Query{})
	if err != nil || string(got) != "a\nb\nc\nd\ne\n" {
		t.Errorf("the log is %q, %v", got, err)
	}
}
