package podfalltest_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/podfalltest"
)

// A pod runs, is deleted, is stopped by its kubelet, and is gone. In a test file this is the
// body of a func TestPod(t *testing.T).
func Example() {
	runAsTest(func(t testing.TB) {
		c := podfalltest.Start(t)
		pods := c.Client().CoreV1().Pods("default")
		events, err := pods.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		_, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			switch {
			case !ok:
				t.Fatalf("%v", event)
			case event.Type == watch.Deleted:
				fmt.Println("deleted:", pod.Status.Phase)
				return
			case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning:
				fmt.Println("runs on", pod.Spec.NodeName)
				if err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	// Output:
	// runs on node-1
	// deleted: Succeeded
}
