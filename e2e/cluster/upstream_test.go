package cluster

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// apply stores the objects of a manifest of upstream's documentation.
func (r *rig) apply(file string) {
	r.Helper()
	data, err := os.ReadFile("../kubectl/testdata/upstream/" + file)
	if err != nil {
		r.Fatal(err)
	}
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var typed metav1.TypeMeta
		if err := yaml.Unmarshal(document, &typed); err != nil {
			r.Fatal(err)
		}
		kind, ok := kinds.ByGVK(typed.GroupVersionKind())
		obj, err := kinds.NewOf(kind)
		if err != nil || !ok {
			r.Fatalf("%v: %v", typed, err)
		}
		if err := yaml.Unmarshal(document, obj); err != nil {
			r.Fatal(err)
		}
		r.create(kind.GroupResource().String(), obj)
	}
}

// readyPods returns the pods that are ready and not terminating, by name, and the number of others.
func (r *rig) readyPods() (ready map[string]*corev1.Pod, others int) {
	r.Helper()
	ready = map[string]*corev1.Pod{}
	for _, obj := range r.list("pods default/") {
		p, ok := obj.(*corev1.Pod)
		if ok && p.DeletionTimestamp == nil && strings.Contains(describePod(p, watch.Modified), "Ready=True") {
			ready[p.Name] = p
		} else {
			others++
		}
	}
	return ready, others
}

func (r *rig) awaitReady(n int) map[string]*corev1.Pod {
	r.Helper()
	r.until("all pods are ready", func() bool { ready, others := r.readyPods(); return len(ready) == n && others == 0 })
	ready, _ := r.readyPods()
	return ready
}

// drain evicts the pods of a node; an eviction that the budget refuses is retried 5 s later.
func (r *rig) drain(node string, least int) (refused int) {
	r.Helper()
	r.cordon(node)
	ready, _ := r.readyPods()
	for _, name := range slices.Sorted(maps.Keys(ready)) {
		if ready[name].Spec.NodeName != node {
			continue
		}
		for r.evictOr429(name) {
			refused++
			time.Sleep(5 * time.Second)
			if now, _ := r.readyPods(); len(now) < least {
				r.Errorf("%d pods are ready, and the budget wants %d", len(now), least)
			}
		}
	}
	return refused
}

// TestStatefulManifests runs web.yaml and zookeeper.yaml through deletes, drains, and the loss and
// return of a node: each identity exists once, and keeps its disk.
func TestStatefulManifests(t *testing.T) {
	for _, c := range []struct {
		file  string
		pods  []string
		least int // of them are ready while a node is drained, by a budget if that is not 0
	}{
		{"web.yaml", []string{"web-0", "web-1"}, 0},
		{"zookeeper.yaml", []string{"zk-0", "zk-1", "zk-2"}, 2},
	} {
		t.Run(c.file, func(t *testing.T) {
			play(t, stage.Config{
				Controllers: []string{"*"}, Plugins: []string{"DefaultStorageClass", "StorageObjectInUseProtection", "DefaultTolerationSeconds"},
			}, func(r *rig) { r.disturb(c.file, c.pods, c.least) })
		})
	}
}

func (r *rig) disturb(file string, pods []string, least int) {
	r.Helper()
	n := len(pods)
	r.apply(file)
	first := r.awaitReady(n)
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, pods) {
		r.Fatalf("pods %v, want %v", got, pods)
	}
	disks := map[string]types.UID{}
	for _, obj := range r.list("persistentvolumeclaims default/") {
		disks[obj.GetName()] = obj.GetUID()
	}
	for _, name := range pods {
		r.delete("pods "+name, metav1.DeleteOptions{})
		if fresh := r.awaitReady(n)[name]; fresh == nil || fresh.UID == first[name].UID {
			r.Errorf("%s was deleted and is %v", name, fresh)
		}
	}
	refused := 0
	for _, node := range []string{"node-1", "node-2"} {
		refused += r.drain(node, least)
		for name, p := range r.awaitReady(n) {
			if p.Spec.NodeName == node {
				r.Errorf("%s is on %s, which is drained", name, node)
			}
		}
	}
	if (least > 0) != (refused > 0) {
		r.Errorf("%d evictions were refused, and the budget wants %d", refused, least)
	}
	for _, node := range []string{"node-1", "node-2"} {
		r.patch("nodes "+node, map[string]any{"spec": map[string]any{"unschedulable": nil}})
	}
	// All are on node-3 now. It becomes silent: its pods are marked for deletion, and are not replaced.
	before := r.awaitReady(n)
	r.Stop("kubelet/node-3")
	time.Sleep(7 * time.Minute)
	for name, old := range before {
		if p := get[*corev1.Pod](r, "pods "+name); p == nil || p.UID != old.UID || p.DeletionTimestamp == nil {
			r.Errorf("%s of a lost node is %v, want it terminating", name, p)
		}
	}
	r.Start("kubelet/node-3")
	for name, p := range r.awaitReady(n) {
		if p.UID == before[name].UID {
			r.Errorf("%s was not replaced after its node came back", name)
		}
	}
	for _, obj := range r.list("persistentvolumeclaims default/") {
		if disks[obj.GetName()] != obj.GetUID() {
			r.Errorf("disk %s is another", obj.GetName())
		}
	}
	if len(r.list("persistentvolumeclaims default/")) != len(disks) || len(disks) != n {
		r.Errorf("%d disks, %d at first, want %d", len(r.list("persistentvolumeclaims default/")), len(disks), n)
	}
}

// TestTD118 taints a silent node out-of-service: a StatefulSet's pod runs elsewhere with its disk,
// without the wait of six minutes.
func TestTD118(t *testing.T) {
	play(t, stage.Config{
		Controllers: []string{"*"}, Plugins: []string{"DefaultStorageClass", "StorageObjectInUseProtection", "DefaultTolerationSeconds"},
	}, func(r *rig) {
		r.apply("web.yaml")
		node := r.awaitReady(2)["web-0"].Spec.NodeName
		r.Stop("kubelet/" + node)
		time.Sleep(352 * time.Second)
		if p := get[*corev1.Pod](r, "pods web-0"); p.DeletionTimestamp == nil {
			t.Error("web-0 was not evicted")
		}
		r.patch("nodes "+node, map[string]any{"spec": map[string]any{"taints": []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}}})
		if moved := r.awaitReady(2)["web-0"]; moved.Spec.NodeName == node {
			t.Errorf("web-0 is on %s again", node)
		}
	})
}
