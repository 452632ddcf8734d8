package explain

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller runs the rounds in a cluster.
type Controller struct {
	*Rounds

	pods  *view.Copy[*corev1.Pod]
	nodes *view.Copy[*corev1.Node]
	clock clock.Clock
}

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	events := base.Events("explain-controller")
	c := &Controller{
		Rounds: &Rounds{
			Observer: gather.Observer{API: base.API, Ask: gather.JSON(base.Ask), Clock: base.Clock},
			Event: func(pod *corev1.Pod, text string) {
				if base.StuckEvents {
					events.Event(pod, corev1.EventTypeWarning, "StuckTerminating", text)
				}
			},
			Log: base.Log,
		},
		pods: view.Of[*corev1.Pod](base.Views, "pods"), nodes: view.Of[*corev1.Node](base.Views, "nodes"), clock: base.Clock,
	}
	if base.History != nil {
		c.Record = func(fact history.Fact) { base.History.Record("", fact) }
	}
	c.pods.OnChange(func(old, now *corev1.Pod) {
		if old != nil && (now == nil || now.UID != old.UID) {
			c.PodRemoved(old)
		}
	})
	return c
}

// The periods of the controller, in cluster time.
const (
	// ExplainPeriod is the time between two checks for overdue pods, and UnknownPodsPeriod between
	// two checks of the pods that left the API too early.
	ExplainPeriod     = 5 * time.Second
	UnknownPodsPeriod = time.Second
)

// Run explains until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return daemon.Run(ctx,
		func(ctx context.Context) error {
			return c.runEvery(ctx, ExplainPeriod, func(ctx context.Context) { c.Explain(ctx, c.pods.All()) })
		},
		func(ctx context.Context) error {
			return c.runEvery(ctx, UnknownPodsPeriod, func(ctx context.Context) { c.CheckUnknownPods(ctx, c.views()) })
		},
	)
}

// views reads the controller's copies of the API's objects.
func (c *Controller) views() Views {
	return Views{
		Pod: func(namespace, name string) (*corev1.Pod, bool) {
			return c.pods.Get(view.Key{Namespace: namespace, Name: name})
		},
		Nodes: func() (names []string) {
			for _, node := range c.nodes.All() {
				names = append(names, node.Name)
			}
			return names
		},
	}
}

func (c *Controller) runEvery(ctx context.Context, period time.Duration, do func(context.Context)) error {
	ticker := c.clock.Ticker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			do(ctx)
		}
	}
}
