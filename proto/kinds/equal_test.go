package kinds

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEqual compares what is the same to the letter, what only means the same, and what does not.
func TestEqual(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	status := func(at time.Time) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: at}}
	}
	for _, row := range []struct {
		name string
		a, b any
		want bool
	}{
		{"the same", status(at), status(at), true},
		{"the same time elsewhere", status(at), status(at.UTC()), true},
		{"another time", status(at), status(at.Add(time.Second)), false},
		{"none and empty", []string(nil), []string{}, true},
		{"the same amount", resource.MustParse("1000m"), resource.MustParse("1"), true},
		{"another amount", resource.MustParse("1000m"), resource.MustParse("2"), false},
		{"another type", status(at), corev1.NodeStatus{}, false},
	} {
		if got := Equal(row.a, row.b); got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
}
