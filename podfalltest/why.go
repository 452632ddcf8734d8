package podfalltest

import (
	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// WhyReport lists what blocks an object's deletion; docs/why.md lists the causes.
type WhyReport = why.Report

// Why explains why an object still exists, as `podfall why` does. It uses the API, and inspects the
// parts even if they are cut off. resource is for example pods or deployments.apps.
//
//	report := c.Why("pods", "default", "web-0")
//	report.Blocked()  // whether it waits for more than its grace
//	report.IDs()      // stk-06, …
func (c *Cluster) Why(resource, namespace, name string) WhyReport {
	c.t.Helper()
	kind, ok := kinds.ByResource(resource)
	if !ok {
		c.t.Fatalf("podfalltest: why: there is no resource %q; want one such as pods or deployments.apps", resource)
	}
	ctx, cancel := c.bounded()
	defer cancel()
	conn, err := bus.Dial(ctx, bus.Config{Identity: proto.Admin, InProcess: c.parts.Hub})
	if err != nil {
		c.t.Fatalf("podfalltest: why: %v", err)
	}
	defer conn.Close()
	observer := gather.Observer{API: podapi.New(conn, podapi.Config{Clock: c.clock}), Ask: gather.JSON(c.parts.Inspect), Clock: c.clock}
	report, err := observer.Why(ctx, podapi.Target{Kind: kind, Namespace: namespace, Name: name})
	if err != nil {
		c.t.Fatalf("podfalltest: why %s %s/%s: %v", resource, namespace, name, err)
	}
	return report
}
