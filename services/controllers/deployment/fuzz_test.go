package deployment

import (
	"math"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// FuzzRemember: a revision is the last of those that a set remembers, the others before it are
// the newest that it remembered, and they have room.
func FuzzRemember(f *testing.F) {
	f.Fuzz(func(t *testing.T, before, old string) {
		set := &appsv1.ReplicaSet{}
		set.Annotations = map[string]string{historyAnnotation: before, RevisionAnnotation: old}
		appendRevisionHistory(set, old)
		got, all := set.Annotations[historyAnnotation], before+","+old
		if before == "" {
			all = old
		}
		if !strings.HasSuffix(all, got) || !strings.HasSuffix(got, old) {
			t.Errorf("%q and %q are remembered as %q", before, old, got)
		}
		if len(got) > max(maxHistoryLength, len(old)) && before != "" {
			t.Errorf("%d bytes are remembered", len(got))
		}
		next := (&planning{oldSets: []*appsv1.ReplicaSet{set}}).nextRevision()
		if last := revisionOf(set); next <= last && last != math.MaxInt64 { // behind which upstream has none, too
			t.Errorf("behind %q comes %d", old, next)
		}
	})
}
