package fieldmanager_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/fieldmanager"
)

// BenchmarkStatus is what a kubelet's status update costs: of a pod that is not tracked, and
// of one that is.
func BenchmarkStatus(b *testing.B) {
	kind, _ := kinds.ByResource("pods")
	fields := fieldmanager.New(nil)
	pod := func(phase corev1.PodPhase) *corev1.Pod {
		made := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Labels: map[string]string{"app": "bench"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}, NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}}},
		}
		made.SetGroupVersionKind(kind.GroupVersionKind)
		return made
	}
	write := fieldmanager.Write{Kind: kind, Subresource: "status", Manager: "kubelet"}
	now := time.Unix(1_700_000_000, 0)
	for _, tracked := range []bool{false, true} {
		old := pod(corev1.PodPending)
		name := "untracked"
		if tracked {
			name = "tracked"
			fields.Track(fieldmanager.Write{Kind: kind, Manager: "kubectl-create"}, old, nil)
			fieldmanager.StampTimes(old, nil, now)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				obj := pod(corev1.PodRunning)
				if fieldmanager.IsTracked("", obj, old) {
					fields.Track(write, obj, old)
					fieldmanager.StampTimes(obj, old, now)
				}
			}
		})
	}
}
