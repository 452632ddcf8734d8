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

// TestCurrentObjectsAreNotDecodedAgain: every watch resumes when an apiserver has begun anew, and
// all of them would decode what the store has in memory.
func TestCurrentObjectsAreNotDecodedAgain(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	s, stop := start(t, cfg)
	made := put(t, s, write(small("stays", "n1"), store.Absent), write(small("changes", "n1"), store.Absent))
	put(t, s, write(small("changes", "n2"), made[1].Revision))
	stop()

	s = open(t, cfg)
	events, err := s.Since(made[0].Revision - 1)
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events, error %v, want 3", len(events), err)
	}
	for i, isCurrent := range []bool{true, false, true} {
		now := s.Snapshot().Get(events[i].Record.Key)
		if (events[i].Record == now) != isCurrent || (events[i].Record.Revision == now.Revision) != isCurrent {
			t.Errorf("event %d has %s decoded anew, or not what it was: want the current record %t", i, now.Key, isCurrent)
		}
	}
	if events[2].Previous != events[1].Record {
		t.Error("what the second version replaced was decoded twice")
	}
}
