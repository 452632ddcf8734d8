package podsource

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podset"
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

func describeOps(ops []podset.Op) []string {
	var lines []string
	for _, op := range ops {
		lines = append(lines, fmt.Sprintf("%s %s", op.Verb, op.Pod.UID))
	}
	return lines
}

func TestSet(t *testing.T) {
	s := New()
	if _, known := s.Get("1"); known {
		t.Error("a pod is known to be absent before any list")
	}
	if _, ready := s.Take(); ready {
		t.Error("it is ready before any list")
	}
	s.Replace([]kinds.Object{pod("p", "1")}, "1")
	<-s.Wake()
	if ops, ready := s.Take(); !ready || !slices.Equal(describeOps(ops), []string{"ADD 1"}) {
		t.Errorf("after a list it has %v, ready %t", describeOps(ops), ready)
	}
	// A loop that looks late learns of the mark and of the removal, and of each once.
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled)})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled, marked(30))})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled, marked(0))})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("p", "1", labeled, marked(0), phase)})
	s.Apply(watch.Event{Type: watch.Deleted, Object: pod("p", "1", labeled, marked(0), phase)})
	s.Apply(watch.Event{Type: watch.Added, Object: pod("p", "2")})
	ops, _ := s.Take()
	if got, want := describeOps(ops), []string{"DELETE 1", "REMOVE 1", "ADD 2"}; !slices.Equal(got, want) {
		t.Fatalf("it has %v, want %v", got, want)
	}
	if got := *ops[0].Pod.DeletionGracePeriodSeconds; got != 0 {
		t.Errorf("the newest mark is of %d, want 0", got)
	}
	// What follows an addition that nobody has taken does not take its place.
	s.Apply(watch.Event{Type: watch.Added, Object: pod("q", "9")})
	s.Apply(watch.Event{Type: watch.Modified, Object: pod("q", "9", marked(30))})
	if ops, _ := s.Take(); !slices.Equal(describeOps(ops), []string{"ADD 9", "DELETE 9"}) {
		t.Errorf("KBL-02: it has %v", describeOps(ops))
	}
	// A name that changed its UID while nobody looked.
	s.Apply(watch.Event{Type: watch.Added, Object: pod("p", "3")})
	if ops, _ := s.Take(); !slices.Equal(describeOps(ops), []string{"REMOVE 2", "ADD 3"}) {
		t.Errorf("KBL-03: it has %v", describeOps(ops))
	}
	if gone, known := s.Get("2"); gone != nil || !known {
		t.Error("the old UID is still there")
	}
}

// TestTaken is how far a loop has come that looks late: not before it has taken all.
func TestTaken(t *testing.T) {
	s := New()
	at := func(revision string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.ResourceVersion = revision } }
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"nothing", func() {}, ""},
		{"a list", func() { s.Replace([]kinds.Object{pod("p", "1", at("3"))}, "5") }, ""},
		{"a look", func() { s.Take() }, "5"},
		{"a removal", func() { s.Apply(watch.Event{Type: watch.Deleted, Object: pod("p", "1", at("7"))}) }, "5"},
		{"another look", func() { s.Take() }, "7"},
		{"a bookmark", func() { s.Apply(watch.Event{Type: watch.Bookmark, Object: pod("", "", at("9"))}) }, "9"},
		{"the end of a watch", func() { s.Apply(watch.Event{Type: watch.Error, Object: pod("", "")}) }, "9"},
	}
	for _, step := range steps {
		if step.do(); s.TakenRevision() != step.want {
			t.Errorf("after %s it has come to %q, want %q", step.what, s.TakenRevision(), step.want)
		}
	}
}
