package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// line is one event as it is written.
type line struct {
	Type   string
	Object struct {
		Kind     string
		Metadata struct {
			Name, ResourceVersion string
			Annotations           map[string]string
		}
		Code              int
		Reason, Message   string
		ColumnDefinitions []any
		Rows              []struct{ Object struct{ Kind string } }
	}
}

func (l line) String() string { return l.Type + " " + l.Object.Metadata.Name }

// stream is a watch that is being read.
type stream struct {
	t     testing.TB
	lines *bufio.Scanner
	*reply
}

func (r *rig) watch(query string, headers ...string) stream {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*patience)
	resp := r.stream(ctx, "GET "+pods+"?watch=1&"+query, "", headers...)
	r.t.Cleanup(func() { resp.close(); cancel() })
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("watch: %s %s", resp.Status, data)
	}
	s := stream{r.t, nil, resp}
	s.lines = s.scanner()
	return s
}

func (s stream) scanner() *bufio.Scanner {
	lines := bufio.NewScanner(s.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

func (s stream) next() line {
	s.t.Helper()
	if !s.lines.Scan() {
		s.t.Fatalf("the watch has ended: %v", s.lines.Err())
	}
	var l line
	if err := json.Unmarshal(s.lines.Bytes(), &l); err != nil {
		s.t.Fatalf("%s: %v", s.lines.Bytes(), err)
	}
	return l
}

func (s stream) want(events ...string) {
	s.t.Helper()
	for _, want := range events {
		if got := s.next(); got.String() != want {
			s.t.Fatalf("%s, want %s", got, want)
		}
	}
}

func (r *rig) kill(name string) { r.made("DELETE "+pods+"/"+name+"?gracePeriodSeconds=0", "") }

// TestWatchStarts has what each way to begin a watch gives first (WCH-10 to WCH-13).
func TestWatchStarts(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"c", "a", "b"} {
		r.made("POST "+pods, podJSON(name))
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(r.made("GET "+pods, ""), &list); err != nil {
		t.Fatal(err)
	}
	rv, at := list.ResourceVersion, list.Items[0].ResourceVersion // a's: the second of three
	initial := []string{"ADDED a", "ADDED b", "ADDED c"}
	for query, want := range map[string][]string{
		"":                                initial,
		"resourceVersion=0":               initial,
		"allowWatchBookmarks=true":        append(initial[:3:3], "BOOKMARK "),
		"resourceVersion=" + rv:           nil,
		"resourceVersion=" + at:           {"ADDED b"},
		"labelSelector=app%3Ddb":          nil,
		"fieldSelector=metadata.name%3Db": {"ADDED b"},
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true":                       append(initial[:3:3], "BOOKMARK "),
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&resourceVersion=" + rv: append(initial[:3:3], "BOOKMARK "),
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0":                              initial,
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan":                                               nil,
	} {
		t.Run(query, func(t *testing.T) {
			r := &rig{t: t, url: r.url, http: r.http}
			w := r.watch(query + "&timeoutSeconds=600")
			w.want(want...)
			past := strings.HasPrefix(query, "resourceVersion=") && query != "resourceVersion=0" // what other cases do is news to it
			if !strings.Contains(query, "Selector") && !past {
				defer r.kill("x" + fmt.Sprint(len(query)))
				r.made("POST "+pods, podJSON("x"+fmt.Sprint(len(query))))
				w.want("ADDED x" + fmt.Sprint(len(query)))
			}
		})
	}
	marked := r.watch("allowWatchBookmarks=true")
	for {
		if l := marked.next(); l.Type == "BOOKMARK" {
			if l.Object.Kind != "Pod" || l.Object.Metadata.Annotations["k8s.io/initial-events-end"] != "true" || l.Object.Metadata.ResourceVersion == "" {
				t.Errorf("the end of the initial events: %+v", l)
			}
			return
		}
	}
}

// TestWatchTooOld asks for what the history has forgotten (WCH-30), and for what is still
// to come.
func TestWatchTooOld(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	for i := range 400 {
		r.made("PATCH "+pods+"/web", fmt.Sprintf(`{"metadata":{"labels":{"i":"%d"}}}`, i), "Content-Type: application/merge-patch+json")
	}
	w := r.watch("resourceVersion=1")
	if l := w.next(); l.Type != "ERROR" || l.Object.Kind != "Status" || l.Object.Code != 410 || l.Object.Reason != "Expired" || !strings.HasPrefix(l.Object.Message, "too old resource version: 1 (") {
		t.Errorf("%+v", l)
	}
	if w.lines.Scan() {
		t.Errorf("after the ERROR: %s", w.lines.Text())
	}
	resp, data := r.ask("GET "+pods+"?resourceVersion=1&resourceVersionMatch=Exact", "")
	if status := statusIn(t, data); resp.StatusCode != http.StatusGone || status.Reason != metav1.StatusReasonExpired {
		t.Errorf("an exact list: %d %s", resp.StatusCode, data)
	}
	resp, data = r.ask("GET "+pods+"?resourceVersion=100000", "")
	if status := statusIn(t, data); resp.StatusCode != http.StatusGatewayTimeout || resp.Header.Get("Retry-After") != "1" || !strings.HasPrefix(status.Message, "Timeout: Too large resource version: 100000, current: ") {
		t.Errorf("a list of the future: %d %v %s", resp.StatusCode, resp.Header, data)
	}
}

// TestWatchTimesOut: a watch ends in time, and shortly before it there is a bookmark
// (WCH-24), unless the machine is at something else just then.
func TestWatchTimesOut(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	for range 10 {
		if r.shortWatch() {
			return
		}
	}
	t.Error("none of ten watches had a bookmark before its end")
}

// shortWatch reports whether a watch of 10 s has had a bookmark.
func (r *rig) shortWatch() (bookmarked bool) {
	r.t.Helper()
	began := time.Now()
	w := r.watch("timeoutSeconds=10&allowWatchBookmarks=true&resourceVersion=1")
	w.want("ADDED web")
	if bookmarked = w.lines.Scan(); bookmarked {
		if text := w.lines.Text(); !strings.HasPrefix(text, `{"type":"BOOKMARK"`) || w.lines.Scan() {
			r.t.Errorf("after the pod: %s, %s", text, w.lines.Text())
		}
	}
	if err := w.lines.Err(); err != nil {
		r.t.Error(err)
	}
	if took := time.Since(began); took < 9*time.Second || took > patience {
		r.t.Errorf("the watch of 10 s took %v", took)
	}
	return bookmarked
}

func TestWatchAsTable(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("a"))
	w := r.watch("allowWatchBookmarks=true", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	r.made("POST "+pods, podJSON("b"))
	for i, want := range []string{"ADDED", "BOOKMARK", "ADDED"} {
		l := w.next()
		if l.Type != want || l.Object.Kind != "Table" || len(l.Object.Rows) != 1 || l.Object.Rows[0].Object.Kind != "PartialObjectMetadata" || (len(l.Object.ColumnDefinitions) > 0) != (i == 0) {
			t.Errorf("event %d, want %s: %+v", i, want, l)
		}
	}
}

// TestWatchInProtobuf reads the frames by hand, and then with client-go.
func TestWatchInProtobuf(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	w := r.watch("", "Accept: application/vnd.kubernetes.protobuf")
	if got := w.Header.Get("Content-Type"); got != "application/vnd.kubernetes.protobuf;stream=watch" {
		t.Errorf("Content-Type: %s", got)
	}
	var size [4]byte
	if _, err := io.ReadFull(w.Body, size[:]); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.Body, frame); err != nil {
		t.Fatal(err)
	}
	var event metav1.WatchEvent
	if err := event.Unmarshal(frame); err != nil || event.Type != "ADDED" || string(event.Object.Raw[:4]) != "k8s\x00" {
		t.Fatalf("%v %+v", err, event)
	}

	config := r.config()
	config.ContentConfig = rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf"}
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	live, err := set.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Stop()
	if first := <-live.ResultChan(); first.Type != watch.Added || nameOf(first.Object) != "web" {
		t.Errorf("%+v", first)
	}
	r.kill("web")
	for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
		if got := <-live.ResultChan(); got.Type != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

func TestWatchOverWebSocket(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: r.trusted}}
	address := "wss" + strings.TrimPrefix(r.url, "https") + pods + "?watch=1&timeoutSeconds=60"
	for accept, message := range map[string]int{"application/json": websocket.TextMessage, "application/vnd.kubernetes.protobuf": websocket.BinaryMessage} {
		conn, resp, err := dialer.DialContext(t.Context(), address, http.Header{"Authorization": {"Bearer " + token}, "Accept": {accept}}) //nolint:bodyclose // there is none
		if err != nil {
			t.Fatalf("%v %v", err, resp)
		}
		kind, data, err := conn.ReadMessage()
		if err != nil || kind != message {
			t.Fatalf("%s: a message of kind %d, %v", accept, kind, err)
		}
		var name string
		if message == websocket.TextMessage {
			var l line
			if err := json.Unmarshal(data, &l); err != nil {
				t.Fatal(err)
			}
			name = l.Object.Metadata.Name
		} else {
			var event metav1.WatchEvent
			if err := event.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			name = event.Type
		}
		if name != "web" && name != "ADDED" {
			t.Errorf("%s: %s", accept, data)
		}
		_ = conn.Close()
	}
	for name, c := range map[string]struct {
		headers http.Header
		code    int
	}{
		"a browser's page": {http.Header{"Authorization": {"Bearer " + token}, "Origin": {"https://evil.example"}}, http.StatusForbidden},
		"without a token":  {nil, http.StatusUnauthorized},
	} {
		if _, resp, err := dialer.DialContext(t.Context(), address, c.headers); err == nil || resp.StatusCode != c.code { //nolint:bodyclose // the dialer has read it
			t.Errorf("%s: %v %v", name, err, resp)
		}
	}
}

// TestManyWatchOne has a hundred watches of one scope see every change once, in order, while
// the apiserver ends and comes back.
func TestManyWatchOne(t *testing.T) {
	r := newRig(t)
	const watches, changes = 100, 40
	var reading sync.WaitGroup
	var streams []stream
	for range watches {
		streams = append(streams, r.watch("resourceVersion=1&timeoutSeconds=600"))
	}
	for i, s := range streams {
		reading.Go(func() {
			for n := range changes {
				if l := s.next(); l.String() != fmt.Sprintf("ADDED web-%02d", n) {
					t.Errorf("watch %d: %s, want web-%02d", i, l, n)
					return
				}
			}
		})
	}
	for n := range changes {
		if n == changes/2 {
			r.stopAPI()
			r.startAPI()
		}
		r.made("POST "+pods, podJSON(fmt.Sprintf("web-%02d", n)))
	}
	reading.Wait()
}

// TestTheOldWayToWatch is a path with /watch in it.
func TestTheOldWayToWatch(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("a"))
	r.made("POST "+pods, podJSON("b"))
	resp := r.stream(t.Context(), "GET /api/v1/watch/namespaces/default/pods/b", "")
	defer resp.close()
	stream{t, bufio.NewScanner(resp.Body), resp}.want("ADDED b")
}
