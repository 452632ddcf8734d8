package sim

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// TestDecodedOnce has the same bytes be one object, and another at another revision, for as long
// as they are remembered.
func TestDecodedOnce(t *testing.T) {
	data, err := kinds.Encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
	if err != nil {
		t.Fatal(err)
	}
	d := &Decoded{}
	first, err := d.object(data, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * cacheSize { // each of them is younger than the first
		if other, err := d.object(append([]byte{}, data...), 1); err != nil || other == first {
			t.Fatalf("other bytes: %v, the same object: %t", err, other == first)
		}
		if again, err := d.object(data, 1); err != nil || again != first {
			t.Fatalf("the same bytes: %v, the same object: %t", err, again == first)
		}
	}
	later, err := d.object(data, 2)
	if pod, is := later.(*corev1.Pod); err != nil || !is || later == first || pod.ResourceVersion != "2" {
		t.Errorf("another revision: %v, %v", later, err)
	}
	if _, err := d.object([]byte("no object"), 3); err == nil {
		t.Error("what is no object was decoded")
	}
}

// TestSharedObjectsStayUnchanged decodes all cached objects again at the end of a run: they must be
// unchanged.
func TestSharedObjectsStayUnchanged(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(Draw(seed, Safety, 20*time.Minute))
			defer c.End()
			if err := c.Run(c.script.Duration); err != nil {
				t.Fatal(err)
			}
			for _, all := range []map[bytesKey]cachedObject{c.decoded.young, c.decoded.old} {
				for at, as := range all {
					if fresh, err := decode(as.data, at.revision); err != nil || !equality.Semantic.DeepEqual(fresh, as.object) {
						t.Errorf("seed %d: revision %d was changed by who was given it: %v\n%v\n%v", seed, at.revision, err, fresh, as.object)
					}
				}
			}
		})
	}
}
