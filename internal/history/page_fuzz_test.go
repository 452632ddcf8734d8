package history

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzReadPage: for any file content, the pages are the files' whole lines in order. No page has
// more bytes than requested unless it is a single line. An invented position is refused or gives a
// page.
func FuzzReadPage(f *testing.F) {
	f.Fuzz(func(t *testing.T, older, newer []byte, most uint16, file string, offset int64) {
		dir := t.TempDir()
		path := filepath.Join(dir, "kubelet-n"+extension)
		for name, text := range map[string][]byte{path + ".1": older, path: newer} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := wholeLines(older) + wholeLines(newer)
		first := firstLine(older)
		if first == firstLine(newer) { // no two files of a history begin with the same line
			return
		}
		var got strings.Builder
		at := Position{}
		for range strings.Count(want, "\n") + 2 {
			page, err := ReadPage(dir, "kubelet/n", at, int(most))
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Lines) > int(most) && strings.Count(page.Lines, "\n") > 1 {
				t.Errorf("a page of %d bytes, want at most %d: %q", len(page.Lines), most, page.Lines)
			}
			got.WriteString(page.Lines)
			events, torn := page.Events()
			if lines := strings.Count(page.Lines, "\n"); len(events)+torn != lines {
				t.Errorf("%d events and %d torn of %d lines", len(events), torn, lines)
			}
			if at = page.Next; !page.More {
				break
			}
		}
		if got.String() != want {
			t.Errorf("read %q, want %q", got.String(), want)
		}
		if page, err := ReadPage(dir, "kubelet/n", Position{File: file, Offset: offset}, int(most)); err == nil && !strings.Contains(want, page.Lines) {
			t.Errorf("at %q %d: %q, which is not in %q", file, offset, page.Lines, want)
		}
		if page, err := ReadPage(dir, "kubelet/n", Position{File: Digest([]byte(first)), Offset: offset}, int(most)); err == nil && offset < 0 && first != "" {
			t.Errorf("at %d: %q", offset, page.Lines)
		}
	})
}

func wholeLines(text []byte) string { return string(text[:bytes.LastIndexByte(text, '\n')+1]) }

func firstLine(text []byte) string {
	line, _, found := bytes.Cut(text, []byte("\n"))
	if !found {
		return ""
	}
	return string(line) + "\n"
}
