package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/metrics"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/discovery"
)

// telemetry is what the gateway counts, under upstream's names.
type telemetry struct {
	all                                                *metrics.Registry
	requests, durations, inflight, longrunning, events *metrics.Family
}

func newTelemetry() *telemetry {
	all := metrics.NewRegistry()
	resource := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	return &telemetry{
		all: all,
		requests: all.Counter("apiserver_request_total",
			"Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
			append(slices.Clip(resource), "dry_run", "code")...),
		durations: all.Histogram("apiserver_request_duration_seconds",
			"Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			metrics.LatencyBuckets(), append(slices.Clip(resource), "dry_run")...),
		inflight: all.Gauge("apiserver_current_inflight_requests",
			"Number of requests currently being served, by their kind.", "request_kind"),
		longrunning: all.Gauge("apiserver_longrunning_requests",
			"Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component.", resource...),
		events: all.Counter("apiserver_watch_events_total",
			"Number of events sent in watch clients.", "group", "version", "resource"),
	}
}

// Processes are the other processes of the cluster, which have no port of their own to be
// asked at.
type Processes interface {
	// Names lists them as podfall status does: "controllers", "kubelet/node-1".
	Names() []string
	// Ask is what a process answers to a question; see package mgmt.
	Ask(ctx context.Context, process, question string) ([]byte, error)
	// Clock is what the cluster's clock shows; empty as long as nobody knows.
	Clock() clock.Schedule
}

const metricsPath = "/metrics"

// metrics answers with what the gateway has counted; below its path with what another
// process has, by its name, or under the name all with what every process has, each series
// with the label process. A process that does not answer is left out of that.
func (g *gateway) metrics(w http.ResponseWriter, r *http.Request) error {
	text, err := g.countsOf(r.Context(), strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, metricsPath), "/"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text) // who asked may have gone
	return nil
}

func (g *gateway) countsOf(ctx context.Context, process string) ([]byte, error) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, nodeTimeout)
	defer cancel()
	switch others := g.others(); {
	case process == "" || process == string(proto.Gateway):
		return g.counts.all.Text(), nil
	case process == "all":
		return g.countsOfAll(ctx, others), nil
	case !slices.Contains(others, process):
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "metrics"}, process)
	}
	text, err := g.cfg.Processes.Ask(ctx, process, mgmt.QueryMetrics)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return text, nil
}

func (g *gateway) countsOfAll(ctx context.Context, others []string) []byte {
	texts := make([][]byte, len(others))
	var asking sync.WaitGroup
	for i, process := range others {
		asking.Go(func() {
			text, err := g.cfg.Processes.Ask(ctx, process, mgmt.QueryMetrics)
			if err != nil {
				g.cfg.Log.DebugContext(ctx, "a process does not tell its metrics", "process", process, "err", err)
			}
			texts[i] = text
		})
	}
	asking.Wait()
	all := map[string][]byte{string(proto.Gateway): g.counts.all.Text()}
	for i, process := range others {
		all[process] = texts[i]
	}
	return metrics.Merge(all)
}

// others are the processes beside this one.
func (g *gateway) others() []string {
	if g.cfg.Processes == nil {
		return nil
	}
	return slices.DeleteFunc(g.cfg.Processes.Names(), func(name string) bool { return name == string(proto.Gateway) })
}

// labels are what a call is counted under.
func (c *call) labels() []string {
	scope := "cluster"
	switch {
	case c.route.name != "" || c.verb == proto.VerbCreate:
		scope = "resource"
	case c.route.namespace != "":
		scope = "namespace"
	}
	sub := c.route.subresource
	if sub != "" && !discovery.HasSubresource(c.kind, sub) {
		sub = unheardOf
	}
	return []string{c.method(), c.kind.Group, c.kind.Version, c.kind.Resource, sub, scope, "apiserver"}
}

// unheardOf is the label of whatever a client has made up: counts are kept for ever, so a
// client may not choose how many of them there are (T12).
const unheardOf = "invalid"

// dryRun is the label of a call that may write nothing (upstream's cleanDryRun).
func (c *call) dryRun() string {
	asked := c.query["dryRun"]
	switch {
	case len(asked) == 0:
		return ""
	case len(validation.ValidateDryRun(nil, asked)) > 0:
		return unheardOf
	}
	return metav1.DryRunAll
}

// method is the call's verb as upstream counts it.
func (c *call) method() string {
	switch {
	case c.verb == "":
		return "CONNECT"
	case c.verb == proto.VerbCreate:
		return http.MethodPost
	case c.verb == proto.VerbUpdate:
		return http.MethodPut
	case c.verb == proto.VerbPatch && strings.HasPrefix(c.r.Header.Get("Content-Type"), "application/apply-patch"):
		return "APPLY"
	}
	return strings.ToUpper(string(c.verb))
}

// counted carries a call out, waiting for its turn, and counts it.
func (c *call) counted(do func() error) error {
	wall, labels := clock.Clock{}, c.labels()
	began := wall.Now() // it is people's patience that is measured
	if c.long() {
		return c.countedStream(labels, do)
	}
	return c.load.seated(c.w, c.r, func() (err error) {
		kind := "mutating"
		if c.r.Method == http.MethodGet {
			kind = "readOnly"
		}
		c.counts.inflight.Add(1, kind)
		defer c.counts.inflight.Add(-1, kind)
		dry := c.dryRun()
		defer func() {
			code := c.w.code
			if err != nil {
				code = int(statusOf(err).Code)
			}
			c.counts.durations.Observe(wall.Since(began), append(labels, dry)...)
			c.counts.requests.Add(1, append(labels, dry, strconv.Itoa(code))...)
		}()
		return do()
	})
}

// long reports whether a call lasts as long as its client likes.
func (c *call) long() bool { return c.verb == proto.VerbWatch || c.verb == "" }

func (c *call) countedStream(labels []string, do func() error) error {
	done, err := c.load.stream(c.r)
	if err != nil {
		return err
	}
	defer done()
	c.counts.longrunning.Add(1, labels...)
	defer c.counts.longrunning.Add(-1, labels...)
	err = do()
	code := c.w.code
	if err != nil {
		code = int(statusOf(err).Code)
	}
	c.counts.requests.Add(1, append(labels, "", strconv.Itoa(code))...)
	return err
}
