package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// countingAPI stores what it is told, and counts.
type countingAPI struct{ updates int }

func (*countingAPI) Create(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	return obj, nil
}

func (*countingAPI) Get(context.Context, podapi.Target, metav1.GetOptions) (kinds.Object, error) {
	return &corev1.Node{}, nil
}

func (a *countingAPI) Update(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	a.updates++
	return obj, nil
}

// healthyNode is a node without problems and volumes.
type healthyNode struct{}

func (healthyNode) Problems() []string                    { return nil }
func (healthyNode) Pressures() []corev1.NodeConditionType { return nil }
func (healthyNode) InUse() []corev1.UniqueVolumeName      { return nil }
func (healthyNode) InUseChanges() <-chan struct{}         { return nil }
func (healthyNode) Reported(_ []corev1.UniqueVolumeName)  {}

// TestReportsByTheTimeThatPasses has a node report a status that does not change every five
// minutes, also when its clock is set back or ahead.
func TestReportsByTheTimeThatPasses(t *testing.T) {
	for _, ahead := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			face, err := clock.NewSchedule(time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			movement, told := clock.NewDriver(face), &countingAPI{}
			n := New(Config{API: told, Driver: Driver{Clock: movement.Clock()}, Timing: Timing{Report: 5 * time.Minute}, Name: "n", Health: healthyNode{}, Volumes: healthyNode{}})
			report := func() {
				if err := n.Report(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			report()
			movement.SetSkew(clock.Skew{Since: movement.Clock().Steady(), Offset: ahead})
			for minute := range 11 {
				if want := 1 + minute/5; told.updates != want {
					t.Errorf("by %v: %d reports within %d minutes, want %d", ahead, told.updates, minute, want)
				}
				time.Sleep(time.Minute)
				report()
			}
		})
	}
}
