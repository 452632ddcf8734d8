package logfile_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/services/runtime/procengine/logfile"
)

func write(t *testing.T, dir *os.Root, limits logfile.Limits, stdout string) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log, err := logfile.Open(dir, limits, func() time.Time {
		at = at.Add(time.Second)
		return at
	})
	if err != nil {
		t.Fatal(err)
	}
	log.Copy("stdout", strings.NewReader(stdout))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) *os.Root {
	t.Helper()
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

func TestRead(t *testing.T) {
	dir := open(t)
	long := strings.Repeat("x", 40_000)
	write(t, dir, logfile.Limits{}, "one\n\ntwo\n"+long+"\nlast without an end")
	for name, test := range map[string]struct {
		query logfile.Query
		want  string
	}{
		"all":        {want: "one\n\ntwo\n" + long + "\nlast without an end\n"},
		"tail":       {query: logfile.Query{Tail: 2}, want: long + "\nlast without an end\n"},
		"tail of 1":  {query: logfile.Query{Tail: 1}, want: "last without an end\n"},
		"tail long":  {query: logfile.Query{Tail: 99}, want: "one\n\ntwo\n" + long + "\nlast without an end\n"},
		"since":      {query: logfile.Query{Since: time.Date(2026, 1, 2, 3, 4, 12, 0, time.UTC)}, want: "last without an end\n"},
		"since late": {query: logfile.Query{Since: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"timestamps": {
			query: logfile.Query{Timestamps: true, Tail: 2},
			want:  "2026-01-02T03:04:09Z " + long + "\n2026-01-02T03:04:12Z last without an end\n",
		},
	} {
		got, err := logfile.Read(dir, test.query)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
	}
}

// TestRotation: however much a program writes, its log keeps to its limits, and has the last lines.
func TestRotation(t *testing.T) {
	for _, files := range []int{1, 2, 5} {
		dir := open(t)
		var all strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&all, "line %04d\n", i)
		}
		write(t, dir, logfile.Limits{Size: 1000, Files: files}, all.String())
		entries, err := os.ReadDir(dir.Name())
		if err != nil {
			t.Fatal(err)
		}
		size := int64(0)
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		if len(entries) != files || size > int64(files)*1000 || size < int64(files-1)*900 {
			t.Errorf("%d files of %d bytes in all, want %d of at most 1000", len(entries), size, files)
		}
		got, err := logfile.Read(dir, logfile.Query{})
		if err != nil || !strings.HasSuffix(all.String(), string(got)) || len(got) == 0 {
			t.Errorf("%d files: the log is not the end of what was written: %q, %v", files, got, err)
		}
	}
}

// TestRecordsThatWereCutOff: a program that closes its output, or a full disk, loses lines and
// nothing else.
func TestRecordsThatWereCutOff(t *testing.T) {
	dir := open(t)
	write(t, dir, logfile.Limits{}, "one\n")
	file, err := dir.OpenFile("current.log", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(file, "2026-01-02T03:04:06Z stdo"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := logfile.Read(dir, logfile.Query{}); err != nil || string(got) != "one\n" {
		t.Errorf("the log is %q, %v", got, err)
	}
}

// TestReadTheEndAlone: only the end of a long log is read if that suffices.
func TestReadTheEndAlone(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const record = "2026-01-02T15:04:05Z stdout F %s\n"
	for name, lines := range map[string][]string{"2.log": {"a", "b"}, "1.log": {"c", "d"}, "current.log": {"e", "f"}} {
		var text strings.Builder
		for _, line := range lines {
			fmt.Fprintf(&text, record, line)
		}
		if err := dir.WriteFile(name, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	size := len(fmt.Sprintf(record, "a"))
	for most, want := range map[int]string{
		0: "a\nb\nc\nd\ne\nf\n", size: "f\n", 2*size - 1: "f\n", 2 * size: "e\nf\n", 3 * size: "d\ne\nf\n", 100 * size: "a\nb\nc\nd\ne\nf\n", 1: "",
	} {
		got, err := logfile.Read(dir, logfile.Query{MaxBytes: most})
		if err != nil || string(got) != want {
			t.Errorf("the last %d bytes: %q, %v; want %q", most, got, err, want)
		}
	}
}
