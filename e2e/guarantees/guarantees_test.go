package guarantees_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	invariants "github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/e2e/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/podfalltest"
)

// The seeds to run: -seeds 1000 -from 500 takes some minutes.
var (
	seeds = flag.Uint64("seeds", 12, "how many seeds to run")
	from  = flag.Uint64("from", 0, "the first seed")
)

// TestSeededRuns runs seeded clusters: pods are created, deleted gracefully and by force, and
// created again, while nodes are cut off and processes crash. No invariant may be violated, and
// together the runs must exercise every checker.
func TestSeededRuns(t *testing.T) {
	cases := map[string]int{}
	for seed := *from; seed < *from+*seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for _, r := range runSeed(t, seed, withFaults) {
				cases[r.ID] += r.Cases
				if r.Err() != nil {
					t.Error(r.Err())
				}
			}
		})
	}
	for _, p := range invariants.Invariants() {
		t.Logf("%s: %d cases", p.ID, cases[p.ID])
		if p.Unchecked == "" && cases[p.ID] == 0 && !slices.Contains(rare(), p.ID) && *seeds >= 12 {
			t.Errorf("no run had a case of %s, %s", p.ID, p.Statement)
		}
	}
}

// rare names the invariants of which these runs have no case, or not always: a failing disk, owners
// waiting for blockers, overlapping incarnations, an apiserver that is down alone. Webhooks,
// attached volumes and Jobs are exercised by the simulator.
func rare() []string { return []string{"A11", "A15", "D11", "K16", "C2", "C7", "C10", "C11", "L6"} }

// TestFaultFreeRuns runs clusters without faults: no alarm may be false.
func TestFaultFreeRuns(t *testing.T) {
	for seed := *from; seed < *from+*seeds/2; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for _, r := range runSeed(t, seed, faultFree) {
				if r.Err() != nil {
					t.Error(r.Err())
				}
			}
		})
	}
}

// The sides of the dice that choose the next step. With the higher numbers things break.
const (
	faultFree  = 14
	withFaults = 20
)

// runSeed runs one seed and returns the verdicts.
func runSeed(t *testing.T, seed uint64, sides int) (results []invariants.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := &keptCluster{T: t, dir: t.TempDir()}
		t.Cleanup(func() { results = cluster.check() }) // after the cluster's own
		r := newRun(cluster, seed)
		r.createSets()
		for i := range 40 {
			r.read(i)
			r.deleteOwners(i)
			r.step(r.rand.IntN(sides))
			time.Sleep(r.upTo(15 * time.Second))
		}
		r.healAll()
		time.Sleep(5 * time.Minute)
	})
	return results
}

// keptCluster is a test that knows where the data of its cluster are.
type keptCluster struct {
	*testing.T

	dir string
	n   int
	// history is how many changes the apiserver remembers; 0 for the default.
	history int
	// mayEnd is the part that the test makes end by itself; empty for none.
	mayEnd string
}

// TempDir implements testing.TB.
func (k *keptCluster) TempDir() string {
	k.n++
	return filepath.Join(k.dir, fmt.Sprint(k.n))
}

// check checks what the cluster left behind.
func (k *keptCluster) check() []invariants.Result {
	dir := filepath.Join(k.dir, "1")
	results, err := guarantees.Check(context.WithoutCancel(k.Context()), dir)
	if err != nil {
		k.Fatal(err)
	}
	log, err := history.Read(filepath.Join(dir, "history"))
	if err != nil {
		k.Fatal(err)
	}
	found := guarantees.Linearizable(log.Events)
	if found.Violation != "" || len(found.Unknown) > 0 || found.Operations == 0 {
		k.Errorf("porcupine: %+v", found)
	}
	k.Logf("porcupine: %d requests to %d pods", found.Operations, found.Objects)
	return results
}

// seededRun is one run from a seed.
type seededRun struct {
	*podfalltest.Cluster

	t         *testing.T
	rand      *rand.Rand
	client    kubernetes.Interface
	down, cut map[string]bool
}

func (r *seededRun) upTo(d time.Duration) time.Duration {
	return time.Duration(r.rand.Int64N(int64(d)))
}

// step does one thing. Refusals and failures of the API are part of the run.
func (r *seededRun) step(dice int) {
	name := r.name()
	switch {
	case dice == 12:
		r.contend(r.pods(), name)
	case dice < 14:
		r.request(r.t.Context(), name, dice)
	case dice < 16:
		r.partition(fmt.Sprint("node-", 1+r.rand.IntN(2)))
	case dice < 18:
		parts := r.Parts()
		r.crash(parts[r.rand.IntN(len(parts))])
	default:
		r.healAll()
	}
}

// request makes one request about a pod.
func (r *seededRun) request(ctx context.Context, name string, dice int) {
	pods := r.pods()
	switch {
	case dice < 7:
		_, _ = pods.Create(ctx, r.pod(name), metav1.CreateOptions{})
	case dice < 9:
		_ = pods.Delete(ctx, name, metav1.DeleteOptions{})
	case dice < 11:
		_ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(r.rand.Int64N(20) - 2)})
	case dice < 12:
		_ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	default:
		_, _ = pods.Patch(ctx, name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
}

func (r *seededRun) pods() typed.PodInterface { return r.client.CoreV1().Pods("default") }

func (r *seededRun) name() string { return fmt.Sprint("web-", r.rand.IntN(4)) }

// contend has two clients write the same version. One of them must lose.
func (r *seededRun) contend(pods typed.PodInterface, name string) {
	pod, err := pods.Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return
	}
	var both sync.WaitGroup
	for i := range 2 {
		mine := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&mine.ObjectMeta, "example.com/writer", fmt.Sprint(i))
		both.Go(func() { _, _ = pods.Update(r.t.Context(), mine, metav1.UpdateOptions{}) })
	}
	both.Wait()
}

// partition cuts a node off.
func (r *seededRun) partition(node string) {
	if !r.cut[node] {
		r.Cut(node)
	}
	r.cut[node] = true
}

// crash crashes a part.
func (r *seededRun) crash(part string) {
	if !r.down[part] {
		r.Crash(part)
	}
	r.down[part] = true
}

// healAll heals all cuts and restarts all parts. Kubelets come last, because they need the rest.
func (r *seededRun) healAll() {
	for _, kubelets := range []bool{false, true} {
		for _, part := range r.Parts() {
			if r.down[part] && strings.HasPrefix(part, "kubelet/") == kubelets {
				r.Restart(part)
				delete(r.down, part)
			}
		}
		for _, node := range r.Nodes() {
			if r.cut[node] {
				r.Heal(node)
				delete(r.cut, node)
			}
		}
	}
}

// pod returns a pod with a script, a grace period, and sometimes a hook or a finalizer.
func (r *seededRun) pod(name string) *corev1.Pod {
	scripts := []string{"", "ignores TERM", fmt.Sprintf("on TERM exits %d after %v", r.rand.IntN(2), r.upTo(40*time.Second))}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(r.rand.Int64N(40)),
			Containers:                    []corev1.Container{{Name: "main", Image: "web"}},
			Volumes:                       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	if script := scripts[r.rand.IntN(len(scripts))]; script != "" {
		pod.Annotations["script.podfall.io/main"] = script
	}
	if r.rand.IntN(3) == 0 {
		sleep := &corev1.SleepAction{Seconds: 1 + r.rand.Int64N(30)}
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: sleep}}
	}
	if r.rand.IntN(6) == 0 {
		pod.Finalizers = []string{"example.com/backup"}
	}
	return pod
}
