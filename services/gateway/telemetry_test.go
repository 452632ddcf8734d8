package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/gateway/guard"
)

// TestClientsDoNotChooseLabels is T12: label values that a client made up are counted as one,
// because series are kept for ever.
func TestClientsDoNotChooseLabels(t *testing.T) {
	pods, _ := kinds.ByResource("pods")
	g := &gateway{limiter: newLimiter(defaultLimits()), telemetry: newTelemetry()}
	ask := func(subresource, dryRun string) {
		r := httptest.NewRequest(http.MethodGet, "/?dryRun="+dryRun, nil)
		c := &call{
			gateway: g, w: &response{ResponseWriter: httptest.NewRecorder()}, r: r, query: r.URL.Query(), kind: pods,
			route: route{GroupVersionResource: pods.GroupVersionResource(), name: "web", subresource: subresource}, verb: proto.VerbGet,
		}
		if err := c.measure(func() error { return notServed() }); err == nil {
			t.Error("want the call's own error")
		}
	}
	for i := range 10 {
		ask(fmt.Sprint("made-up-", i), fmt.Sprint("made-up-", i))
	}
	ask("status", "All")
	text := string(g.telemetry.all.Text())
	const labels = `apiserver_request_total{verb="GET",group="",version="v1",resource="pods",subresource=%q,scope="resource",component="apiserver",dry_run=%q,code="404"} %d`
	for _, want := range []string{fmt.Sprintf(labels, "invalid", "invalid", 10), fmt.Sprintf(labels, "status", "All", 1)} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in:\n%s", want, text)
		}
	}
	if lines := strings.Count(text, "\napiserver_request_total{"); lines != 2 {
		t.Errorf("%d series, want 2:\n%s", lines, text)
	}
}

// fakeProcesses are two others, of which one does not answer.
type fakeProcesses struct{}

func (fakeProcesses) Names() []string { return []string{"controllers", "gateway", "kubelet/node-1"} }

func (fakeProcesses) Clock() clock.Schedule { return clock.Schedule{{Speed: 60}} }

func (fakeProcesses) Ask(_ context.Context, process, question string) ([]byte, error) {
	switch {
	case process == "kubelet/node-1":
		return nil, errors.New("it does not run")
	case question != mgmt.QueryMetrics:
		return []byte("answer to " + question), nil
	}
	return []byte("# HELP workqueue_depth Waiting.\n# TYPE workqueue_depth gauge\nworkqueue_depth{name=\"job\"} 2\n"), nil
}

func TestMetricsOfProcesses(t *testing.T) {
	for path, row := range map[string]struct {
		code int
		want string
	}{
		"/podfall/processes":                                {200, `{"processes":["controllers","kubelet/node-1"],"clock":[{"wall":"0001-01-01T00:00:00Z","shows":"0001-01-01T00:00:00Z","speed":60}]}`},
		"/podfall/processes/controllers":                    {200, "answer to "},
		"/podfall/processes/controllers?question=history+a": {200, "answer to history a"},
		"/podfall/processes/kubelet/node-1":                 {503, "it does not run"},
		"/podfall/processes/kubelet/node-9":                 {404, "not found"},
		"/metrics":                                          {200, "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n"},
		"/metrics/gateway":                                  {200, "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n"},
		"/metrics/controllers":                              {200, "workqueue_depth{name=\"job\"} 2\n"},
		"/metrics/kubelet/node-1":                           {503, "it does not run"},
		"/metrics/kubelet/node-9":                           {404, "not found"},
		"/metrics/all":                                      {200, "workqueue_depth{process=\"controllers\",name=\"job\"} 2\n"},
	} {
		g := &gateway{
			guard: guard.New("127.0.0.1:1", "secret"), limiter: newLimiter(defaultLimits()), telemetry: newTelemetry(),
			cfg: Config{Processes: fakeProcesses{}, Log: slog.New(slog.DiscardHandler)},
		}
		g.telemetry.inflight.Add(1, "readOnly")
		r := httptest.NewRequest(http.MethodGet, "https://127.0.0.1:1"+path, nil)
		r.Header.Set("Authorization", "Bearer secret")
		w := httptest.NewRecorder()
		g.newHandler().ServeHTTP(w, r)
		if w.Code != row.code || !strings.Contains(w.Body.String(), row.want) {
			t.Errorf("%s: %d %s, want %d with %s", path, w.Code, w.Body, row.code, row.want)
		}
	}
}
