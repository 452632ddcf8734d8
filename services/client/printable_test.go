package client

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintableDropsControls(t *testing.T) {
	var out bytes.Buffer
	w := printable(&out)
	for _, part := range []string{"a\x1b[31mred\x1b[0m\r\n", "tab\there\x00\x07\x7f\n", "C1: \u009b31m\u0085 kept: é \u00a0", "\xc2", "\x9bsplit"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", part, n, err)
		}
	}
	want := "a[31mred[0m\ntab\there\nC1: 31m kept: é \u00a0split"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// FuzzPrintable is T13: no control but tab and newline passes, however the text is cut,
// and text without any passes unchanged.
func FuzzPrintable(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !utf8.ValidString(text) {
			return // a terminal in UTF-8 takes no control from a broken sequence
		}
		var out bytes.Buffer
		w := printable(&out)
		cut = min(max(cut, 0), len(text))
		for _, part := range []string{text[:cut], text[cut:]} {
			if _, err := w.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		want := strings.Map(func(r rune) rune {
			if (r < ' ' && r != '\t' && r != '\n') || (r >= 0x7f && r <= 0x9f) {
				return -1
			}
			return r
		}, text)
		if out.String() != want {
			t.Errorf("%q: got %q, want %q", text, out.String(), want)
		}
	})
}
