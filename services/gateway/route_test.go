package gateway

import (
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

func TestParseRoute(t *testing.T) {
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	apps := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for path, want := range map[string]route{
		"/api/v1/pods":                                      {GroupVersionResource: core("pods")},
		"/api/v1/namespaces/ns/pods":                        {GroupVersionResource: core("pods"), namespace: "ns"},
		"/api/v1/namespaces/ns/pods/":                       {GroupVersionResource: core("pods"), namespace: "ns"},
		"/api/v1/namespaces/ns/pods/web":                    {GroupVersionResource: core("pods"), namespace: "ns", name: "web"},
		"/api/v1/namespaces/ns/pods/web/log":                {GroupVersionResource: core("pods"), namespace: "ns", name: "web", subresource: "log"},
		"/api/v1/namespaces/ns/pods/web/proxy/a/b":          {GroupVersionResource: core("pods"), namespace: "ns", name: "web", subresource: "proxy", rest: "a/b"},
		"/api/v1/namespaces":                                {GroupVersionResource: core("namespaces")},
		"/api/v1/namespaces/ns":                             {GroupVersionResource: core("namespaces"), name: "ns"},
		"/api/v1/namespaces/ns/status":                      {GroupVersionResource: core("namespaces"), name: "ns", subresource: "status"},
		"/api/v1/namespaces/ns/finalize":                    {GroupVersionResource: core("namespaces"), name: "ns", subresource: "finalize"},
		"/api/v1/nodes/n/status":                            {GroupVersionResource: core("nodes"), name: "n", subresource: "status"},
		"/api/v1/watch/namespaces/ns/pods/web":              {GroupVersionResource: core("pods"), namespace: "ns", name: "web", watch: true},
		"/apis/apps/v1/deployments":                         {GroupVersionResource: apps},
		"/apis/apps/v1/namespaces/ns/deployments/web/scale": {GroupVersionResource: apps, namespace: "ns", name: "web", subresource: "scale"},
		"/apis/apps/v1/watch/deployments":                   {GroupVersionResource: apps, watch: true},
	} {
		if got, ok := parseRoute(path); !ok || got != want {
			t.Errorf("routeOf(%s): %+v, %v; want %+v", path, got, ok, want)
		}
	}
	for _, path := range []string{"", "/", "/api", "/api/v1", "/api/v1/", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/openapi/v2"} {
		if got, ok := parseRoute(path); ok {
			t.Errorf("routeOf(%s): %+v, want none", path, got)
		}
	}
}

func TestVerb(t *testing.T) {
	pods, _ := kinds.ByResource("pods")
	nodes, _ := kinds.ByResource("nodes")
	for _, c := range []struct {
		method, path string
		kind         kinds.Kind
		want         proto.Verb
	}{
		{"GET", "/api/v1/pods", pods, proto.VerbList},
		{"GET", "/api/v1/pods?watch=false", pods, proto.VerbList},
		{"GET", "/api/v1/pods?watch=0", pods, proto.VerbList},
		{"GET", "/api/v1/pods?watch", pods, proto.VerbWatch},
		{"GET", "/api/v1/pods?watch=1", pods, proto.VerbWatch},
		{"GET", "/api/v1/watch/pods", pods, proto.VerbWatch},
		{"GET", "/api/v1/watch/namespaces/ns/pods/web", pods, proto.VerbWatch},
		{"GET", "/api/v1/namespaces/ns/pods/web", pods, proto.VerbGet},
		{"GET", "/api/v1/namespaces/ns/pods/web?watch=1", pods, proto.VerbGet},
		{"GET", "/api/v1/nodes/n/status", nodes, proto.VerbGet},
		{"GET", "/api/v1/pods/web", pods, ""},
		{"POST", "/api/v1/namespaces/ns/pods", pods, proto.VerbCreate},
		{"POST", "/api/v1/namespaces/ns/pods/web/eviction", pods, proto.VerbCreate},
		{"POST", "/api/v1/namespaces/ns/pods/web", pods, ""},
		{"POST", "/api/v1/pods", pods, ""},
		{"POST", "/api/v1/nodes", nodes, proto.VerbCreate},
		{"PUT", "/api/v1/nodes/n", nodes, proto.VerbUpdate},
		{"PUT", "/api/v1/nodes", nodes, ""},
		{"PATCH", "/api/v1/nodes/n/status", nodes, proto.VerbPatch},
		{"PATCH", "/api/v1/nodes", nodes, ""},
		{"DELETE", "/api/v1/nodes/n", nodes, proto.VerbDelete},
		{"DELETE", "/api/v1/nodes", nodes, proto.VerbDeleteCollection},
		{"DELETE", "/api/v1/nodes/n/status", nodes, ""},
		{"DELETE", "/api/v1/pods", pods, ""},
		{"DELETE", "/api/v1/namespaces/ns/pods", pods, proto.VerbDeleteCollection},
		{"HEAD", "/api/v1/pods", pods, ""},
		{"OPTIONS", "/api/v1/pods", pods, ""},
	} {
		at, err := url.Parse(c.path)
		if err != nil {
			t.Fatal(err)
		}
		to, _ := parseRoute(at.Path)
		if got, ok := to.verb(c.method, c.kind, at.Query()); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s %s: %q, %v; want %q", c.method, c.path, got, ok, c.want)
		}
	}
}
