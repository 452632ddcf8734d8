package gateway_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// TestRoundTrip takes an object through all verbs of client-go's typed client, in each
// encoding that it speaks.
func TestRoundTrip(t *testing.T) {
	r := newRig(t)
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			config := r.config()
			config.ContentConfig = rest.ContentConfig{ContentType: media, AcceptContentTypes: media}
			set, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, api := t.Context(), set.CoreV1().Pods("default")
			made, err := api.Create(ctx, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Labels: map[string]string{"media": "x"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			}, metav1.CreateOptions{})
			if err != nil || !strings.HasPrefix(made.Name, "web-") || made.UID == "" {
				t.Fatalf("create: %v %+v", err, made)
			}
			if made, err = api.Get(ctx, made.Name, metav1.GetOptions{}); err != nil {
				t.Fatalf("get: %v", err)
			}
			made.Labels["updated"] = "yes"
			if made, err = api.Update(ctx, made, metav1.UpdateOptions{}); err != nil || made.Labels["updated"] != "yes" {
				t.Fatalf("update: %v", err)
			}
			for _, patch := range []struct {
				pt   types.PatchType
				body string
			}{
				{types.MergePatchType, `{"metadata":{"annotations":{"merge":"1"}}}`},
				{types.StrategicMergePatchType, `{"metadata":{"annotations":{"strategic":"1"}}}`},
				{types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/json","value":"1"}]`},
			} {
				if made, err = api.Patch(ctx, made.Name, patch.pt, []byte(patch.body), metav1.PatchOptions{}); err != nil {
					t.Fatalf("patch: %v", err)
				}
			}
			if len(made.Annotations) != 3 {
				t.Errorf("patched: %v", made.Annotations)
			}
			list, err := api.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{"updated": "yes"}.String()})
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != made.Name || list.ResourceVersion == "" || list.Items[0].Annotations["json"] != "1" {
				t.Fatalf("list: %v %+v", err, list)
			}
			_, err = api.UpdateStatus(ctx, made, metav1.UpdateOptions{})
			if err != nil {
				t.Errorf("update status: %v", err)
			}
			stale := made.DeepCopy()
			stale.ResourceVersion = "1"
			if _, err := api.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("a stale update: %v", err)
			}
			wrong := types.UID("another")
			if err := api.Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
				t.Errorf("a delete of another: %v", err)
			}
			if err := api.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: "updated=yes"}); err != nil {
				t.Errorf("delete collection: %v", err)
			}
			if _, err := api.Get(ctx, made.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("get what is gone: %v", err)
			}
		})
	}
}

// TestLists has the list of a kind in each form.
func TestLists(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.made("POST "+pods, podJSON(fmt.Sprintf("web-%d", i)))
	}
	var list corev1.PodList
	plain := r.made("GET "+pods+"?limit=2", "")
	if err := json.Unmarshal(plain, &list); err != nil {
		t.Fatal(err)
	}
	if list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 2 || list.Items[0].Kind != "" || list.Continue == "" || *list.RemainingItemCount != 3 {
		t.Errorf("a page: %s", plain)
	}
	rest := r.made("GET "+pods+"?limit=10&continue="+list.Continue, "")
	if err := json.Unmarshal(rest, &list); err != nil || len(list.Items) != 3 {
		t.Errorf("the next page: %v %s", err, rest)
	}
	var table metav1.Table
	if err := json.Unmarshal(r.made("GET "+pods+"?limit=2&includeObject=None", "", "Accept: application/json;as=Table;v=v1beta1;g=meta.k8s.io"), &table); err != nil ||
		table.APIVersion != "meta.k8s.io/v1beta1" || len(table.Rows) != 2 || table.Continue == "" || table.Rows[0].Object.Raw != nil || table.Rows[0].Cells[0] != "web-0" {
		t.Errorf("a Table: %v %+v", err, table)
	}
	if err := json.Unmarshal(r.made("GET "+pods+"?includeObject=Object", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"), &table); err != nil ||
		!strings.Contains(string(table.Rows[0].Object.Raw), `"image":"web:1"`) {
		t.Errorf("a Table with objects: %v %+v", err, table)
	}
	resp, data := r.ask("GET "+pods, "", "Accept: application/yaml")
	if err := yaml.UnmarshalStrict(data, &list); err != nil || resp.Header.Get("Content-Type") != "application/yaml" || len(list.Items) != 5 {
		t.Errorf("YAML: %v %s", err, data)
	}
	if data := r.made("GET "+pods+"?pretty=true&limit=1", ""); !strings.Contains(string(data), "\n  \"kind\": \"PodList\"") {
		t.Errorf("pretty: %s", data)
	}
	if data := r.made("GET /api/v1/namespaces/nowhere/pods", ""); !strings.Contains(string(data), `"items":[]`) {
		t.Errorf("an empty list: %s", data)
	}
}

func TestMetadataClient(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web"))
	client, err := metadata.NewForConfig(r.config())
	if err != nil {
		t.Fatal(err)
	}
	api := client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
	one, err := api.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || one.Labels["app"] != "web" {
		t.Errorf("get: %v %+v", err, one)
	}
	list, err := api.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.ResourceVersion == "" {
		t.Fatalf("list: %v %+v", err, list)
	}
	live, err := api.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Stop()
	if event := <-live.ResultChan(); nameOf(event.Object) != "web" {
		t.Errorf("watch: %+v", event)
	}
}

// TestGzip packs what is large, for who can read it.
func TestGzip(t *testing.T) {
	r := newRig(t)
	big := strings.Repeat("a", 100<<10)
	for _, name := range []string{"a", "b"} {
		r.made("POST /api/v1/namespaces/default/configmaps", `{"metadata":{"name":"`+name+`"},"data":{"big":"`+big+`"}}`)
	}
	const all, one = "GET /api/v1/namespaces/default/configmaps", "GET /api/v1/namespaces/default/configmaps/a"
	resp := r.stream(t.Context(), all, "", "Accept-Encoding: gzip")
	defer resp.close()
	if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%v", resp.Header)
	}
	packed, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(packed)
	var list corev1.ConfigMapList
	if err != nil || json.Unmarshal(data, &list) != nil || len(list.Items) != 2 || list.Items[1].Data["big"] != big {
		t.Errorf("unpacked: %v, %d bytes", err, len(data))
	}
	for _, what := range []struct{ ask, accept string }{{one, "gzip"}, {all, "identity"}} {
		if resp, _ := r.ask(what.ask, "", "Accept-Encoding: "+what.accept); resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s for %s: %v", what.ask, what.accept, resp.Header)
		}
	}
}

// TestHeaders are on every answer.
func TestHeaders(t *testing.T) {
	r := newRig(t)
	for _, ask := range []string{"GET " + pods, "GET " + pods + "/none", "GET /apis/none.example/v1/nones", "GET /healthz", "GET /version"} {
		resp, _ := r.ask(ask, "")
		if resp.Header.Get("Audit-Id") == "" || resp.Header.Get("Cache-Control") != "no-cache, private" || resp.Header.Get("Content-Type") == "" || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %v", ask, resp.Header)
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: a page of another origin may read it", ask)
		}
	}
	if resp, _ := r.ask("GET "+pods, "", "Audit-Id: mine"); resp.Header.Get("Audit-Id") != "mine" {
		t.Errorf("%v", resp.Header)
	}
}

// TestDeleteOptions come in a body of any group that has them, or in the query.
func TestDeleteOptions(t *testing.T) {
	r := newRig(t)
	grace := func(data []byte) int64 {
		var pod corev1.Pod
		if err := json.Unmarshal(data, &pod); err != nil || pod.DeletionGracePeriodSeconds == nil {
			t.Fatalf("%v %s", err, data)
		}
		return *pod.DeletionGracePeriodSeconds
	}
	inProtobuf, err := (&metav1.DeleteOptions{GracePeriodSeconds: new(int64(7))}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := []byte("k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12")
	unknown = append(append(unknown, byte(len(inProtobuf))), inProtobuf...)
	for name, c := range map[string]struct {
		query, body string
		headers     []string
		want        int64
	}{
		"nothing":       {"", "", nil, 30},
		"query":         {"?gracePeriodSeconds=7", "", nil, 7},
		"body":          {"", `{"gracePeriodSeconds":7}`, nil, 7},
		"core":          {"", `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":7}`, nil, 7},
		"meta":          {"", `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":7}`, nil, 7},
		"policy":        {"", `{"kind":"DeleteOptions","apiVersion":"policy/v1","gracePeriodSeconds":7}`, nil, 7},
		"body wins":     {"?gracePeriodSeconds=9", `{"gracePeriodSeconds":7}`, nil, 7},
		"YAML":          {"", "gracePeriodSeconds: 7\n", []string{"Content-Type: application/yaml"}, 7},
		"protobuf":      {"", string(unknown), []string{"Content-Type: application/vnd.kubernetes.protobuf"}, 7},
		"unknown field": {"", `{"gracePeriodSeconds":7,"colour":"red"}`, nil, 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, url: r.url, http: r.http}
			pod := strings.ToLower(strings.ReplaceAll(name, " ", "-"))
			r.made("POST "+pods, strings.Replace(podJSON(pod), `"spec":{`, `"spec":{"nodeName":"n",`, 1))
			if got := grace(r.made("DELETE "+pods+"/"+pod+c.query, c.body, c.headers...)); got != c.want {
				t.Errorf("grace %d, want %d", got, c.want)
			}
		})
	}
}

// TestSubresources reach the apiserver.
func TestSubresources(t *testing.T) {
	r := newRig(t)
	set := r.clientset()
	ctx := t.Context()
	deployments := set.AppsV1().Deployments("default")
	web := map[string]string{"app": "web"}
	if _, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: web},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 1 {
		t.Fatalf("get scale: %v %+v", err, scale)
	}
	scale.Spec.Replicas = 3
	if scale, err = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 3 {
		t.Errorf("update scale: %v %+v", err, scale)
	}
	if data := r.made("GET /apis/apps/v1/namespaces/default/deployments/web/scale", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"); !strings.Contains(string(data), `"name":"Desired"`) {
		t.Errorf("the Table of a scale: %s", data)
	}
	r.made("POST /api/v1/nodes", `{"metadata":{"name":"n"}}`)
	r.made("POST "+pods, podJSON("web"))
	for _, ask := range []string{pods + "/web/binding", "/api/v1/namespaces/default/bindings"} {
		resp, data := r.ask("POST "+ask, `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"web"},"target":{"kind":"Node","name":"n"}}`)
		if want := map[bool]int{true: 201, false: 409}[strings.HasSuffix(ask, "/binding")]; resp.StatusCode != want {
			t.Errorf("POST %s: %s %s", ask, resp.Status, data)
		}
	}
	if err := set.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}}); err != nil {
		t.Errorf("evict: %v", err)
	}
	for verb, want := range map[string]metav1.Status{
		"exec?command=ls": {Code: http.StatusBadRequest, Message: "Upgrade request required"},
		"attach":          {Code: http.StatusBadRequest, Message: "Upgrade request required"},
		"portforward":     {Code: http.StatusNotImplemented, Message: "scripted"},
	} {
		resp, data := r.ask("POST "+pods+"/web/"+verb, "")
		if status := statusIn(t, data); resp.StatusCode != int(want.Code) || !strings.Contains(status.Message, want.Message) {
			t.Errorf("%s: %s", verb, data)
		}
	}
}
