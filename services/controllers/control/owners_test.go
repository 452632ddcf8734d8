package control

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
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
			face, err := clock.NewFace(time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			movement := clock.NewMovement(face)
			var again time.Duration
			owners := Owners[*corev1.Pod]{
				Clock: movement.Clock(), Expected: workload.NewExpectations(),
				Look: func(_ view.Key, after time.Duration) { again = after },
			}
			key := view.Key{Namespace: "default", Name: "web"}
			owners.Expected.Both(key, 1, []types.UID{"u1"}, owners.Clock.Steady())
			movement.Mislead(clock.Error{Since: time.Now(), Ahead: ahead})
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
