package customers

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/podfall/podfall/podfalltest"
)

// candidate wants to be the leader.
type candidate struct {
	line    cable
	leads   atomic.Bool
	stopped atomic.Bool
	cancel  context.CancelFunc
}

// TestLeaderElection lets two candidates contend for a Lease. The one that loses its
// connection loses the lead, the other takes it; and one that stops hands it over at once.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Nodes(1))
	leads := make(chan string, 10)
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	candidates := map[string]*candidate{"a": {}, "b": {}}
	for name, one := range candidates {
		one.stand(t, c.Config(), name, leads, &group)
	}

	first := next(t, leads)
	second := map[string]string{"a": "b", "b": "a"}[first]
	candidates[first].line.pull()
	if got := next(t, leads); got != second {
		t.Fatalf("after the leader's connection was lost %q leads, want %q", got, second)
	}
	eventually(t, "the one that was cut off knows that it leads no more", candidates[first].stopped.Load)

	candidates[first].line.plug()
	lease, err := clientFor(t, c).CoordinationV1().Leases("default").Get(t.Context(), "throne", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.HolderIdentity != second || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("the lease is %q's after %d transitions, want %q's after 1", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions, second)
	}

	third := &candidate{}
	third.stand(t, c.Config(), "c", leads, &group)
	began := time.Now()
	candidates[second].cancel() // it gives the lease back
	if got := next(t, leads); got != "c" {
		t.Errorf("after the leader stopped %q leads, want c", got)
	}
	if took := time.Since(began); took > leaseLasts {
		t.Errorf("the lead was handed over after %v, as if the lease had run out", took)
	}
}

// leaseLasts is longer than a machine that is busy keeps a leader from renewing it.
const leaseLasts = 25 * time.Second

// stand starts a candidate, who tells leads when it is elected.
func (c *candidate) stand(t *testing.T, config *rest.Config, name string, leads chan<- string, group *sync.WaitGroup) {
	t.Helper()
	client, err := c.line.through(config)
	if err != nil {
		t.Fatal(err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "throne"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: leaseLasts, RenewDeadline: leaseLasts * 3 / 4, RetryPeriod: 200 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { c.leads.Store(true); leads <- name },
			OnStoppedLeading: func() { c.stopped.Store(true) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	group.Go(func() { elector.Run(ctx) })
}

// next is who is elected next.
func next(t *testing.T, leads <-chan string) string {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case name := <-leads:
		return name
	case <-limit.C:
		t.Fatalf("nobody was elected in %v", patience)
		return ""
	}
}
