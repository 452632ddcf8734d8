package kubectl

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// TestMessagesForgeNoLines has a server answer with messages of several lines: people see each on
// one line, programs see it as it is, and other fields keep their text.
func TestMessagesForgeNoLines(t *testing.T) {
	const document = `{"message":"a\nb \\\\n \"q\" \u202e","items":[{"reason" : "x\ty\r"}],"data":{"key":"a\nb"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept"); accept != "application/json" {
			t.Errorf("%s is asked for, which cannot be escaped", accept)
		}
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = io.WriteString(w, document+"\n"+document)
	}))
	defer server.Close()
	read := func(contentType string, plain bool) string {
		client := http.Client{Transport: messageEscaper{http.DefaultTransport, func() bool { return plain }, newMessageEscape()}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"?type="+contentType, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(iotest.OneByteReader(response.Body))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if plain := read("application/json", true); plain != document+"\n"+document {
		t.Errorf("programs read %s", plain)
	}
	if other := read("text/plain", false); other != document+"\n"+document {
		t.Errorf("what is no JSON reads %s", other)
	}
	for line := range strings.SplitSeq(read("application/json", false), "\n") {
		var got struct {
			Message string
			Items   []struct{ Reason string }
			Data    map[string]string
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got.Message != `a\nb \\n "q" `+"\u202e" || got.Items[0].Reason != `x\ty\r` || got.Data["key"] != "a\nb" {
			t.Errorf("people read %+v", got)
		}
	}
}
