package tainteviction

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// TestNodeMadeAnew has a node be deleted that drives a pod away in five minutes, and be there
// again with the same taint: the five minutes begin anew.
func TestNodeMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		views := view.NewSet(nil, nil)
		c := New(control.Base{Views: views, Events: func(string) control.Recorder { return nil }, Log: slog.New(slog.DiscardHandler)})
		taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u"}, Spec: corev1.PodSpec{
			NodeName: "n1", Tolerations: []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))}},
		}}
		planned := func() time.Time {
			t.Helper()
			if err := c.sync(t.Context(), view.KeyOf(pod)); err != nil {
				t.Fatal(err)
			}
			return c.scheduleOf(view.KeyOf(pod), pod.UID).at
		}
		c.pods.Apply(watch.Event{Type: watch.Added, Object: pod})
		c.nodes.Apply(watch.Event{Type: watch.Added, Object: node})
		first := planned()
		time.Sleep(200 * time.Second)
		if again := planned(); again != first {
			t.Errorf("planned for %v, and for %v when looked at again", first, again)
		}
		c.nodes.Apply(watch.Event{Type: watch.Deleted, Object: node})
		c.nodes.Apply(watch.Event{Type: watch.Added, Object: node})
		if again := planned(); again.Sub(first) != 200*time.Second {
			t.Errorf("planned for %v, and for %v with the node made anew", first, again)
		}
	})
}
