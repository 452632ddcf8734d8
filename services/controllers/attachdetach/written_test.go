package attachdetach

import (
	"strings"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// at is an attachment in one version.
func at(name, revision string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name), ResourceVersion: revision}}
}

// TestWritten has a view that is late show what was written, and nothing that was seen to go.
func TestWritten(t *testing.T) {
	var w Overlay[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]
	view := []*storagev1.VolumeAttachment{at("b", "5")}
	expect := func(what, want string, after time.Duration) {
		t.Helper()
		var said []string
		for _, one := range w.Merge(func() []*storagev1.VolumeAttachment { return view }, origin.Add(after)) {
			said = append(said, one.Name+one.ResourceVersion)
		}
		if got := strings.Join(said, " "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("nothing was written", "b5", 0)
	w.Put(at("b", "9"), origin)
	w.Put(at("b", "7"), origin) // its answer came late
	w.Put(at("a", "8"), origin)
	expect("the view is late", "a8 b9", 0)
	w.Observe(nil, at("a", "8"))
	w.Observe(at("b", "5"), at("b", "6"))
	expect("it has shown the first, and an older version of the second", "b9", 0)
	view = nil
	w.Observe(at("b", "6"), nil)
	expect("it has shown that the second is gone", "", 0)
	w.Put(at("c", "12"), origin)
	expect("it never shows the third", "c12", maxViewDelay)
	expect("it never shows the third", "", maxViewDelay+time.Second)
}
