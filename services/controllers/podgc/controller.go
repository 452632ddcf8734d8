package podgc

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller removes pods.
type Controller struct {
	api          control.API
	clock        clock.Clock
	log          *slog.Logger
	pods         *view.Copy[*corev1.Pod]
	nodes        *view.Copy[*corev1.Node]
	client       control.Resource[*corev1.Node]
	missingSince map[string]time.Time
}

// New returns a controller; Run does the work.
func New(base control.Base) *Controller {
	return &Controller{
		api: base.API, clock: base.Clock, log: base.Log,
		pods:   view.Of[*corev1.Pod](base.Views, "pods"),
		nodes:  view.Of[*corev1.Node](base.Views, "nodes"),
		client: control.Of[*corev1.Node](base.API, "nodes"),
	}
}

// Run collects every 20 s until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ticker := c.clock.Ticker(Period)
	defer ticker.Stop()
	for {
		c.collect(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func (c *Controller) collect(ctx context.Context) {
	view := View{Pods: c.pods.All(), Nodes: map[string]*corev1.Node{}, Threshold: DefaultThreshold, MissingSince: c.missingSince}
	for _, node := range c.nodes.All() {
		view.Nodes[node.Name] = node
	}
	plan := Decide(view, c.clock.Steady())
	c.missingSince = plan.MissingSince
	removals := append(plan.Removals, Orphans(view.Pods, c.confirmGone(ctx, plan.Suspects))...)
	for _, removal := range removals {
		if err := c.remove(ctx, removal); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			c.log.WarnContext(ctx, "could not remove a pod", "pod", removal.Pod.Namespace+"/"+removal.Pod.Name, "uid", removal.Pod.UID, "error", err)
		}
	}
}

// confirmGone returns the suspects that do not exist according to the API (discoverDeletedNodes).
func (c *Controller) confirmGone(ctx context.Context, suspects []string) []string {
	var gone []string
	for _, name := range suspects {
		_, err := c.client.Get(ctx, "", name)
		switch {
		case apierrors.IsNotFound(err):
			gone = append(gone, name)
		case err != nil:
			c.log.WarnContext(ctx, "could not look for a node", "node", name, "error", err)
		}
	}
	return gone
}

// remove sets a pod that is not terminal to Failed, and deletes it whatever its UID is now
// (markFailedAndDeletePodWithCondition).
func (c *Controller) remove(ctx context.Context, removal Removal) error {
	pod := removal.Pod
	target := podapi.Target{Kind: c.pods.Kind(), Namespace: pod.Namespace, Name: pod.Name}
	if !IsTerminal(pod) {
		var condition *corev1.PodCondition
		if removal.Orphaned {
			condition = new(podcondition.Disruption("DeletionByPodGC", "PodGC: node no longer exists"))
		}
		patch, err := podcondition.Patch(pod, corev1.PodFailed, condition, c.clock.Now())
		if err != nil {
			return err
		}
		status := target
		status.Subresource = "status"
		if _, err := c.api.Patch(ctx, status, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	_, err := c.api.Delete(ctx, target, *metav1.NewDeleteOptions(0))
	return err
}
