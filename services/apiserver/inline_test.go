package apiserver

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
)

// TestInline creates a namespace, and loses it with a disk that has kept an older image.
func TestInline(t *testing.T) {
	t.Parallel()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	var told []history.Name
	published := 0
	begin := func(image *store.Image) *Inline {
		recorder, err := history.Open(history.Config{Process: "apiserver", Boot: "b", OnEvent: func(e history.Event) { told = append(told, e.Fact.Name()) }})
		if err != nil {
			t.Fatal(err)
		}
		i, err := NewInline(t.Context(), InlineConfig{
			Boot: "b", Compat: compat, Image: image, Keep: 100, History: recorder,
			Publish: func(string, *proto.Frame) error { published++; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	call := func(i *Inline, verb proto.Verb, name, operation, body string) *proto.Response {
		t.Helper()
		subject := proto.APISubject{Identity: proto.Admin, Verb: verb, Resource: "namespaces", Name: name}
		parts, err := i.Call(t.Context(), subject.String(), &proto.Request{
			Version: proto.Version, Operation: operation, Body: []byte(body), ContentType: kinds.ContentTypeJSON,
		})
		if err != nil || len(parts) == 0 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		return parts[len(parts)-1]
	}

	i := begin(nil)
	before := i.Image()
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]string{"name": "blue"}})
	if err != nil {
		t.Fatal(err)
	}
	if code := call(i, proto.VerbWatch, "", "watch", "").GetCode(); code != http.StatusOK {
		t.Fatalf("watch: %d", code)
	}
	for range 2 { // the second is the first that came twice
		if code := call(i, proto.VerbCreate, "", "create", string(body)).GetCode(); code != http.StatusCreated {
			t.Fatalf("create: %d", code)
		}
	}
	i.PublishPending(t.Context())
	if published != 1 {
		t.Errorf("%d frames were published, want 1", published)
	}
	if after := i.Image(); after.Revision() != before.Revision()+2 {
		t.Errorf("the store is at %d, want 2 more than %d: a namespace and its service account", after.Revision(), before.Revision())
	}
	if code := call(begin(i.Image()), proto.VerbGet, "blue", "get", "").GetCode(); code != http.StatusOK {
		t.Errorf("after a restart: %d", code)
	}
	if code := call(begin(before), proto.VerbGet, "blue", "get", "").GetCode(); code != http.StatusNotFound {
		t.Errorf("after a crash before the fsync: %d", code)
	}
	if len(told) == 0 || told[0] != history.NameStoreOpen {
		t.Errorf("told %v", told)
	}
}
