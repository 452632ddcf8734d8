package procs

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	layouts "github.com/podfall/podfall/cmd/podfall/cluster"
	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// dial returns a client that outlives the cluster's processes.
func (c *cluster) dial() client {
	c.t.Helper()
	return client{podapi.New(c.connect(), podapi.Config{})}
}

func (c *cluster) connect() *bus.Conn {
	c.t.Helper()
	layout := layouts.Layout{Root: c.data}
	addresses, err := layout.Addresses()
	if err != nil {
		c.t.Fatal(err)
	}
	id := proto.Client("admin")
	seed, err := bus.LoadSeed(layout.Keys(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := bus.Dial(c.t.Context(), bus.Config{URLs: addresses.Hub, Identity: id, Seed: seed})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	return conn
}

func pods(name string) podapi.Target {
	kind, _ := kinds.ByResource("pods")
	return podapi.Target{Kind: kind, Namespace: "default", Name: name}
}

// ledger records what the apiserver has acknowledged to one client.
type ledger struct {
	mu sync.Mutex
	// live holds the pods with an acknowledged create and no delete request; deleting holds those
	// with one.
	live, deleting map[string]types.UID
	// highest is the largest acknowledged revision.
	highest uint64
	writes  int
}

func (l *ledger) recordAck(obj kinds.Object) {
	revision, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err == nil {
		l.highest = max(l.highest, revision)
	}
	l.writes++
}

// work creates and deletes pods until ctx ends.
func (l *ledger) work(ctx context.Context, api client, worker int, rng *rand.Rand) {
	for number := 0; ctx.Err() == nil; number++ {
		name := fmt.Sprintf("w%d-%d", worker, number)
		grace := int64(rng.IntN(3) + 1)
		script := []string{"on TERM exits 0 after 0s", "ignores TERM", "on TERM exits 3 after 200ms"}[rng.IntN(3)]
		created, err := api.Create(ctx, pods(name), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"script.podfall.io/main": script}},
			Spec: corev1.PodSpec{
				Containers:                    []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
				TerminationGracePeriodSeconds: &grace,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			continue // not acknowledged: the pod may or may not exist
		}
		l.mu.Lock()
		l.recordAck(created)
		l.live[name] = created.GetUID()
		l.mu.Unlock()
		if rng.IntN(2) == 0 {
			l.delete(ctx, api, name, []*int64{nil, nil, nil, new(int64)}[rng.IntN(4)])
		}
	}
}

func (l *ledger) delete(ctx context.Context, api client, name string, grace *int64) {
	l.mu.Lock()
	l.deleting[name] = l.live[name]
	delete(l.live, name)
	l.mu.Unlock()
	deleted, err := api.Delete(ctx, pods(name), metav1.DeleteOptions{GracePeriodSeconds: grace})
	if pod, ok := deleted.(*corev1.Pod); ok && err == nil {
		l.mu.Lock()
		l.recordAck(pod)
		l.mu.Unlock()
	}
}

// check compares what was acknowledged before the call with what is stored.
func (l *ledger) check(t *testing.T, api client) {
	t.Helper()
	l.mu.Lock()
	live, highest := maps.Clone(l.live), l.highest
	l.mu.Unlock()
	list, err := api.List(t.Context(), pods(""), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]types.UID{}
	for _, item := range list.Items {
		stored[item.GetName()] = item.GetUID()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, uid := range live {
		if _, deleted := l.deleting[name]; stored[name] != uid && !deleted {
			t.Errorf("broke A1: the create of %s (%s) was acknowledged, and now %q is stored", name, uid, stored[name])
		}
	}
	revision, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil || revision < highest {
		t.Errorf("broke A3: the store is at revision %s, and %d had been acknowledged (%v)", list.ResourceVersion, highest, err)
	}
}

// TestCrash kills processes with SIGKILL at random times while pods are created and deleted: one,
// several or all. After each round the cluster is started again. No acknowledged write may be
// missing, and the revision must not go back. At the end every deleted pod must be gone.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := up(t, "--nodes", "2", "--timing", "fastest")
	api := c.dial()
	acks := &ledger{live: map[string]types.UID{}, deleting: map[string]types.UID{}}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	for worker := range 4 {
		workers.Go(func() { acks.work(ctx, api, worker, rand.New(rand.NewPCG(seed, uint64(worker)+1))) })
	}
	names := []string{"supervisor", "bus", "apiserver", "controllers", "kubelet/node-1", "kubelet/node-2", "runtime/node-1", "runtime/node-2"}
	for round := range *rounds {
		sleep(ctx, time.Duration(rng.IntN(300))*time.Millisecond)
		victims := drawVictims(rng, names)
		c.kill(victims...)
		sleep(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
		c.must("up", "--detach", "--nodes", "2", "--timing", "fastest")
		acks.check(t, api)
		if t.Failed() {
			t.Fatalf("in round %d, after kill -9 of %s", round, strings.Join(victims, ", "))
		}
	}
	cancel()
	workers.Wait()
	acks.drain(t, api)
	t.Logf("figures: %d rounds, %d acknowledged writes, last revision %d", *rounds, acks.writes, acks.highest)
}

// drawVictims returns one process, several or all.
func drawVictims(rng *rand.Rand, names []string) []string {
	switch rng.IntN(6) {
	case 0:
		return names
	case 1:
		some := slices.Clone(names)
		rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		return some[:2+rng.IntN(3)]
	default:
		return []string{names[rng.IntN(len(names))]}
	}
}

// sleep places a fault at a random time; no condition depends on it.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// drain deletes every pod, including those with an unacknowledged create, and waits until all are
// gone.
func (l *ledger) drain(t *testing.T, api client) {
	t.Helper()
	var left []kinds.Object
	t.Cleanup(func() {
		for _, item := range left {
			if pod, ok := item.(*corev1.Pod); ok {
				t.Logf("still there: %s on %q: %s", pod.Name, pod.Spec.NodeName, stage.Summary(pod))
			}
		}
	})
	eventually(t, "every pod is gone", func() bool {
		list, err := api.List(t.Context(), pods(""), metav1.ListOptions{})
		if err != nil {
			return false
		}
		left = list.Items
		for _, item := range left {
			if item.GetDeletionTimestamp() != nil {
				continue
			}
			if _, err := api.Delete(t.Context(), pods(item.GetName()), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		return len(left) == 0
	})
}
