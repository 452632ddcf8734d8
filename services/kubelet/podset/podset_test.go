package podset

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
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

func spell(ops []Op) []string {
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
			if got := spell(Diff(before, row.after)); !slices.Equal(got, row.want) {
				t.Errorf("Diff = %v, want %v", got, row.want)
			}
		})
	}
}

func TestSet(t *testing.T) {
	s := NewSet()
	if _, known := s.Get("1"); known {
		t.Error("a pod is known to be absent before any list")
	}
	if _, ready := s.Take(); ready {
		t.Error("it is ready before any list")
	}
	s.Replace([]kinds.Object{pod("p", "1")}, "1")
	<-s.Wake()
	if ops, ready := s.Take(); !ready || !slices.Equal(spell(ops), []string{"ADD 1"}) {
		t.Errorf("after a list it has %v, ready %t", spell(ops), ready)
	}
	// A loop that looks late learns of the mark and of the removal, and of each once.
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled)})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled, marked(30))})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled, marked(0))})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled, marked(0), phase)})
	s.Apply(watch.Event{Type: watch.Deleted, Object: pod("p", "1", labeled, marked(0), phase)})
	s.Apply(watch.Event{Type: watch.Added, Object: pod("p", "2")})
	ops, _ := s.Take()
	if got, want := spell(ops), []string{"DELETE 1", "REMOVE 1", "ADD 2"}; !slices.Equal(got, want) {
		t.Fatalf("it has %v, want %v", got, want)
	}
	if got := *ops[0].Pod.DeletionGracePeriodSeconds; got != 0 {
		t.Errorf("the newest mark is of %d, want 0", got)
	}
	// A name that changed its UID while nobody looked.
	s.Apply(watch.Event{Type: watch.Added, Object: pod("p", "3")})
	if ops, _ := s.Take(); !slices.Equal(spell(ops), []string{"REMOVE 2", "ADD 3"}) {
		t.Errorf("KBL-03: it has %v", spell(ops))
	}
	if gone, known := s.Get("2"); gone != nil || !known {
		t.Error("the old UID is still there")
	}
}
