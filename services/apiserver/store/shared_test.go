package store_test

import (
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/services/apiserver/store"
)

// TestEncodingChangesNothingThatIsShared: a quantity notes its text when it is encoded, and
// what replaces an object shares quantities with it. Those that are read from a file have to
// have noted it before anybody sees them.
func TestEncodingChangesNothingThatIsShared(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	pod := podNamed("a")
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1.5Gi"))},
	}})
	s, stop := start(t, store.Config{Path: path, NoSync: true})
	commit := store.Commit{Writes: []store.Write{{Key: keyOf(pod), Expect: store.Absent, Object: pod}}}
	if _, err := s.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	stop()

	record := open(t, store.Config{Path: path, NoSync: true}).Snapshot().Get(keyOf(pod))
	kept, ok := record.Object.(*corev1.Pod)
	if !ok {
		t.Fatalf("a %T is kept", record.Object)
	}
	limit := kept.Spec.Volumes[len(kept.Spec.Volumes)-1].EmptyDir.SizeLimit
	before := *limit
	kept.Size()
	if *limit != before {
		t.Error("the quantity was written to when its pod was encoded")
	}
}
