package terminal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podfall/podfall/internal/terminal"
)

type reason string

// TestPrintf formats text that would forge lines and columns, move the cursor, or turn the line around.
func TestPrintf(t *testing.T) {
	const forged = "done\nDeleted\tall \x1b[2J\r\u202etxt\u2028\u0085\x07é"
	const line = `done\nDeleted\tall ^[[2J\r\u202etxt\u2028\u0085\aé`
	for want, arg := range map[string]any{
		"<" + line + ">\n":                  forged,
		"<r " + line + ">\n":                reason("r " + forged),
		"<e " + line + ">\n":                errors.New("e " + forged),
		"<[" + line + " b]>\n":              []string{forged, "b"},
		"<{" + line + "}>\n":                struct{ Message string }{forged},
		"<map[a:" + line + "]>\n":           map[string]string{"a": forged},
		"<a\n\tb>\n":                        terminal.Text("a\n\tb"),
		"<1m30s>\n":                         90 * time.Second,
		"<7>\n":                             7,
		"<true>\n":                          true,
		"<plain text, with é and — dash>\n": "plain text, with é and — dash",
		"<<nil>>\n":                         nil,
	} {
		var out bytes.Buffer
		terminal.Printf(&out, "<%v>\n", arg)
		if out.String() != want {
			t.Errorf("got  %q\nwant %q", out.String(), want)
		}
	}
	var out bytes.Buffer
	terminal.Row(&out, forged, "b")
	if want := line + "\tb\n"; out.String() != want {
		t.Errorf("Row: got %q, want %q", out.String(), want)
	}
}

func TestWriterDropsControls(t *testing.T) {
	var out bytes.Buffer
	w := terminal.Writer(&out)
	for _, part := range []string{
		"a\x1b[31mred\x1b[0m\r\n", "tab\there\x00\x07\x7f\n", "C1: \u009b31m\u0085 kept: é \u00a0", "\xc2", "\x9bsplit",
		" \xe2", "\x80", "\xaeback \xff",
	} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", part, n, err)
		}
	}
	want := "a[31mred[0m\ntab\there\nC1: 31m kept: é \u00a0split \\u202eback \xff"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// FuzzPrintable is T13: no control but tab and newline passes, however the text is cut, and text
// without any passes unchanged. A line has neither.
func FuzzPrintable(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !utf8.ValidString(text) {
			return // a terminal in UTF-8 takes no control from a broken sequence
		}
		var out bytes.Buffer
		w := terminal.Writer(&out)
		cut = min(max(cut, 0), len(text))
		for _, part := range []string{text[:cut], text[cut:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		turns := func(r rune) bool {
			return strings.ContainsRune("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069", r)
		}
		want := strings.Map(func(r rune) rune {
			if (r < ' ' && r != '\t' && r != '\n') || (r >= 0x7f && r <= 0x9f) {
				return -1
			}
			return r
		}, text)
		if got := out.String(); strings.ContainsFunc(got, turns) || got != want && !strings.ContainsFunc(text, turns) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		line := terminal.Line(text)
		if out.Reset(); strings.ContainsAny(line, "\n\t") {
			t.Errorf("%q: the line is %q", text, line)
		}
		if _, err := terminal.Writer(&out).Write([]byte(line)); err != nil || out.String() != line {
			t.Errorf("%q: the line %q is written as %q", text, line, out.String())
		}
	})
}
