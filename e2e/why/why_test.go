// Package why_test asks clusters that are broken in seeded ways why a pod is still there,
// and clusters that are not.
package why_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/podfalltest"
)

// runs is how many seeds are played: with -runs 1000 it takes some minutes.
var runs = flag.Int("runs", 50, "how many seeds to play")

// round is one seeded run.
type round struct {
	*podfalltest.Cluster

	t      *testing.T
	rand   *rand.Rand
	client kubernetes.Interface
	pod    *corev1.Pod
	grace  int64
}

// TestNamesTheCause breaks a cluster in a seeded way, deletes a pod, and asks why once the
// pod is overdue: within 5 s the cause that was injected is named, and no other. Left out are
// the causes by which no deletion of a pod is stuck: STK-29, a clock that nothing acts on,
// STK-30, another pod of the same name, STK-31, a namespace's, and STK-34, which is over in
// seconds. Scenarios play those.
func TestNamesTheCause(t *testing.T) {
	all := slices.Concat(ownersTroubles(), nodesTroubles(), peculiarTroubles())
	for seed := range *runs {
		broken := all[seed%len(all)]
		t.Run(fmt.Sprint("seed ", seed, " ", broken.id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, uint64(seed), broken.options...)
				r.suffer(broken)
				r.names(broken.id)
			})
		})
	}
	t.Logf("figures: %d causes", *runs)
}

// TestNamesBoth has a node that cannot confirm, and a finalizer that nobody removes: both are
// named at once. When the node is mended the finalizer is what is left.
func TestNamesBoth(t *testing.T) {
	nodes, owners := nodesTroubles(), ownersTroubles()
	for seed := range *runs {
		one, other := nodes[seed%len(nodes)], owners[seed/len(nodes)%len(owners)]
		t.Run(fmt.Sprint("seed ", seed, " ", one.id, " ", other.id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				both := one
				both.options = slices.Concat(one.options, other.options)
				both.prepare = func(r *round) { call(one.prepare, r); call(other.prepare, r) }
				r := begin(t, uint64(seed), both.options...)
				r.suffer(both)
				r.names(one.id, other.id)
				if one.mend == nil {
					return
				}
				one.mend(r)
				r.until("its node lets the pod go", func() bool { pod := r.look(); return pod == nil || *pod.DeletionGracePeriodSeconds == 0 })
				time.Sleep(10 * time.Second)
				r.names(other.id)
			})
		})
	}
}

// suffer brings a trouble about, and deletes the pod, until it is overdue.
func (r *round) suffer(broken trouble) {
	call(broken.prepare, r)
	if broken.starting {
		r.begin()
	} else {
		r.run()
	}
	time.Sleep(r.upTo(20 * time.Second))
	call(broken.before, r)
	if broken.deleted != nil {
		broken.deleted(r)
	} else {
		r.delete()
	}
	call(broken.after, r)
	asked := broken.asked
	if asked == 0 {
		asked = time.Duration(r.grace)*time.Second + 10*time.Second
	}
	time.Sleep(asked)
}

// names asks for 5 s until exactly these causes are named.
func (r *round) names(causes ...string) {
	r.t.Helper()
	var named []string
	for range 5 {
		if named = r.ids(); slices.Equal(named, causes) {
			return
		}
		time.Sleep(time.Second)
	}
	r.t.Errorf("grace %ds: named %v, want %v: %+v", r.grace, named, causes, r.Why("pods", "default", "web").Findings)
}

// TestHealthy deletes pods that end in time, and asks all the while.
func TestHealthy(t *testing.T) {
	for seed := range *runs / 4 {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, uint64(seed), podfalltest.UpstreamTiming())
				scripted(fmt.Sprintf("on TERM exits %d after %v", r.rand.IntN(2), r.upTo(time.Duration(r.grace)*time.Second+5*time.Second)))(r)
				r.run()
				time.Sleep(r.upTo(20 * time.Second))
				r.delete()
				for range 400 {
					if report := r.Why("pods", "default", "web"); len(report.Findings) > 0 {
						t.Fatalf("grace %ds, %s: %+v", r.grace, r.pod.Annotations, report.Findings)
					}
					if _, err := r.client.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
						return
					}
					time.Sleep(r.upTo(700 * time.Millisecond))
				}
				t.Error("the pod is still there")
			})
		})
	}
}

func call(f func(*round), r *round) {
	if f != nil {
		f(r)
	}
}

func begin(t *testing.T, seed uint64, options ...podfalltest.Option) *round {
	r := &round{
		Cluster: podfalltest.Start(t, append(options, podfalltest.InBubble())...), t: t, rand: rand.New(rand.NewPCG(seed, 1)),
	}
	r.client, r.grace = r.Client(), 1+r.rand.Int64N(40)
	r.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &r.grace,
			Containers:                    []corev1.Container{{Name: "main", Image: "web"}},
			Volumes:                       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
	return r
}

func (r *round) upTo(d time.Duration) time.Duration { return time.Duration(r.rand.Int64N(int64(d))) }

// run makes the pod, and waits until it runs.
func (r *round) run() {
	r.create()
	r.until("the pod runs", func() bool {
		pod := r.look()
		return pod != nil && pod.Status.Phase == corev1.PodRunning
	})
}

// begin makes the pod, and waits until its node has begun to start it.
func (r *round) begin() {
	r.create()
	r.until("the pod is bound", func() bool {
		pod := r.look()
		return pod != nil && (pod.Status.Phase == corev1.PodRunning || pod.Spec.NodeName != "")
	})
	time.Sleep(5 * time.Second) // its kubelet has seen it
}

func (r *round) create() {
	if _, err := r.client.CoreV1().Pods("default").Create(r.t.Context(), r.pod, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *round) delete() {
	if err := r.client.CoreV1().Pods("default").Delete(r.t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *round) ids() []string { return r.Why("pods", "default", "web").IDs() }

func (r *round) until(what string, is func() bool) {
	r.t.Helper()
	for range 4500 {
		if is() {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	r.t.Fatalf("in fifteen minutes it is not so: %s", what)
}

// statefulSet is the one of a real manifest.
func statefulSet(t *testing.T) *appsv1.StatefulSet {
	data, err := os.ReadFile("../../examples/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var set appsv1.StatefulSet
		if err := yaml.Unmarshal([]byte(document), &set); err == nil && set.Kind == "StatefulSet" {
			set.Spec.Replicas = new(int32(1))
			return &set
		}
	}
	t.Fatal("the manifest has no StatefulSet")
	return nil
}

// TestSplitBrain forces a pod of a StatefulSet away whose node is cut off. While its
// successor runs elsewhere, the window is shown open with both; when the node is back it
// closes, and what was told of it is as long as the two were alive together.
func TestSplitBrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, 1, podfalltest.Nodes(2))
		pods, set := r.client.CoreV1().Pods("default"), statefulSet(t)
		if _, err := r.client.AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		name := set.Name + "-0"
		var old *corev1.Pod
		runs := func(other string) func() bool {
			return func() bool {
				pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil || pod.Status.Phase != corev1.PodRunning || string(pod.UID) == other {
					return false
				}
				old = pod
				return true
			}
		}
		r.until("the first runs", runs(""))
		first := old
		patch := []byte(`{"spec":{"unschedulable":true}}`)
		if _, err := r.client.CoreV1().Nodes().Patch(t.Context(), first.Spec.NodeName, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the scheduler has seen the cordon: it binds the successor elsewhere
		r.Cut(first.Spec.NodeName)
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		r.until("its successor runs", runs(string(first.UID)))
		second := old
		time.Sleep(45 * time.Second)
		open := r.SplitBrains()
		if len(open) != 1 || !open[0].Open() || open[0].Incarnations[0].UID != string(first.UID) || open[0].Incarnations[1].UID != string(second.UID) {
			t.Fatalf("while both are alive: %+v", open)
		}
		if report := r.Why("pods", "default", name); report.Blocked() {
			t.Errorf("the successor is not stuck: %+v", report.Findings)
		}
		r.Heal(first.Spec.NodeName)
		r.until("the window is closed", func() bool { w := r.SplitBrains(); return len(w) == 1 && !w[0].Open() })
		time.Sleep(5 * time.Second)
		truth, told := r.overlap(first, second), r.told()
		if took := r.SplitBrains()[0].Took; math.Abs(took-truth.Seconds()) > 1 || math.Abs(told.Seconds()-truth.Seconds()) > 1 || truth < 45*time.Second {
			t.Errorf("both were alive for %v; shown %.3fs, told %v", truth, took, told)
		}
	})
}

// overlap is how long both were alive by the two runtimes' signal logs: from the later
// start to the earlier exit.
func (r *round) overlap(first, second *corev1.Pod) time.Duration {
	var from, to time.Time
	for _, e := range r.HistoryEvents() {
		switch fact := e.Fact.(type) {
		case history.Start:
			if fact.UID == string(second.UID) && from.IsZero() {
				from = e.Wall
			}
		case history.Exit:
			if fact.UID == string(first.UID) {
				to = e.Wall
			}
		}
	}
	return to.Sub(from)
}

// told is the length of the one window that users were told of.
func (r *round) told() time.Duration {
	var length time.Duration
	for _, e := range r.HistoryEvents() {
		if w, ok := e.Fact.(history.Window); ok && w.End != nil {
			length += w.End.Sub(w.Begin)
		}
	}
	return length
}
