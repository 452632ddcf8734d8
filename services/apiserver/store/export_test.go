package store_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/services/apiserver/store"
)

// TestExport reads from the file, once nobody has it, what OnCommit was told.
func TestExport(t *testing.T) {
	cfg := config(t)
	var told []history.Commit
	cfg.OnCommit = func(_ *store.Snapshot, events []store.Event) {
		for _, event := range events {
			told = append(told, event.Fact())
		}
	}
	s, stop := start(t, cfg)
	defer stop()
	made := small("web", "n1")
	made.UID, made.Finalizers, made.Status.Phase = "u1", []string{"ex.io/x"}, corev1.PodRunning
	first := put(t, s, write(made, store.Absent))
	marked := made.DeepCopy()
	marked.DeletionTimestamp, marked.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(0))
	put(t, s, write(marked, first[0].Revision), store.Write{Key: keyOf(marked), Expect: store.Previous})
	if _, err := store.Export(cfg.Path); !errors.Is(err, store.ErrLocked) {
		t.Errorf("while the store is open: %v, want ErrLocked", err)
	}
	stop()
	events, err := store.Export(cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := events[0].Fact.(history.Compact); !ok || len(events) != 4 {
		t.Fatalf("%d events, the first %+v; want a Compact and three commits", len(events), events[0].Fact)
	}
	for i, e := range events[1:] {
		c, ok := e.Fact.(history.Commit)
		if !ok || c.Revision != told[i].Revision || c.Op != told[i].Op || c.UID != "u1" || c.Object != told[i].Object || c.Previous != told[i].Previous ||
			c.Key != "default/web" || c.Node != "n1" || c.Phase != "Running" || len(c.Finalizers) != 1 || (c.Deadline == nil) != (i == 0) {
			t.Errorf("commit %d: %+v in the file, %+v told", i, c, told[i])
		}
	}
}
