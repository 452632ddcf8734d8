package guarantees_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	invariants "github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/podfalltest"
)

// TestSameEnd checks L11: a run with faults that heal ends like the same run without them: with the
// same objects in the same states, whatever their UIDs and revisions.
func TestSameEnd(t *testing.T) {
	for seed := *from; seed < *from+*seeds/3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			without, with := finalState(t, seed, 0), finalState(t, seed, 6)
			if len(without) < 10 {
				t.Errorf("only %d objects in the end: %v", len(without), without)
			}
			for _, line := range invariants.DiffStates(without, with) {
				t.Errorf("%s: %s", invariants.Title("L11"), line)
			}
		})
	}
}

// finalState returns the final state of a run in which workloads are created, scaled and deleted,
// and pods are deleted under them. Faults are injected before so many of seven steps.
func finalState(t *testing.T, seed uint64, breaks int) (end invariants.State) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := &keptCluster{T: t, dir: t.TempDir()}
		t.Cleanup(func() {
			log, err := history.Read(filepath.Join(cluster.dir, "1", "history"))
			if err != nil {
				t.Error(err)
			}
			end = invariants.EndState(invariants.Evidence{Log: log})
		})
		r := newRun(cluster, seed)
		faults := rand.New(rand.NewPCG(seed, 8))
		for range 12 {
			if dice := faults.IntN(7); dice < breaks {
				workload := r.rand // the workload is drawn from this source alone
				r.rand = faults
				r.step(faultFree + dice)
				r.rand = workload
			}
			r.retry(r.nextChange())
			time.Sleep(20 * time.Second)
		}
		r.healAll()
		time.Sleep(15 * time.Minute)
	})
	return end
}

// newRun starts a cluster of two nodes in a bubble.
func newRun(cluster *keptCluster, seed uint64) *seededRun {
	cluster.Helper()
	r := &seededRun{
		Cluster: podfalltest.Start(cluster, podfalltest.Nodes(2), podfalltest.UpstreamTiming(), podfalltest.InBubble(), podfalltest.History(cluster.history),
			podfalltest.Logger(slog.New(slog.DiscardHandler))),
		t: cluster.T, rand: rand.New(rand.NewPCG(seed, 7)), down: map[string]bool{}, cut: map[string]bool{},
	}
	r.client = r.Client()
	return r
}

// retry repeats a request until the API accepts it, or says that the state is reached already.
// After a failure all troubles are ended first.
func (r *seededRun) retry(request func() error) {
	for {
		err := request()
		if err == nil || strings.Contains(err.Error(), "already exists") || strings.Contains(err.Error(), "not found") {
			return
		}
		r.healAll()
		time.Sleep(5 * time.Second)
	}
}

// nextChange returns the next change of a workload, drawn from the seed alone.
func (r *seededRun) nextChange() func() error {
	apps, ctx := r.client.AppsV1(), r.t.Context()
	name, replicas := fmt.Sprint("web-", r.rand.IntN(3)), r.rand.Int32N(4)
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(r.rand.Int64N(30)), Containers: []corev1.Container{{Name: "main", Image: "web"}},
	}}
	selector, meta := &metav1.LabelSelector{MatchLabels: labels}, metav1.ObjectMeta{Name: name}
	scale := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	switch r.rand.IntN(7) {
	case 0, 1:
		set := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}}
		return func() error {
			_, err := apps.Deployments("default").Create(ctx, set, metav1.CreateOptions{})
			return err
		}
	case 2, 3:
		set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector, Template: template}}
		set.Name = strings.Replace(name, "web", "db", 1)
		set.Spec.Selector.MatchLabels = map[string]string{"app": set.Name}
		set.Spec.Template.Labels = set.Spec.Selector.MatchLabels
		return func() error {
			_, err := apps.StatefulSets("default").Create(ctx, set, metav1.CreateOptions{})
			return err
		}
	case 4:
		return func() error {
			_, err := apps.Deployments("default").Patch(ctx, name, "application/merge-patch+json", scale, metav1.PatchOptions{})
			return err
		}
	case 5:
		return func() error { return apps.Deployments("default").Delete(ctx, name, metav1.DeleteOptions{}) }
	}
	return func() error {
		return r.client.CoreV1().Pods("default").Delete(ctx, strings.Replace(name, "web", "db", 1)+"-0", metav1.DeleteOptions{})
	}
}
