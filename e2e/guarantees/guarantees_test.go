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

	promises "github.com/podfall/podfall/analysis/guarantees"
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
	for _, p := range promises.Invariants() {
		t.Logf("%s: %d cases", p.ID, cases[p.ID])
		if p.Unchecked == "" && cases[p.ID] == 0 && !slices.Contains(rare(), p.ID) && *seeds >= 12 {
			t.Errorf("no life had a case of %s, %s", p.ID, p.Statement)
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
func runSeed(t *testing.T, seed uint64, sides int) (results []promises.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kept := &keptCluster{T: t, dir: t.TempDir()}
		t.Cleanup(func() { results = kept.check() }) // after the cluster's own
		l := newRun(kept, seed)
		l.createSets()
		for i := range 40 {
			l.read(i)
			l.deleteOwners(i)
			l.step(l.rand.IntN(sides))
			time.Sleep(l.upTo(15 * time.Second))
		}
		l.healAll()
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
func (k *keptCluster) check() []promises.Result {
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

func (l *seededRun) upTo(d time.Duration) time.Duration {
	return time.Duration(l.rand.Int64N(int64(d)))
}

// step does one thing. Refusals and failures of the API are part of the run.
func (l *seededRun) step(dice int) {
	name := l.name()
	switch {
	case dice == 12:
		l.contend(l.pods(), name)
	case dice < 14:
		l.request(l.t.Context(), name, dice)
	case dice < 16:
		l.partition(fmt.Sprint("node-", 1+l.rand.IntN(2)))
	case dice < 18:
		parts := l.Parts()
		l.crash(parts[l.rand.IntN(len(parts))])
	default:
		l.healAll()
	}
}

// request makes one request about a pod.
func (l *seededRun) request(ctx context.Context, name string, dice int) {
	pods := l.pods()
	switch {
	case dice < 7:
		_, _ = pods.Create(ctx, l.pod(name), metav1.CreateOptions{})
	case dice < 9:
		_ = pods.Delete(ctx, name, metav1.DeleteOptions{})
	case dice < 11:
		_ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(l.rand.Int64N(20) - 2)})
	case dice < 12:
		_ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	default:
		_, _ = pods.Patch(ctx, name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
}

func (l *seededRun) pods() typed.PodInterface { return l.client.CoreV1().Pods("default") }

func (l *seededRun) name() string { return fmt.Sprint("web-", l.rand.IntN(4)) }

// contend has two clients write the same version. One of them must lose.
func (l *seededRun) contend(pods typed.PodInterface, name string) {
	pod, err := pods.Get(l.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return
	}
	var both sync.WaitGroup
	for i := range 2 {
		mine := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&mine.ObjectMeta, "example.com/writer", fmt.Sprint(i))
		both.Go(func() { _, _ = pods.Update(l.t.Context(), mine, metav1.UpdateOptions{}) })
	}
	both.Wait()
}

// partition cuts a node off.
func (l *seededRun) partition(node string) {
	if !l.cut[node] {
		l.Cut(node)
	}
	l.cut[node] = true
}

// crash crashes a part.
func (l *seededRun) crash(part string) {
	if !l.down[part] {
		l.Crash(part)
	}
	l.down[part] = true
}

// healAll heals all cuts and restarts all parts. Kubelets come last, because they need the rest.
func (l *seededRun) healAll() {
	for _, kubelets := range []bool{false, true} {
		for _, part := range l.Parts() {
			if l.down[part] && strings.HasPrefix(part, "kubelet/") == kubelets {
				l.Restart(part)
				delete(l.down, part)
			}
		}
		for _, node := range l.Nodes() {
			if l.cut[node] {
				l.Heal(node)
				delete(l.cut, node)
			}
		}
	}
}

// pod returns a pod with a script, a grace period, and sometimes a hook or a finalizer.
func (l *seededRun) pod(name string) *corev1.Pod {
	scripts := []string{"", "ignores TERM", fmt.Sprintf("on TERM exits %d after %v", l.rand.IntN(2), l.upTo(40*time.Second))}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(l.rand.Int64N(40)),
			Containers:                    []corev1.Container{{Name: "main", Image: "web"}},
			Volumes:                       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	if script := scripts[l.rand.IntN(len(scripts))]; script != "" {
		pod.Annotations["script.podfall.io/main"] = script
	}
	if l.rand.IntN(3) == 0 {
		sleep := &corev1.SleepAction{Seconds: 1 + l.rand.Int64N(30)}
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: sleep}}
	}
	if l.rand.IntN(6) == 0 {
		pod.Finalizers = []string{"example.com/backup"}
	}
	return pod
}
