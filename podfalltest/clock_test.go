package podfalltest_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/podfalltest"
)

// readyIs returns whether a node's Ready condition has the wanted status.
func readyIs(t testing.TB, c *podfalltest.Cluster, name string, want corev1.ConditionStatus) func() bool {
	t.Helper()
	return func() bool {
		node, err := c.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == want
			}
		}
		return false
	}
}

// TestMovingTheClock deletes a pod that ignores SIGTERM, changes the clock 10 s into its grace of
// 30 s, and checks how long the deletion takes in wall time.
func TestMovingTheClock(t *testing.T) {
	for name, row := range map[string]struct {
		move func(c *podfalltest.Cluster)
		want time.Duration
	}{
		"left alone": {func(*podfalltest.Cluster) {}, 30 * time.Second},
		"faster":     {func(c *podfalltest.Cluster) { c.SetSpeed(10) }, 12 * time.Second},
		"slower":     {func(c *podfalltest.Cluster) { c.SetSpeed(0.5) }, 50 * time.Second},
		"paused": {func(c *podfalltest.Cluster) {
			c.Pause()
			time.Sleep(time.Hour)
			c.Resume()
		}, time.Hour + 30*time.Second},
		"stepped": {func(c *podfalltest.Cluster) { c.Step(15 * time.Second) }, 15 * time.Second},
		"stepped while paused": {func(c *podfalltest.Cluster) {
			c.Pause()
			c.Step(time.Minute)
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := podfalltest.Start(t, podfalltest.InBubble())
				client := c.Client()
				create(t, client, pod("stubborn", "ignores TERM", 30))
				begin := time.Now()
				if err := client.CoreV1().Pods("default").Delete(t.Context(), "stubborn", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				row.move(c)
				eventually(t, "the pod is gone", isGone(t, client, "stubborn"))
				if took := time.Since(begin); took < row.want || took > row.want+time.Second {
					t.Errorf("it took %v of the wall, want %v", took, row.want)
				}
			})
		})
	}
}

// TestAPauseKeepsLeases cuts a node off while the clock is paused. It stays Ready until the clock
// continues, and the other node stays Ready even then.
func TestAPauseKeepsLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble(), podfalltest.Nodes(2))
		c.Pause()
		before := c.Now()
		c.Cut("node-1")
		time.Sleep(time.Hour)
		for _, node := range c.Nodes() {
			if !readyIs(t, c, node, corev1.ConditionTrue)() {
				t.Errorf("%s is not Ready in a pause", node)
			}
		}
		if now := c.Now(); !now.Equal(before) {
			t.Errorf("the clock has moved by %v in a pause", now.Sub(before))
		}
		c.Resume()
		time.Sleep(time.Minute)
		if !readyIs(t, c, "node-1", corev1.ConditionUnknown)() || !readyIs(t, c, "node-2", corev1.ConditionTrue)() {
			t.Error("a minute later: want node-1 Unknown and node-2 Ready")
		}
		c.Heal("node-1")
		eventually(t, "node-1 is Ready", readyIs(t, c, "node-1", corev1.ConditionTrue))
	})
}

// TestANodeIsLostFaster loses a node and evicts its pod while the clock speeds up: 50 s at speed 1,
// then five minutes of toleration at speed 100.
func TestANodeIsLostFaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := podfalltest.Start(t, podfalltest.InBubble(), podfalltest.Nodes(2))
		client := c.Client()
		create(t, client, pod("web", quick, 30))
		now, err := client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node := now.Spec.NodeName
		c.Cut(node)
		begin, began := time.Now(), c.Now()
		time.Sleep(time.Minute)
		if !readyIs(t, c, node, corev1.ConditionUnknown)() {
			t.Error("a minute later the node is not Unknown")
		}
		c.SetSpeed(100)
		eventually(t, "the pod is evicted", func() bool {
			now, err := client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
			return err == nil && now.DeletionTimestamp != nil
		})
		if took := time.Since(begin); took > 65*time.Second {
			t.Errorf("it took %v of the wall, want some 63 s", took)
		}
		if took := c.Now().Sub(began); took < 340*time.Second || took > 370*time.Second {
			t.Errorf("it took %v of the cluster's time, want 340 to 370 s", took)
		}
		c.SetSpeed(1)
		c.Heal(node)
		eventually(t, "the pod is gone", isGone(t, client, "web"))
	})
}
