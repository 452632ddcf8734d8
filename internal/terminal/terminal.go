// Package terminal writes output for users. Text from the cluster may contain control characters,
// line breaks and bidirectional formatting. [Printf] escapes them, so that no object can move the
// cursor, forge a line of output, or reverse a line. [Writer] is a second line of defence, for text
// that other packages format.
package terminal

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Text is text that podfall formatted itself. Printf keeps its line breaks and tabs.
type Text string

// Printf formats as fmt.Fprintf does, and escapes every value except a [Text] to one line. Line
// breaks and tabs of the format stay. Write errors are ignored, as in kubectl.
func Printf(w io.Writer, format string, args ...any) {
	safe := make([]any, len(args))
	for i, arg := range args {
		safe[i] = escapeArg(arg)
	}
	_, _ = fmt.Fprintf(w, format, safe...)
}

// Row writes cells as one line, separated by tabs.
func Row(w io.Writer, cells ...string) {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = Line(cell)
	}
	_, _ = fmt.Fprintln(w, strings.Join(safe, "\t"))
}

// escapeArg returns a value whose text is one line. Numbers and booleans stay as they are.
func escapeArg(arg any) any {
	switch arg := arg.(type) {
	case nil:
		return nil
	case Text:
		return string(arg)
	case string:
		return Line(arg)
	case error:
		return Line(arg.Error())
	case fmt.Stringer:
		return Line(arg.String())
	}
	switch value := reflect.ValueOf(arg); value.Kind() { //nolint:exhaustive // the others hold no text
	case reflect.String:
		return Line(value.String())
	case reflect.Slice, reflect.Array, reflect.Map, reflect.Struct, reflect.Pointer:
		return Line(fmt.Sprint(arg))
	}
	return arg
}

// Line returns text as one line, with line breaks, tabs, control characters and bidirectional
// formatting escaped. ESC becomes ^[, as in upstream's EscapeTerminal.
func Line(text string) string {
	if !strings.ContainsFunc(text, needsEscape) {
		return text
	}
	var line strings.Builder
	for _, r := range text {
		switch {
		case r == '\x1b':
			line.WriteString("^[")
		case needsEscape(r):
			line.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		default:
			line.WriteRune(r)
		}
	}
	return line.String()
}

func needsEscape(r rune) bool { return isControl(r) || isBidiOrLineEnd(r) || r == '\n' || r == '\t' }

// isControl reports whether a character controls a terminal: C0 except tab and newline, DEL, and
// C1.
func isControl(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f
}

// isBidiOrLineEnd reports whether a character changes the display order of a line, or ends the
// line.
func isBidiOrLineEnd(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Writer returns a writer to w that drops control characters except tab and newline, and escapes
// bidirectional formatting.
func Writer(w io.Writer) io.Writer { return &writer{out: w} }

type writer struct {
	out io.Writer
	// rest is the beginning of a character that the last Write split.
	rest []byte
}

// Write implements io.Writer.
func (w *writer) Write(text []byte) (int, error) {
	data := append(w.rest, text...)
	clean := make([]byte, 0, len(data))
	for utf8.FullRune(data) {
		r, size := utf8.DecodeRune(data)
		switch {
		case isControl(r): // dropped
		case isBidiOrLineEnd(r):
			clean = append(clean, Line(string(r))...)
		default: // a byte of a broken sequence, too, in which a terminal sees no control
			clean = append(clean, data[:size]...)
		}
		data = data[size:]
	}
	w.rest = data
	if _, err := w.out.Write(clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
