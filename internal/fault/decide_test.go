package fault

import (
	"math"
	"testing"
	"time"
)

func TestStrikes(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fault := func(change func(*Fault)) Fault {
		f := Fault{Name: "f", Spec: Spec{Point: VolumeUnmount, Effect: Effect{Kind: Error}}}
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		fault Fault
		past  history
		want  bool
	}{
		"always":         {fault(func(*Fault) {}), history{matched: 9, struck: 9}, true},
		"not over":       {fault(func(f *Fault) { f.Until = now.Add(1) }), history{}, true},
		"over":           {fault(func(f *Fault) { f.Until = now }), history{}, false},
		"skipped":        {fault(func(f *Fault) { f.Spec.Skip = 2 }), history{matched: 1}, false},
		"after the skip": {fault(func(f *Fault) { f.Spec.Skip = 2 }), history{matched: 2}, true},
		"last":           {fault(func(f *Fault) { f.Spec.Count = 3 }), history{struck: 2}, true},
		"spent":          {fault(func(f *Fault) { f.Spec.Count = 3 }), history{struck: 3}, false},
		"certain":        {fault(func(f *Fault) { f.Spec.Probability = 1 }), history{}, true},
		"hardly ever":    {fault(func(f *Fault) { f.Spec.Probability = math.SmallestNonzeroFloat64 }), history{}, false},
	} {
		if got := c.fault.strikes(passage{VolumeUnmount, About{}, now}, c.past); got != c.want {
			t.Errorf("%s: strikes %v, want %v", name, got, c.want)
		}
	}
}

func TestSelects(t *testing.T) {
	web := About{Process: "kubelet/node-1", Node: "node-1", Namespace: "default", Pod: "web-1", Volume: "data", Verb: "patch", Resource: "pods", Subresource: "status"}
	for name, c := range map[string]struct {
		point Point
		where About
		want  bool
	}{
		"everything":         {VolumeUnmount, About{}, true},
		"all points of kind": {"volume.*", About{}, true},
		"another point":      {VolumeMount, About{}, false},
		"all fields":         {VolumeUnmount, web, true},
		"another node":       {VolumeUnmount, About{Node: "node-2"}, false},
		"a beginning":        {VolumeUnmount, About{Pod: "web-*"}, true},
		"no pattern within":  {VolumeUnmount, About{Pod: "*-1"}, false},
		"an alternative":     {VolumeUnmount, About{Node: "node-3,node-1", Resource: "leases,pod*"}, true},
		"no alternative":     {VolumeUnmount, About{Node: "node-3,node-10"}, false},
		"what is not said":   {VolumeUnmount, About{Container: "main"}, false},
	} {
		f := Fault{Spec: Spec{Point: c.point, Where: c.where}}
		if got := f.selects(passage{point: VolumeUnmount, about: web}); got != c.want {
			t.Errorf("%s: selects %v, want %v", name, got, c.want)
		}
	}
}

// TestChance: the same seed strikes the same things, whatever comes between, and a
// probability is what it says.
func TestChance(t *testing.T) {
	strikes := func(seed uint64) (struck []bool) {
		f := Fault{Name: "f", Spec: Spec{Point: APIRequest, Probability: 0.3, Seed: seed}}
		for pod := range 100 {
			for nth := range uint64(100) {
				p := passage{point: APIRequest, about: About{Pod: string(rune('a' + pod))}}
				struck = append(struck, f.strikes(p, history{nth: nth}))
			}
		}
		return struck
	}
	first, again, other := strikes(1), strikes(1), strikes(2)
	count, same := 0, 0
	for i := range first {
		if first[i] != again[i] {
			t.Fatalf("draw %d differs with the same seed", i)
		}
		if first[i] {
			count++
		}
		if first[i] == other[i] {
			same++
		}
	}
	// Six standard deviations are 275.
	if count < 2725 || count > 3275 {
		t.Errorf("a probability of 0.3 struck %d times of 10000", count)
	}
	if same > 6500 { // 0.3² + 0.7² of them, 5800, by chance
		t.Errorf("another seed drew the same %d times of 10000", same)
	}
}
