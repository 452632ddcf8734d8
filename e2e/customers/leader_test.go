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

// candidate runs in a leader election.
type candidate struct {
	line    flakyDialer
	leads   atomic.Bool
	stopped atomic.Bool
	cancel  context.CancelFunc
}

// TestLeaderElection lets two candidates contend for a Lease. If the leader loses its connection,
// the other candidate takes over. A leader that stops hands over at once.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Nodes(1))
	leads := make(chan string, 10)
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	candidates := map[string]*candidate{"a": {}, "b": {}}
	for name, one := range candidates {
		one.run(t, c.Config(), name, leads, &group)
	}

	first := nextLeader(t, leads)
	second := map[string]string{"a": "b", "b": "a"}[first]
	candidates[first].line.disconnect()
	if got := nextLeader(t, leads); got != second {
		t.Fatalf("after the leader's connection was lost %q leads, want %q", got, second)
	}
	eventually(t, "the one that was cut off knows that it leads no more", candidates[first].stopped.Load)

	candidates[first].line.reconnect()
	lease, err := newClient(t, c).CoordinationV1().Leases("default").Get(t.Context(), "throne", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.HolderIdentity != second || *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("the lease is %q's after %d transitions, want %q's after 1", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions, second)
	}

	third := &candidate{}
	third.run(t, c.Config(), "c", leads, &group)
	began := time.Now()
	candidates[second].cancel() // it releases the lease
	if got := nextLeader(t, leads); got != "c" {
		t.Errorf("after the leader stopped %q leads, want c", got)
	}
	if took := time.Since(began); took > leaseDuration {
		t.Errorf("the lead was handed over after %v, as if the lease had run out", took)
	}
}

// leaseDuration is longer than a busy machine can delay a leader's renewal.
const leaseDuration = 25 * time.Second

// run starts a candidate, which sends its name on leads when it is elected.
func (c *candidate) run(t *testing.T, config *rest.Config, name string, leads chan<- string, group *sync.WaitGroup) {
	t.Helper()
	client, err := c.line.newClient(config)
	if err != nil {
		t.Fatal(err)
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "throne"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: leaseDuration, RenewDeadline: leaseDuration * 3 / 4, RetryPeriod: 200 * time.Millisecond,
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

// nextLeader returns the next elected candidate.
func nextLeader(t *testing.T, leads <-chan string) string {
	t.Helper()
	limit := time.NewTimer(conditionTimeout)
	defer limit.Stop()
	select {
	case name := <-leads:
		return name
	case <-limit.C:
		t.Fatalf("nobody was elected in %v", conditionTimeout)
		return ""
	}
}
