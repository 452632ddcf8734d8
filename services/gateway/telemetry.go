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

// telemetry has the gateway's metrics, under upstream's names.
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

// Processes are the other processes of the cluster, which have no port of their own.
type Processes interface {
	// Names lists the processes as podfall status does: "controllers", "kubelet/node-1".
	Names() []string
	// Ask returns a process's answer to a question of package mgmt.
	Ask(ctx context.Context, process, question string) ([]byte, error)
	// Clock is the cluster's clock; empty if it is unknown.
	Clock() clock.Schedule
}

const metricsPath = "/metrics"

// serveMetrics serves the gateway's metrics. Below its path it serves another process's, by name,
// or under "all" those of every process, with the label process. A process that does not answer is
// left out of "all".
func (g *gateway) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	text, err := g.processMetrics(r.Context(), strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, metricsPath), "/"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text) // the client may have left
	return nil
}

func (g *gateway) processMetrics(ctx context.Context, process string) ([]byte, error) {
	ctx, cancel := clock.Clock{}.Timeout(ctx, nodeTimeout)
	defer cancel()
	switch others := g.otherProcesses(); {
	case process == "" || process == string(proto.Gateway):
		return g.telemetry.all.Text(), nil
	case process == "all":
		return g.allMetrics(ctx, others), nil
	case !slices.Contains(others, process):
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "metrics"}, process)
	}
	text, err := g.cfg.Processes.Ask(ctx, process, mgmt.QueryMetrics)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(err.Error())
	}
	return text, nil
}

func (g *gateway) allMetrics(ctx context.Context, others []string) []byte {
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
	all := map[string][]byte{string(proto.Gateway): g.telemetry.all.Text()}
	for i, process := range others {
		all[process] = texts[i]
	}
	return metrics.Merge(all)
}

// otherProcesses are the processes beside the gateway.
func (g *gateway) otherProcesses() []string {
	if g.cfg.Processes == nil {
		return nil
	}
	return slices.DeleteFunc(g.cfg.Processes.Names(), func(name string) bool { return name == string(proto.Gateway) })
}

// metricLabels are the call's metric labels.
func (c *call) metricLabels() []string {
	scope := "cluster"
	switch {
	case c.route.name != "" || c.verb == proto.VerbCreate:
		scope = "resource"
	case c.route.namespace != "":
		scope = "namespace"
	}
	sub := c.route.subresource
	if sub != "" && !discovery.HasSubresource(c.kind, sub) {
		sub = invalidLabel
	}
	return []string{c.verbLabel(), c.kind.Group, c.kind.Version, c.kind.Resource, sub, scope, "apiserver"}
}

// invalidLabel replaces label values that a client made up: series are kept for ever, so a client
// must not create new ones (T12).
const invalidLabel = "invalid"

// dryRunLabel is the label of a dry run (upstream's cleanDryRun).
func (c *call) dryRunLabel() string {
	values := c.query["dryRun"]
	switch {
	case len(values) == 0:
		return ""
	case len(validation.ValidateDryRun(nil, values)) > 0:
		return invalidLabel
	}
	return metav1.DryRunAll
}

// verbLabel is the call's verb as upstream counts it.
func (c *call) verbLabel() string {
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

// measure runs a call within the limits, and counts it.
func (c *call) measure(do func() error) error {
	wall, labels := clock.Clock{}, c.metricLabels()
	began := wall.Now() // it is people's patience that is measured
	if c.isLongRunning() {
		return c.measureStream(labels, do)
	}
	return c.limiter.runShort(c.w, c.r, func() (err error) {
		kind := "mutating"
		if c.r.Method == http.MethodGet {
			kind = "readOnly"
		}
		c.telemetry.inflight.Add(1, kind)
		defer c.telemetry.inflight.Add(-1, kind)
		dry := c.dryRunLabel()
		defer func() {
			code := c.w.code
			if err != nil {
				code = int(statusOf(err).Code)
			}
			c.telemetry.durations.Observe(wall.Since(began), append(labels, dry)...)
			c.telemetry.requests.Add(1, append(labels, dry, strconv.Itoa(code))...)
		}()
		return do()
	})
}

// isLongRunning reports whether the client decides how long a call lasts.
func (c *call) isLongRunning() bool { return c.verb == proto.VerbWatch || c.verb == "" }

func (c *call) measureStream(labels []string, do func() error) error {
	done, err := c.limiter.acquireStream(c.r)
	if err != nil {
		return err
	}
	defer done()
	c.telemetry.longrunning.Add(1, labels...)
	defer c.telemetry.longrunning.Add(-1, labels...)
	err = do()
	code := c.w.code
	if err != nil {
		code = int(statusOf(err).Code)
	}
	c.telemetry.requests.Add(1, append(labels, "", strconv.Itoa(code))...)
	return err
}
