package kubectl

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// messageEscaper is a transport for commands that print messages of the cluster in lines of their
// own: describe and events. kubectl prints a line break in a message as one, so that a message
// could show lines that no object has. Here the line break is shown as \n.
type messageEscaper struct {
	next http.RoundTripper
	// plain reports whether programs read the output; then nothing is escaped.
	plain func() bool
	// escape is from newMessageEscape, made once for all answers.
	escape func(document []byte) []byte
}

// escapesMessages reports whether a command needs a messageEscaper.
func escapesMessages(args []string) bool {
	verb := Verb(args)
	return verb == "describe" || verb == "events"
}

// RoundTrip implements http.RoundTripper. It asks for JSON, where kubectl prefers protobuf. An
// answer that is no JSON passes unchanged.
func (e messageEscaper) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
		request = request.Clone(request.Context())
		request.Header.Set("Accept", "application/json")
	}
	response, err := e.next.RoundTrip(request)
	if err != nil || e.plain() || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		return response, err
	}
	response.Body = &escapedBody{Closer: response.Body, lines: bufio.NewReader(response.Body), escape: e.escape}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}

// escapedBody escapes the messages of a JSON document, or of documents with a line each, as in a
// watch.
type escapedBody struct {
	io.Closer
	lines  *bufio.Reader
	escape func(document []byte) []byte
	ready  []byte // escaped, and not read yet
	err    error  // the end of lines
}

// Read implements io.Reader.
func (b *escapedBody) Read(into []byte) (int, error) {
	for len(b.ready) == 0 && b.err == nil {
		var line []byte
		line, b.err = b.lines.ReadBytes('\n')
		b.ready = b.escape(line)
	}
	if len(b.ready) == 0 {
		return 0, b.err
	}
	n := copy(into, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// newMessageEscape returns a function that replaces the escapes of line breaks and tabs in the
// free text of a JSON document by their own text: a line break becomes a backslash and an n.
func newMessageEscape() func(document []byte) []byte {
	field := regexp.MustCompile(`"(?:message|note|reason|action)"\s*:\s*"(?:[^"\\]|\\.)*"`)
	escape := regexp.MustCompile(`\\.`)
	return func(document []byte) []byte {
		return field.ReplaceAllFunc(document, func(text []byte) []byte {
			return escape.ReplaceAllFunc(text, func(e []byte) []byte {
				if bytes.ContainsRune([]byte("nrt"), rune(e[1])) {
					return append([]byte(`\`), e...)
				}
				return e
			})
		})
	}
}
