package discovery_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/gateway/discovery"
)

// fixed is a directory of the built-in kinds and a few definitions.
type fixed struct {
	crds    []*apiextensionsv1.CustomResourceDefinition
	changed chan struct{}
}

func (f *fixed) All() []kinds.Kind {
	all := kinds.ServedByDefault()
	for _, crd := range f.crds {
		all = append(all, kinds.FromCRD(crd)...)
	}
	return all
}

func (f *fixed) CRD(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	for _, crd := range f.crds {
		if crd.Name == gr.String() {
			return crd
		}
	}
	return nil
}

func (f *fixed) Changed() <-chan struct{} { return f.changed }

// crontabs is a definition with two versions, of which one has a status and a scale.
func crontabs() *apiextensionsv1.CustomResourceDefinition {
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{
			"cronSpec": {Type: "string", Description: "when", Nullable: true},
			"replicas": {Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
		}),
		"status": object(nil),
	})
	names := apiextensionsv1.CustomResourceDefinitionNames{
		Plural: "crontabs", Singular: "crontab", Kind: "CronTab", ListKind: "CronTabList", ShortNames: []string{"ct"},
		Categories: []string{"all"},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "crontabs.stable.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "stable.example.com", Names: names, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1beta1", Served: true},
				{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
					Subresources: &apiextensionsv1.CustomResourceSubresources{
						Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
						Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
					},
				},
			},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			},
		},
	}
}

func serve(t *testing.T, dir discovery.Directory) *httptest.Server {
	t.Helper()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(discovery.New(dir, compat))
	t.Cleanup(server.Close)
	return server
}

func client(t *testing.T, server *httptest.Server) *clientdiscovery.DiscoveryClient {
	t.Helper()
	c, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientGo: client-go sees the same in one aggregated answer and in many plain ones,
// and it is what the table of kinds has.
func TestClientGo(t *testing.T) {
	server := serve(t, &fixed{crds: []*apiextensionsv1.CustomResourceDefinition{crontabs()}})
	aggregated, legacy := client(t, server), client(t, server)
	legacy.UseLegacyDiscovery = true
	groups, lists, err := aggregated.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	oldGroups, oldLists, err := legacy.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range append(slices.Clone(groups), oldGroups...) {
		group.TypeMeta, group.ServerAddressByClientCIDRs = metav1.TypeMeta{}, nil
	}
	if diff := cmp.Diff(oldGroups, groups); diff != "" {
		t.Errorf("groups, plain and aggregated (-/+):\n%s", diff)
	}
	for _, list := range append(slices.Clone(lists), oldLists...) {
		list.TypeMeta = metav1.TypeMeta{}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			r.StorageVersionHash = ""
			if r.Group == "" && r.Version == "" { // the aggregated form always says
				gv, _ := schema.ParseGroupVersion(list.GroupVersion)
				r.Group, r.Version = gv.Group, gv.Version
			}
			if strings.Contains(r.Name, "/") {
				r.SingularName = "" // client-go fills it in
			}
		}
		slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, unordered := range [][]*metav1.APIResourceList{lists, oldLists} {
		slices.SortFunc(unordered, func(a, b *metav1.APIResourceList) int { return strings.Compare(a.GroupVersion, b.GroupVersion) })
	}
	if diff := cmp.Diff(oldLists, lists); diff != "" {
		t.Errorf("resources, plain and aggregated (-/+):\n%s", diff)
	}
	announced := 0
	for _, list := range lists {
		announced += len(list.APIResources)
	}
	if announced < len(kinds.ServedByDefault())+40 {
		t.Errorf("%d resources announced", announced)
	}
}

// TestMapper: what people type finds the kinds that upstream's order of groups makes it find.
func TestMapper(t *testing.T) {
	c := client(t, serve(t, &fixed{crds: []*apiextensionsv1.CustomResourceDefinition{crontabs()}}))
	groups, err := restmapper.GetAPIGroupResources(c)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for resource, want := range map[string]schema.GroupVersionKind{
		"pods":                     {Version: "v1", Kind: "Pod"},
		"events":                   {Version: "v1", Kind: "Event"},
		"deployments":              {Group: "apps", Version: "v1", Kind: "Deployment"},
		"ingresses":                {Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
		"crontabs":                 {Group: "stable.example.com", Version: "v1", Kind: "CronTab"},
		"horizontalpodautoscalers": {Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
		"selfsubjectaccessreviews": {Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"},
	} {
		got, err := mapper.KindFor(schema.GroupVersionResource{Resource: resource})
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", resource, got, err, want)
		}
	}
	resources, err := c.ServerResourcesForGroupVersion("stable.example.com/v1")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range resources.APIResources {
		names = append(names, r.Name+" "+r.Group+" "+r.Kind)
	}
	if want := []string{"crontabs  CronTab", "crontabs/scale autoscaling Scale", "crontabs/status  CronTab"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestVersion: tools compare versions, and people see whose it is.
func TestVersion(t *testing.T) {
	info, err := client(t, serve(t, &fixed{})).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if info.Major != "1" || info.Minor != "37" || info.GitVersion != "v1.37.2+podfall" {
		t.Errorf("%+v", info)
	}
}

// TestOpenAPI: client-go reads both documents, custom kinds included.
func TestOpenAPI(t *testing.T) {
	c := client(t, serve(t, &fixed{crds: []*apiextensionsv1.CustomResourceDefinition{crontabs()}}))
	two, err := c.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	var found bool
	for _, definition := range two.GetDefinitions().GetAdditionalProperties() {
		found = found || definition.GetName() == "com.example.stable.v1.CronTab"
	}
	if !found {
		t.Error("OpenAPI 2 has no CronTab")
	}
	root := openapi3.NewRoot(c.OpenAPIV3())
	versions, err := root.GroupVersions()
	if err != nil {
		t.Fatal(err)
	}
	for _, gv := range versions {
		spec, err := root.GVSpec(gv)
		if err != nil {
			t.Errorf("%s: %v", gv, err)
			continue
		}
		for name, model := range spec.Components.Schemas {
			if name == "" || model == nil {
				t.Errorf("%s: an empty definition %q", gv, name)
			}
		}
	}
	spec, err := root.GVSpec(schema.GroupVersion{Group: "stable.example.com", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	patch := spec.Paths.Paths["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"].Patch
	var query []string
	for _, p := range patch.Parameters {
		query = append(query, p.Name)
	}
	if want := []string{"dryRun", "fieldManager", "fieldValidation", "force"}; !slices.Equal(query, want) {
		t.Errorf("a patch takes %q, want %q", query, want)
	}
	if patch.RequestBody.Content["application/strategic-merge-patch+json"] != nil || patch.RequestBody.Content["application/merge-patch+json"] == nil {
		t.Errorf("a patch may be %v", patch.RequestBody.Content)
	}
	if spec.Components.Schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"] == nil {
		t.Error("the document of a custom kind lacks the definition of metadata")
	}
}

// TestReferences: every definition that a document refers to is in it.
func TestReferences(t *testing.T) {
	server := serve(t, &fixed{crds: []*apiextensionsv1.CustomResourceDefinition{crontabs()}})
	paths, err := client(t, server).OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	for path := range paths {
		_, body := get(t, server.URL+"/openapi/v3/"+path, nil)
		dangling(t, path, body, "#/components/schemas/", "components", "schemas")
	}
	_, body := get(t, server.URL+"/openapi/v2", nil)
	dangling(t, "v2", body, "#/definitions/", "definitions")
}

func dangling(t *testing.T, path string, document []byte, prefix string, where ...string) {
	t.Helper()
	var definitions map[string]any
	if err := json.Unmarshal(document, &definitions); err != nil {
		t.Fatal(err)
	}
	for _, key := range where {
		definitions, _ = definitions[key].(map[string]any)
	}
	for i, part := range strings.Split(string(document), `"$ref":"`) {
		if i == 0 {
			continue
		}
		ref, _, _ := strings.Cut(part, `"`)
		name, ok := strings.CutPrefix(ref, prefix)
		if !ok || definitions[name] == nil {
			t.Errorf("%s refers to %s, which it lacks", path, ref)
		}
	}
}

// answered is what came back.
type answered struct {
	code   int
	header http.Header
}

func get(t *testing.T, url string, header http.Header) (answered, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := plain.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{response.StatusCode, response.Header}, body
}

// TestAnswers: what a client accepts, and what it has already.
func TestAnswers(t *testing.T) {
	dir := &fixed{changed: make(chan struct{})}
	server := serve(t, dir)
	const v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, c := range []struct {
		name, path, accept string
		code               int
		media, begins      string
	}{
		{"plain", "/apis", "", 200, "application/json", `{"kind":"APIGroupList"`},
		{"aggregated", "/apis", v2 + ",application/json", 200, v2, `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2"`},
		{"plain first", "/apis", "application/json," + v2, 200, "application/json", `{"kind":"APIGroupList"`},
		{"older", "/api", strings.Replace(v2, "v=v2", "v=v2beta1", 1), 200, strings.Replace(v2, "v=v2", "v=v2beta1", 1), `{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1"`},
		{"an unknown version", "/api", strings.Replace(v2, "v=v2", "v=v7", 1) + ",application/json", 200, "application/json", `{"kind":"APIVersions"`},
		{"protobuf", "/apis/apps/v1", "application/vnd.kubernetes.protobuf", 200, "application/vnd.kubernetes.protobuf", "k8s\x00"},
		{"YAML", "/api/v1", "application/yaml", 200, "application/yaml", "apiVersion: v1\n"},
		{"a picture", "/api/v1", "image/png", 406, "text/plain; charset=utf-8", "only the following media types"},
		{"no such group", "/apis/nope", "", 404, "text/plain; charset=utf-8", "404 page not found"},
		{"no such version", "/apis/apps/v9", "", 404, "application/json", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}`},
		{"no such version of the first group", "/api/v9", "", 404, "application/json", `{"kind":"Status"`},
		{"no such document", "/openapi/v3/apis/nope/v1", "", 404, "text/plain; charset=utf-8", "404 page not found"},
		{"an old hash", "/openapi/v3/apis/apps/v1?hash=OLD", "", 301, "text/html; charset=utf-8", "<a href=\"/openapi/v3/apis/apps/v1?hash="},
	} {
		response, body := get(t, server.URL+c.path, http.Header{"Accept": {c.accept}})
		if response.code != c.code || response.header.Get("Content-Type") != c.media || !strings.HasPrefix(string(body), c.begins) {
			t.Errorf("%s: %d %s %.80q", c.name, response.code, response.header.Get("Content-Type"), body)
		}
	}
	first, _ := get(t, server.URL+"/apis", http.Header{"Accept": {v2}})
	again, body := get(t, server.URL+"/apis", http.Header{"Accept": {v2}, "If-None-Match": {first.header.Get("ETag")}})
	if again.code != http.StatusNotModified || len(body) > 0 {
		t.Errorf("asked again: %d, %d bytes", again.code, len(body))
	}
	changed := dir.changed
	dir.crds, dir.changed = []*apiextensionsv1.CustomResourceDefinition{crontabs()}, make(chan struct{})
	close(changed)
	now, body := get(t, server.URL+"/apis", http.Header{"Accept": {v2}, "If-None-Match": {first.header.Get("ETag")}})
	if now.code != http.StatusOK || !strings.Contains(string(body), "stable.example.com") {
		t.Errorf("asked after a change: %d", now.code)
	}
}
