package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const shirts = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shirts.stable.example.com"},
"spec":{"group":"stable.example.com","scope":"Namespaced","names":{"plural":"shirts","singular":"shirt","kind":"Shirt"},"versions":[
{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.count","statusReplicasPath":".status.count"}},
 "schema":{"openAPIV3Schema":{"type":"object","properties":{
  "spec":{"type":"object","properties":{"color":{"type":"string"},"size":{"type":"integer"},"count":{"type":"integer"},"since":{"type":"string"}}},
  "status":{"type":"object","properties":{"count":{"type":"integer"}}}}}},
 "additionalPrinterColumns":[{"name":"Color","type":"string","jsonPath":".spec.color"},{"name":"Size","type":"integer","jsonPath":".spec.size","priority":1,"description":"In centimetres."},
  {"name":"Since","type":"date","jsonPath":".spec.since"},{"name":"Worn","type":"boolean","jsonPath":".spec.worn"}]},
{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// define stores a definition and waits until its kind is served.
func (r *rig) define(definition, path string) {
	r.t.Helper()
	r.made("POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	again, deadline := time.NewTicker(10*time.Millisecond), time.NewTimer(patience)
	defer again.Stop()
	defer deadline.Stop()
	for {
		resp, data := r.ask("GET "+path, "")
		if resp.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			r.t.Fatalf("%s is still not served: %s", path, data)
		}
	}
}

// TestCustomKinds are served like the built-in ones, but for protobuf, and with columns of
// their own.
func TestCustomKinds(t *testing.T) {
	r := newRig(t)
	const path = "/apis/stable.example.com/v1/namespaces/default/shirts"
	if resp, data := r.ask("GET "+path, ""); resp.StatusCode != http.StatusNotFound || string(data) != "404 page not found\n" {
		t.Errorf("before it is defined: %s %s", resp.Status, data)
	}
	r.define(shirts, path)
	client, err := dynamic.NewForConfig(r.config())
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "stable.example.com", Version: "v1", Resource: "shirts"}
	api := client.Resource(gvr).Namespace("default")
	since := time.Now().Add(-90 * time.Minute).UTC().Format(time.RFC3339)
	blue := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "stable.example.com/v1", "kind": "Shirt", "metadata": map[string]any{"name": "blue"},
		"spec": map[string]any{"color": "blue", "size": int64(40), "count": int64(2), "since": since},
	}}
	made, err := api.Create(t.Context(), blue, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.Resource(schema.GroupVersionResource{Group: gvr.Group, Version: "v1beta1", Resource: "shirts"}).Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Stop()
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark} {
		event := <-live.ResultChan()
		if got, ok := event.Object.(*unstructured.Unstructured); !ok || event.Type != want || got.GetAPIVersion() != "stable.example.com/v1beta1" || got.GetKind() != "Shirt" {
			t.Errorf("%+v, want %s in v1beta1", event, want)
		}
	}

	var table metav1.Table
	data := r.made("GET "+path, "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	if err := json.Unmarshal(data, &table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("%v %s", err, data)
	}
	var columns []string
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, column.Name+" "+column.Type)
	}
	if got := strings.Join(columns, ", "); got != "Name string, Color string, Size integer, Since date, Worn boolean" || table.ColumnDefinitions[2].Priority != 1 {
		t.Errorf("columns: %s", got)
	}
	cells, err := json.Marshal(table.Rows[0].Cells)
	if err != nil || string(cells) != `["blue","blue",40,"90m",null]` {
		t.Errorf("cells: %s", cells)
	}
	if data := r.made("GET /apis/stable.example.com/v1beta1/namespaces/default/shirts/blue", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"); !strings.Contains(string(data), `"name":"Age"`) {
		t.Errorf("a version without columns: %s", data)
	}

	list, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil || list.GetKind() != "ShirtList" || list.Items[0].GetKind() != "Shirt" || list.GetResourceVersion() == "" {
		t.Errorf("list: %v %+v", err, list)
	}
	if resp, data := r.ask("GET "+path, "", "Accept: application/vnd.kubernetes.protobuf"); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("protobuf: %s %s", resp.Status, data)
	}
	if data := r.made("GET "+path, "", "Accept: application/vnd.kubernetes.protobuf,application/json"); !strings.Contains(string(data), "ShirtList") {
		t.Errorf("protobuf or JSON: %s", data)
	}
	if data := r.made("GET "+path+"/blue/scale", ""); !strings.Contains(string(data), `"kind":"Scale"`) {
		t.Errorf("scale: %s", data)
	}
	if err := api.Delete(t.Context(), made.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if event := <-live.ResultChan(); event.Type != watch.Deleted {
		t.Errorf("%+v, want DELETED", event)
	}
}

// TestApply is server-side apply, whose manager has to be named.
func TestApply(t *testing.T) {
	r := newRig(t)
	const path = "/api/v1/namespaces/default/configmaps/c"
	const yaml = "Content-Type: application/apply-patch+yaml"
	document := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '%s'}\n"
	resp, data := r.ask("PATCH "+path+"?fieldManager=one", strings.Replace(document, "%s", "1", 1), yaml)
	if resp.StatusCode != http.StatusCreated || !strings.Contains(string(data), `"manager":"one"`) {
		t.Fatalf("%s %s", resp.Status, data)
	}
	resp, data = r.ask("PATCH "+path+"?fieldManager=two", strings.Replace(document, "%s", "2", 1), yaml)
	if status := statusIn(t, data); resp.StatusCode != http.StatusConflict || status.Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict {
		t.Errorf("a conflict: %s %s", resp.Status, data)
	}
	if data := r.made("PATCH "+path+"?fieldManager=two&force=true", strings.Replace(document, "%s", "2", 1), yaml); !strings.Contains(string(data), `"a":"2"`) {
		t.Errorf("by force: %s", data)
	}
	resp, data = r.ask("PATCH "+path, strings.Replace(document, "%s", "3", 1), yaml)
	if status := statusIn(t, data); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(status.Message, "fieldManager") {
		t.Errorf("by nobody: %s %s", resp.Status, data)
	}
	if data := r.made("PATCH "+path, `{"data":{"b":"1"}}`, "Content-Type: application/merge-patch+json", "User-Agent: tester/1.0 (linux)"); !strings.Contains(string(data), `"manager":"tester"`) {
		t.Errorf("the manager of a patch: %s", data)
	}
}
