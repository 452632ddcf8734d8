package controllers

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
)

// TestAWrongClockMeasuresRight cuts a node off, and sets the controllers' clock wrong while they
// wait: a node is silent, and its pods are evicted, after as long as ever, for upstream measures
// that by the machine's monotonic clock. What is written down is what the clock shows.
func TestAWrongClockMeasuresRight(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				face, err := clock.NewSchedule(clock.Clock{}.Now(), 1)
				if err != nil {
					t.Fatal(err)
				}
				controllers := clock.NewDriver(face)
				r := &rig{t: t, cluster: stage.New(t, stage.Config{
					Nodes: 2, Controllers: []string{"*"}, Wrong: map[string]clock.Clock{"controllers": controllers.Clock()},
				})}
				r.api = r.cluster.API()
				r.patchNode("node-2", `{"spec":{"unschedulable":true}}`)
				r.create("deployments.apps", deployment(1))
				r.running(1)
				time.Sleep(time.Minute)
				r.cluster.Cut("node-1")
				time.Sleep(20 * time.Second)
				controllers.SetSkew(clock.Skew{Since: time.Now(), Offset: ahead})
				cut := time.Now().Add(-20 * time.Second)
				r.until("the node is silent", func() bool { return r.readyOf("node-1").Status == corev1.ConditionUnknown })
				if took := time.Since(cut); took < 40*time.Second || took > 60*time.Second {
					t.Errorf("the node was silent after %v, want about 50 s", took)
				}
				if off := time.Until(r.readyOf("node-1").LastTransitionTime.Time) - ahead; off.Abs() > 10*time.Second {
					t.Errorf("the condition's time is %v off what the controllers' clock shows", off)
				}
				time.Sleep(time.Minute) // the eviction waits for its time by now
				controllers.SetSkew(clock.Skew{Since: time.Now(), Offset: -ahead})
				r.until("its pod is marked", func() bool { _, going := r.find("web"); return len(going) == 1 })
				if took := time.Since(cut); took < 340*time.Second || took > 360*time.Second {
					t.Errorf("the pod was marked after %v, want about 350 s", took)
				}
			})
		})
	}
}

// readyOf is a node's condition Ready; an empty one when it has none.
func (r *rig) readyOf(name string) corev1.NodeCondition {
	r.t.Helper()
	obj, err := r.api.Get(r.t.Context(), podapi.Target{Kind: r.kind("nodes"), Name: name}, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	node, is := obj.(*corev1.Node)
	if !is {
		r.t.Fatalf("a node is a %T", obj)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{}
}
