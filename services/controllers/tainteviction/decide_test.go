package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var origin = time.Unix(1_700_000_000, 0)

// TestTD114 is upstream's TestGetMinTolerationTime.
func TestTD114(t *testing.T) {
	one, two, none := new(int64(1)), new(int64(2)), (*int64)(nil)
	for _, row := range []struct {
		seconds []*int64
		want    time.Duration
	}{
		{nil, 0},
		{[]*int64{none}, Forever},
		{[]*int64{one, two}, time.Second},
		{[]*int64{one, none}, time.Second},
		{[]*int64{none, one}, time.Second},
		{[]*int64{new(int64(-5)), two}, 0},
		{[]*int64{new(int64(0))}, 0},
	} {
		var tolerations []corev1.Toleration
		for _, seconds := range row.seconds {
			tolerations = append(tolerations, corev1.Toleration{TolerationSeconds: seconds})
		}
		if got := MinTolerationTime(tolerations); got != row.want {
			t.Errorf("%v: %v, want %v", row.seconds, got, row.want)
		}
	}
}

// TestConcerns has a pod looked at that is new, that has got its node or that tolerates something
// else, or for another time, and no other.
func TestConcerns(t *testing.T) {
	pod := func(node string, tolerations ...corev1.Toleration) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Tolerations: tolerations}}
	}
	toleration := func(key string, seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, TolerationSeconds: seconds}
	}
	for _, row := range []struct {
		name     string
		old, now *corev1.Pod
		want     bool
	}{
		{"a new one", nil, pod("a"), true},
		{"it is bound", pod(""), pod("a"), true},
		{"nothing has changed", pod("a", toleration("x", new(int64(3)))), pod("a", toleration("x", new(int64(3)))), false},
		{"it tolerates more", pod("a"), pod("a", toleration("x", nil)), true},
		{"it tolerates another", pod("a", toleration("x", nil)), pod("a", toleration("y", nil)), true},
		{"it tolerates it for longer", pod("a", toleration("x", new(int64(3)))), pod("a", toleration("x", new(int64(4)))), true},
		{"it tolerates it for ever", pod("a", toleration("x", new(int64(3)))), pod("a", toleration("x", nil)), true},
	} {
		if got := AffectsEviction(row.old, row.now); got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
}

// TestTD115 has what upstream's TestUpdatePod and TestUpdateNode change under way: an eviction
// that is scheduled goes away with its reason, comes sooner with another, and is not put off.
func TestTD115(t *testing.T) {
	noExecute := func(key string) corev1.Taint { return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute} }
	for30 := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(30))}
	forever := corev1.Toleration{Operator: corev1.TolerationOpExists}
	due := origin.Add(20 * time.Second) // that of for30, 10 s ago
	for _, row := range []struct {
		name        string
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		scheduled   time.Time
		want        Decision
	}{
		{"the node gets a taint", []corev1.Toleration{for30}, []corev1.Taint{noExecute("a")}, time.Time{}, Decision{Outcome: Schedule, At: origin.Add(30 * time.Second)}},
		{"the node says the same again", []corev1.Toleration{for30}, []corev1.Taint{noExecute("a")}, due, Decision{Outcome: Keep, At: due}},
		{"the node gets another taint", []corev1.Toleration{for30}, []corev1.Taint{noExecute("a"), noExecute("b")}, due, Decision{Outcome: Schedule, At: origin}},
		{"the node loses the taint", []corev1.Toleration{for30}, nil, due, Decision{}},
		{"the pod tolerates it for ever", []corev1.Toleration{forever}, []corev1.Taint{noExecute("a")}, due, Decision{}},
		{"the pod tolerates it no more", nil, []corev1.Taint{noExecute("a")}, due, Decision{Outcome: Schedule, At: origin}},
	} {
		if got := Decide(row.tolerations, row.taints, row.scheduled, origin); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// TestTD117 has the rows of upstream's e2e taints.go that are decisions.
func TestTD117(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Effect: effect}
	}
	tolerate := func(key string, seconds ...int64) corev1.Toleration {
		toleration := corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
		if len(seconds) > 0 {
			toleration.TolerationSeconds = &seconds[0]
		}
		return toleration
	}
	evict := []corev1.Taint{taint("evict", corev1.TaintEffectNoExecute)}
	at := func(after time.Duration) Decision { return Decision{Outcome: Schedule, At: origin.Add(after)} }
	for _, row := range []struct {
		name        string
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		scheduled   time.Time
		want        Decision
	}{
		{"no toleration", nil, evict, time.Time{}, at(0)},
		{"no toleration, one was", nil, evict, origin.Add(time.Minute), at(0)},
		{"forever", []corev1.Toleration{tolerate("evict")}, evict, time.Time{}, Decision{}},
		{"for a time", []corev1.Toleration{tolerate("evict", 65)}, evict, time.Time{}, at(65 * time.Second)},
		{
			"the shorter of two",
			[]corev1.Toleration{tolerate("evict", 65), tolerate("x", 5)},
			append(evict, taint("x", corev1.TaintEffectNoExecute)),
			time.Time{},
			at(5 * time.Second),
		},
		{"the taint is gone", nil, nil, origin.Add(time.Minute), Decision{}},
		{"another effect", nil, []corev1.Taint{taint("evict", corev1.TaintEffectNoSchedule)}, time.Time{}, Decision{}},
		{
			"a longer one does not postpone",
			[]corev1.Toleration{tolerate("evict", 600)},
			evict, origin.Add(time.Minute),
			Decision{Outcome: Keep, At: origin.Add(time.Minute)},
		},
		{"one of two is not tolerated", []corev1.Toleration{tolerate("x", 5)}, append(evict, taint("x", corev1.TaintEffectNoExecute)), time.Time{}, at(0)},
	} {
		if got := Decide(row.tolerations, row.taints, row.scheduled, origin); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}
