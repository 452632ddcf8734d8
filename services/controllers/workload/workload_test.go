package workload

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func cost(text string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: text} }
}

func age(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-d)) }
}

func ready(d time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-d))}}
	}
}

func restarts(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{}, {RestartCount: n}} }
}

// TestToDelete has pods in the order in which they go (TestSortingActivePodsWithRanks).
func TestToDelete(t *testing.T) {
	running := func(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, append([]func(*corev1.Pod){on("n1"), phase(corev1.PodRunning), age(100 * time.Hour)}, edits...)...)
	}
	want := []*corev1.Pod{
		pod("unassigned", phase(corev1.PodPending)),
		pod("pending", on("n1"), phase(corev1.PodPending)),
		pod("unknown", on("n1"), phase(corev1.PodUnknown)),
		running("young, not ready", age(time.Minute)),
		running("old, not ready"),
		running("cheap", ready(50*time.Hour), cost("-5")),
		running("crowded", ready(50*time.Hour), on("n2")),
		running("ready lately", ready(time.Minute)),
		running("restarted", ready(20*time.Hour), restarts(8)),
		running("restarted less", ready(20*time.Hour), restarts(2)),
		running("younger", ready(20*time.Hour), age(21*time.Hour)),
		running("older", ready(20*time.Hour)),
		running("dear", ready(time.Second), cost("10")),
	}
	related := append([]*corev1.Pod{pod("sibling", on("n2"))}, want...)
	for range 12 {
		related = append(related, pod("more", on("n2")), pod("done", on("n1"), phase(corev1.PodSucceeded)))
	}
	for seed := range uint64(20) {
		pods := append([]*corev1.Pod(nil), want...)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for n := range len(want) {
			for i, gone := range ToDelete(pods, related, n, now) {
				if gone.Name != want[i].Name {
					t.Fatalf("seed %d: %d. to go is %q, want %q", seed, i, gone.Name, want[i].Name)
				}
			}
		}
	}
	// Of about one age, the UID decides.
	a, b := running("a", ready(10*time.Hour)), running("b", ready(11*time.Hour))
	if first := ToDelete([]*corev1.Pod{b, a}, nil, 1, now); first[0] != a {
		t.Error("pods of one order of magnitude do not go by UID")
	}
}

func TestAvailable(t *testing.T) {
	for _, c := range []struct {
		pod      *corev1.Pod
		minReady int32
		want     time.Duration
	}{
		{pod("a"), 0, -1},
		{pod("a", ready(0)), 0, 0},
		{pod("a", ready(0)), 5, 5 * time.Second},
		{pod("a", ready(5*time.Second)), 5, 0},
		{pod("a", ready(-24*time.Hour)), 5, 5 * time.Second}, // by a clock that is a day behind
		{pod("a", func(p *corev1.Pod) { ready(0)(p); p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }), 5, -1},
	} {
		if got := AvailableIn(c.pod, c.minReady, now); got != c.want {
			t.Errorf("available in %v, want %v", got, c.want)
		}
	}
}

// TestTemplateHash pins hashes that a real cluster gives, so that names look right.
func TestTemplateHash(t *testing.T) {
	template := &corev1.PodTemplateSpec{}
	first := TemplateHash(template, nil)
	if first != TemplateHash(template.DeepCopy(), nil) {
		t.Error("the hash of a copy is another")
	}
	seen := map[string]bool{first: true}
	for collisions := range int32(5) {
		hash := TemplateHash(template, &collisions)
		if seen[hash] {
			t.Errorf("%d collisions give a hash that was there", collisions)
		}
		seen[hash] = true
	}
}

func TestClaim(t *testing.T) {
	owner := pod("owner")
	gone := pod("owner", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} })
	controlled := func(uid types.UID) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: uid, Controller: new(true)}} }
	}
	for _, c := range []struct {
		name    string
		owner   *corev1.Pod
		pod     *corev1.Pod
		matches bool
		want    Ownership
	}{
		{"mine", owner, pod("p", controlled("owner")), true, Mine},
		{"another's", owner, pod("p", controlled("other")), true, NotMine},
		{"mine, fits no more", owner, pod("p", controlled("owner")), false, Release},
		{"mine, fits no more, and I go", gone, pod("p", controlled("owner")), false, NotMine},
		{"orphan", owner, pod("p"), true, Adopt},
		{"orphan that does not fit", owner, pod("p"), false, NotMine},
		{"orphan that goes", owner, pod("p", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }), true, NotMine},
		{"orphan, and I go", gone, pod("p"), true, NotMine},
		{"orphan elsewhere", owner, pod("p", func(p *corev1.Pod) { p.Namespace = "other" }), true, NotMine},
	} {
		if got := Claim(c.owner, c.pod, func() bool { return c.matches }); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTouched(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}
	of := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: types.UID(name), Controller: new(true)}}
		}
	}
	foreign := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j", Controller: new(true)}}
	}
	going := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	for _, c := range []struct {
		name     string
		old, now *corev1.Pod
		want     string
	}{
		{"came", nil, pod("p", of("a")), "owner a came"},
		{"came while going", nil, pod("p", of("a"), going), "owner a came left"},
		{"changed", pod("p", of("a")), pod("p", of("a"), phase(corev1.PodRunning)), "owner a"},
		{"begins to go", pod("p", of("a")), pod("p", of("a"), going), "owner a left"},
		{"gone", pod("p", of("a")), nil, "owner a left"},
		{"changes hands", pod("p", of("a")), pod("p", of("b")), "owner b former a"},
		{"released", pod("p", of("a")), pod("p"), "former a orphan"},
		{"orphan", nil, pod("p"), "orphan came"},
		{"orphan, as it was", pod("p"), pod("p", phase(corev1.PodRunning)), ""},
		{"orphan, other labels", pod("p"), pod("p", label), "orphan"},
		{"orphan that goes", pod("p"), pod("p", label, going), "left"},
		{"a job's", nil, pod("p", foreign), "came"},
	} {
		touch := ReadPodChange(gvk, c.old, c.now)
		got := ""
		for _, word := range []struct {
			text string
			is   bool
		}{
			{"owner " + name(touch.Owner), touch.Owner != nil},
			{"former " + name(touch.Former), touch.Former != nil},
			{"orphan", touch.Orphan},
			{"came", touch.Created},
			{"left", touch.Deleted},
		} {
			if word.is {
				got += " " + word.text
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(prefixed(c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func name(ref *metav1.OwnerReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

func prefixed(text string) string {
	if text == "" {
		return ""
	}
	return " " + text
}

func TestExpectations(t *testing.T) {
	key := types.NamespacedName{Name: "a"}
	e := NewExpectations()
	if !e.Satisfied(key, now) {
		t.Error("something is expected of nothing")
	}
	e.ExpectCreations(key, 2, now)
	e.CreationObserved(key)
	if e.Satisfied(key, now) || e.Remaining(key, now.Add(time.Minute)) != 4*time.Minute {
		t.Error("one of two is enough")
	}
	e.CreationObserved(key)
	if !e.Satisfied(key, now) {
		t.Error("two of two are not enough")
	}
	e.ExpectDeletions(key, []types.UID{"a", "b"}, now)
	e.DeletionObserved(key, "a")
	e.DeletionObserved(key, "a")
	if e.Satisfied(key, now) {
		t.Error("one deletion counts twice")
	}
	if !e.Satisfied(key, now.Add(expectationTimeout+1)) {
		t.Error("expected for ever")
	}
	e.DeletionObserved(key, "b")
	if !e.Satisfied(key, now) {
		t.Error("both deletions are not enough")
	}
}
