// Package terminal writes for people. Text from the cluster can hold control characters, line breaks
// and directions of writing: [Printf] escapes them, so that no object can move the reader's cursor, forge
// a line of output, or turn a line around. [Writer] is the second line of defence, for text that others
// format.
package terminal

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Text is formatted text of podfall's own: Printf passes its line breaks and tabs on.
type Text string

// Printf formats as fmt.Fprintf does, with every value but a [Text] on one line. Line breaks and tabs
// of the format stay. A write that fails is lost, as with kubectl.
func Printf(w io.Writer, format string, args ...any) {
	safe := make([]any, len(args))
	for i, arg := range args {
		safe[i] = escape(arg)
	}
	_, _ = fmt.Fprintf(w, format, safe...)
}

// Row writes cells as one line of a table whose columns are separated by tabs.
func Row(w io.Writer, cells ...string) {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = Line(cell)
	}
	_, _ = fmt.Fprintln(w, strings.Join(safe, "\t"))
}

// escape returns a value whose text is one line. Numbers and booleans stay as they are.
func escape(arg any) any {
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

// Line returns text as one line: its line breaks, tabs, control characters and directions of writing
// are spelled out. ESC is ^[, as upstream's EscapeTerminal has it.
func Line(text string) string {
	if !strings.ContainsFunc(text, special) {
		return text
	}
	var line strings.Builder
	for _, r := range text {
		switch {
		case r == '\x1b':
			line.WriteString("^[")
		case special(r):
			line.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		default:
			line.WriteRune(r)
		}
	}
	return line.String()
}

func special(r rune) bool { return control(r) || direction(r) || r == '\n' || r == '\t' }

// control reports whether a character commands a terminal: C0 but tab and newline, DEL, and C1.
func control(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' || r >= 0x7f && r <= 0x9f
}

// direction reports whether a character changes the order in which a line is shown, or ends the line.
func direction(r rune) bool {
	switch {
	case r == 0x061c, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Writer drops control characters but tab and newline from what is written to w, and spells out
// directions of writing.
func Writer(w io.Writer) io.Writer { return &writer{out: w} }

type writer struct {
	out io.Writer
	// rest is the beginning of a character that the last Write has cut.
	rest []byte
}

// Write implements io.Writer.
func (w *writer) Write(text []byte) (int, error) {
	data := append(w.rest, text...)
	clean := make([]byte, 0, len(data))
	for utf8.FullRune(data) {
		r, size := utf8.DecodeRune(data)
		switch {
		case control(r): // dropped
		case direction(r):
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
