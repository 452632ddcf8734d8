package podset

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(name, uid string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func marked(grace int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{}, &grace
	}
}

func labeled(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }

func phase(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }

func describeOps(ops []Op) []string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, fmt.Sprintf("%s %s", op.Verb, op.Pod.UID))
	}
	return lines
}

func TestDiff(t *testing.T) {
	for _, row := range []struct {
		name          string
		before, after []*corev1.Pod
		want          []string
	}{
		{"TD-074 added", nil, []*corev1.Pod{pod("p", "1")}, []string{"ADD 1"}},
		{"TD-074 deleted", []*corev1.Pod{pod("p", "1")}, []*corev1.Pod{pod("p", "1", marked(30))}, []string{"DELETE 1"}},
		{"TD-074 updated", []*corev1.Pod{pod("p", "1")}, []*corev1.Pod{pod("p", "1", labeled)}, []string{"UPDATE 1"}},
		{"TD-074 removed", []*corev1.Pod{pod("p", "1")}, nil, []string{"REMOVE 1"}},
		{"TD-074 only the status", []*corev1.Pod{pod("p", "1")}, []*corev1.Pod{pod("p", "1", phase)}, []string{"RECONCILE 1"}},
		{"TD-074 same name, new UID", []*corev1.Pod{pod("p", "1")}, []*corev1.Pod{pod("p", "2")}, []string{"REMOVE 1", "ADD 2"}},
		{"KBL-02 nothing", []*corev1.Pod{pod("p", "1")}, []*corev1.Pod{pod("p", "1")}, nil},
		{"KBL-02 new and already marked", nil, []*corev1.Pod{pod("p", "1", marked(30))}, []string{"ADD 1"}},
		{"KBL-02 a shorter grace", []*corev1.Pod{pod("p", "1", marked(30))}, []*corev1.Pod{pod("p", "1", marked(5))}, []string{"DELETE 1"}},
		{
			"KBL-01 the order of verbs",
			[]*corev1.Pod{pod("a", "1"), pod("b", "2"), pod("c", "3"), pod("d", "4")},
			[]*corev1.Pod{pod("a", "1", phase), pod("b", "2", marked(1)), pod("c", "3", labeled), pod("e", "5")},
			[]string{"REMOVE 4", "ADD 5", "UPDATE 3", "DELETE 2", "RECONCILE 1"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := map[types.UID]*corev1.Pod{}
			for _, p := range row.before {
				before[p.UID] = p
			}
			if got := describeOps(Diff(before, row.after)); !slices.Equal(got, row.want) {
				t.Errorf("Diff = %v, want %v", got, row.want)
			}
		})
	}
}
