package control

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// TestExpectationsOnAWrongClock sets the clock wrong while an owner's view is stale: it is
// trusted again after as long as ever, by what has passed and not by what the clock shows.
func TestExpectationsOnAWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			face, err := clock.NewSchedule(time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			movement := clock.NewDriver(face)
			var again time.Duration
			owners := Owners[*corev1.Pod]{
				Clock: movement.Clock(), Expected: workload.NewExpectations(),
				Enqueue: func(_ view.Key, after time.Duration) { again = after },
			}
			key := view.Key{Namespace: "default", Name: "web"}
			owners.Expected.Expect(key, 1, []types.UID{"u1"}, owners.Clock.Steady())
			movement.SetSkew(clock.Skew{Since: time.Now(), Offset: ahead})
			if !owners.Stale(key) || again < time.Minute || again > 10*time.Minute {
				t.Errorf("%v ahead: stale is %v, looked at again after %v", ahead, owners.Stale(key), again)
			}
			time.Sleep(again)
			if owners.Stale(key) {
				t.Errorf("%v ahead: still stale after %v", ahead, again)
			}
		})
	}
}

// TestOwnerMadeAgain has an owner go, of which something is still expected: another of its name
// does not wait for that.
func TestOwnerMadeAgain(t *testing.T) {
	set := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	var looks []view.Key
	owners := Owners[*corev1.Pod]{
		Expected: workload.NewExpectations(), Enqueue: func(key view.Key, _ time.Duration) { looks = append(looks, key) },
	}
	owners.Expected.Expect(view.KeyOf(set), 1, nil, owners.Clock.Steady())
	owners.OwnerChanged(set)
	if len(looks) != 1 || !owners.Stale(view.KeyOf(set)) {
		t.Errorf("of one that has changed nothing is expected; looked at %v", looks)
	}
	looks = nil
	owners.OwnerDeleted(set)
	if len(looks) != 1 || owners.Stale(view.KeyOf(set)) {
		t.Errorf("of one that is gone something is expected; looked at %v", looks)
	}
}
