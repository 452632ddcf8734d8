package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/gateway/discovery"
	"github.com/podfall/podfall/services/gateway/metrics"
)

// telemetry is what the gateway counts, under upstream's names.
type telemetry struct {
	requests, durations, inflight, longrunning, events *metrics.Family
}

func newTelemetry() *telemetry {
	resource := []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}
	return &telemetry{
		requests: metrics.NewFamily(metrics.Counter, "apiserver_request_total",
			"Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
			append(slices.Clip(resource), "dry_run", "code")...),
		durations: metrics.NewFamily(metrics.Histogram, "apiserver_request_duration_seconds",
			"Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
			append(slices.Clip(resource), "dry_run")...),
		inflight: metrics.NewFamily(metrics.Gauge, "apiserver_current_inflight_requests",
			"Number of requests currently being served, by their kind.", "request_kind"),
		longrunning: metrics.NewFamily(metrics.Gauge, "apiserver_longrunning_requests",
			"Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component.", resource...),
		events: metrics.NewFamily(metrics.Counter, "apiserver_watch_events_total",
			"Number of events sent in watch clients.", "group", "version", "resource"),
	}
}

// ServeHTTP writes everything that has been counted.
func (t *telemetry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, family := range []*metrics.Family{t.inflight, t.longrunning, t.durations, t.requests, t.events} {
		if family.Write(w) != nil {
			return // who asked has gone
		}
	}
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
