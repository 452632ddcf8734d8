package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// leaseAPI has the node's lease, as an apiserver does; nil is none.
type leaseAPI struct {
	held *coordinationv1.Lease
}

func (l *leaseAPI) Create(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.CreateOptions) (kinds.Object, error) {
	l.held, _ = obj.DeepCopyObject().(*coordinationv1.Lease)
	l.held.ResourceVersion = "7"
	return l.held, nil
}

func (l *leaseAPI) Get(_ context.Context, t podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	if l.held == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, t.Name)
	}
	return l.held, nil
}

func (l *leaseAPI) Update(_ context.Context, _ podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	if l.held == nil && obj.GetResourceVersion() != "" {
		return nil, apierrors.NewInternalError(errors.New("resourceVersion should not be set on objects to be created"))
	}
	return obj, nil
}

// TestALeaseThatWentIsMadeAgain: the garbage collector takes a lease away with its node, and the
// kubelet, which lives on, makes another with the next renewal.
func TestALeaseThatWentIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leaseAPI{}
		n := New(Config{API: l, Timing: Timing{LeaseRenew: 10 * time.Second, LeaseDuration: 40 * time.Second}, Name: "n", Health: healthyNode{}, Volumes: healthyNode{}})
		for range 2 {
			if err := n.renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		l.held = nil
		if err := n.renew(t.Context()); err != nil {
			t.Error(err)
		}
		if l.held == nil {
			t.Error("the lease was not made again")
		}
	})
}

// hangingAPI answers no report of the node's status.
type hangingAPI struct {
	countingAPI
	renewed atomic.Int32
}

func (d *hangingAPI) Update(ctx context.Context, target podapi.Target, obj kinds.Object, _ metav1.UpdateOptions) (kinds.Object, error) {
	if target.Subresource == "status" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	d.renewed.Add(1)
	return obj, nil
}

// TestLeaseGoesOn: a report that is not answered holds up no lease.
func TestLeaseGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := &hangingAPI{}
		n := New(Config{
			API: told, Name: "n", Health: healthyNode{}, Volumes: healthyNode{},
			Timing: Timing{LeaseRenew: 10 * time.Second, LeaseDuration: 40 * time.Second, Compute: 10 * time.Second, Report: 5 * time.Minute},
		})
		if err := n.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- n.Run(ctx) }()
		time.Sleep(time.Minute + time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		if got := told.renewed.Load(); got != 6 { // the first renewal makes it
			t.Errorf("renewed %d times within a minute, want 6", got)
		}
	})
}
