package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// TestClientsDoNotChooseLabels: what a client makes up is counted as one thing, because
// counts are kept for ever (T12).
func TestClientsDoNotChooseLabels(t *testing.T) {
	pods, _ := kinds.ByResource("pods")
	g := &gateway{load: newLoad(defaultLimits()), counts: newTelemetry()}
	ask := func(subresource, dryRun string) {
		r := httptest.NewRequest(http.MethodGet, "/?dryRun="+dryRun, nil)
		c := &call{
			gateway: g, w: &response{ResponseWriter: httptest.NewRecorder()}, r: r, query: r.URL.Query(), kind: pods,
			route: route{GroupVersionResource: pods.GroupVersionResource(), name: "web", subresource: subresource}, verb: proto.VerbGet,
		}
		if err := c.counted(func() error { return notServed() }); err == nil {
			t.Error("want the call's own error")
		}
	}
	for i := range 10 {
		ask(fmt.Sprint("made-up-", i), fmt.Sprint("made-up-", i))
	}
	ask("status", "All")
	var out strings.Builder
	if err := g.counts.requests.Write(&out); err != nil {
		t.Fatal(err)
	}
	const labels = `apiserver_request_total{verb="GET",group="",version="v1",resource="pods",subresource=%q,scope="resource",component="apiserver",dry_run=%q,code="404"} %d`
	for _, want := range []string{fmt.Sprintf(labels, "invalid", "invalid", 10), fmt.Sprintf(labels, "status", "All", 1)} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %s in:\n%s", want, out.String())
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 4 {
		t.Errorf("%d lines, want 4:\n%s", lines, out.String())
	}
}
