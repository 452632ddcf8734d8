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

// The seeds to play: -seeds 1000 -from 500 takes some minutes.
var (
	seeds = flag.Uint64("seeds", 12, "how many seeds to play")
	from  = flag.Uint64("from", 0, "the first seed")
)

// TestLives plays seeded lives: pods are made, deleted gracefully and by force, and made
// again, while nodes are cut off and processes crash. Whatever happens, no promise is
// broken, and between them the lives put every checker to the test.
func TestLives(t *testing.T) {
	cases := map[string]int{}
	for seed := *from; seed < *from+*seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for _, r := range live(t, seed, troubled) {
				cases[r.ID] += r.Cases
				if r.Err() != nil {
					t.Error(r.Err())
				}
			}
		})
	}
	for _, p := range promises.Properties() {
		t.Logf("%s: %d cases", p.ID, cases[p.ID])
		if p.Unchecked == "" && cases[p.ID] == 0 && !slices.Contains(rare(), p.ID) && *seeds >= 12 {
			t.Errorf("no life had a case of %s, %s", p.ID, p.Promise)
		}
	}
}

// rare are properties whose cases these lives do not bring about, or not always: a disk that
// fails, owners that wait for what blocks them, two lives of one identity that overlap, an
// apiserver that is down alone; and webhooks, volumes to be attached and Jobs, which are in the
// simulator's.
func rare() []string { return []string{"A11", "A15", "D11", "K16", "C2", "C7", "C10", "C11", "L6"} }

// TestQuiet plays lives in which nothing is broken: no alarm may be false.
func TestQuiet(t *testing.T) {
	for seed := *from; seed < *from+*seeds/2; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for _, r := range live(t, seed, quiet) {
				if r.Err() != nil {
					t.Error(r.Err())
				}
			}
		})
	}
}

// The sides of the dice by which a life goes on: with the higher ones things break.
const (
	quiet    = 14
	troubled = 20
)

// live plays one life and returns what became of each promise.
func live(t *testing.T, seed uint64, sides int) (results []promises.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kept := &keeping{T: t, dir: t.TempDir()}
		t.Cleanup(func() { results = kept.check() }) // after the cluster's own
		l := newLife(kept, seed)
		l.sets()
		for i := range 40 {
			l.look(i)
			l.falls(i)
			l.step(l.rand.IntN(sides))
			time.Sleep(l.upTo(15 * time.Second))
		}
		l.mend()
		time.Sleep(5 * time.Minute)
	})
	return results
}

// keeping is a test that knows where its cluster's data are.
type keeping struct {
	*testing.T

	dir string
	n   int
	// history is how many changes its apiserver remembers; 0 is the usual.
	history int
	// ends is the part that the test makes end by itself; empty for none.
	ends string
}

// TempDir implements testing.TB.
func (k *keeping) TempDir() string {
	k.n++
	return filepath.Join(k.dir, fmt.Sprint(k.n))
}

// check checks what the cluster has left behind.
func (k *keeping) check() []promises.Result {
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
	if found.Broken != "" || len(found.Unknown) > 0 || found.Operations == 0 {
		k.Errorf("porcupine: %+v", found)
	}
	k.Logf("porcupine: %d requests to %d pods", found.Operations, found.Objects)
	return results
}

// life is one seeded run.
type life struct {
	*podfalltest.Cluster

	t         *testing.T
	rand      *rand.Rand
	client    kubernetes.Interface
	down, cut map[string]bool
}

func (l *life) upTo(d time.Duration) time.Duration { return time.Duration(l.rand.Int64N(int64(d))) }

// step does one thing. What the API refuses, or cannot be asked, is part of the life.
func (l *life) step(dice int) {
	name := l.name()
	switch {
	case dice == 12:
		l.contend(l.pods(), name)
	case dice < 14:
		l.ask(l.t.Context(), name, dice)
	case dice < 16:
		l.partition(fmt.Sprint("node-", 1+l.rand.IntN(2)))
	case dice < 18:
		parts := l.Parts()
		l.crash(parts[l.rand.IntN(len(parts))])
	default:
		l.mend()
	}
}

// ask makes one request about a pod.
func (l *life) ask(ctx context.Context, name string, dice int) {
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

func (l *life) pods() typed.PodInterface { return l.client.CoreV1().Pods("default") }

func (l *life) name() string { return fmt.Sprint("web-", l.rand.IntN(4)) }

// contend has two write what they have read, of whom one must lose.
func (l *life) contend(pods typed.PodInterface, name string) {
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
func (l *life) partition(node string) {
	if !l.cut[node] {
		l.Cut(node)
	}
	l.cut[node] = true
}

// crash crashes a part.
func (l *life) crash(part string) {
	if !l.down[part] {
		l.Crash(part)
	}
	l.down[part] = true
}

// mend heals and starts everything; kubelets need the rest.
func (l *life) mend() {
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

// pod is one with a script, a grace period, and sometimes a hook or a finalizer.
func (l *life) pod(name string) *corev1.Pod {
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
