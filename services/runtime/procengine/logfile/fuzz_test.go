package logfile_test

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/services/runtime/procengine/logfile"
)

// FuzzRead: any log files can be read. The result has at most the requested lines and bytes, each
// line with its time.
func FuzzRead(f *testing.F) {
	f.Fuzz(func(t *testing.T, older, newer []byte, since, tail int64, most int) {
		dir := open(t)
		for name, text := range map[string][]byte{"1.log": older, "current.log": newer} {
			if err := dir.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		query := logfile.Query{Tail: tail, MaxBytes: most, Timestamps: true}
		if since != 0 {
			query.Since = time.Unix(since, 0)
		}
		got, err := logfile.Read(dir, query)
		if err != nil {
			t.Fatal(err)
		}
		if most > 0 && len(got) > most || len(got) > len(older)+len(newer) {
			t.Errorf("%d bytes of a log of %d and %d, want at most %d", len(got), len(older), len(newer), most)
		}
		if lines := int64(bytes.Count(got, []byte("\n"))); tail > 0 && lines > tail {
			t.Errorf("%d lines, want at most %d", lines, tail)
		}
		if most > 0 || tail != 0 {
			return
		}
		for line := range bytes.Lines(got) {
			stamp, _, _ := bytes.Cut(line, []byte(" "))
			if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err != nil || since != 0 && at.Before(query.Since) {
				t.Errorf("%q is older than %s (%v)", line, query.Since, err)
			}
		}
	})
}

// FuzzCopy: Read returns what Copy has written, as far back as the files reach, and the files keep
// to their size limit.
func FuzzCopy(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte, size uint16, files uint8) {
		dir := open(t)
		limits := logfile.Limits{Size: int64(size), Files: int(files % 8)}
		write(t, dir, limits, string(text))
		got, err := logfile.Read(dir, logfile.Query{})
		if err != nil {
			t.Fatal(err)
		}
		want := string(text)
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if !strings.HasSuffix(want, string(got)) || size == 0 && want != string(got) {
			t.Errorf("wrote %q, read %q", want, got)
		}
		entries, err := fs.ReadDir(dir.FS(), ".")
		if err != nil || limits.Files > 0 && len(entries) > limits.Files {
			t.Errorf("%d files, want %d (%v)", len(entries), limits.Files, err)
		}
		const longest = 17 << 10 // a part of a line, its time and its stream
		for _, entry := range entries {
			if info, err := entry.Info(); err != nil || size > 0 && info.Size() > max(limits.Size, longest) {
				t.Errorf("%s has %d bytes, want %d (%v)", entry.Name(), info.Size(), limits.Size, err)
			}
		}
	})
}
