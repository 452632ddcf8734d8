package fault

import (
	"math"
	"testing"
	"time"
)

func TestTriggers(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fault := func(change func(*Fault)) Fault {
		f := Fault{Name: "f", Spec: Spec{Point: VolumeUnmount, Effect: Effect{Kind: Error}}}
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		fault Fault
		past  counts
		want  bool
	}{
		"always":         {fault(func(*Fault) {}), counts{matched: 9, triggered: 9}, true},
		"not over":       {fault(func(f *Fault) { f.Until = now.Add(1) }), counts{}, true},
		"over":           {fault(func(f *Fault) { f.Until = now }), counts{}, false},
		"skipped":        {fault(func(f *Fault) { f.Spec.Skip = 2 }), counts{matched: 1}, false},
		"after the skip": {fault(func(f *Fault) { f.Spec.Skip = 2 }), counts{matched: 2}, true},
		"last":           {fault(func(f *Fault) { f.Spec.Count = 3 }), counts{triggered: 2}, true},
		"spent":          {fault(func(f *Fault) { f.Spec.Count = 3 }), counts{triggered: 3}, false},
		"certain":        {fault(func(f *Fault) { f.Spec.Probability = 1 }), counts{}, true},
		"hardly ever":    {fault(func(f *Fault) { f.Spec.Probability = math.SmallestNonzeroFloat64 }), counts{}, false},
	} {
		if got := c.fault.triggers(occurrence{VolumeUnmount, Attributes{}, now}, c.past); got != c.want {
			t.Errorf("%s: strikes %v, want %v", name, got, c.want)
		}
	}
}

func TestMatches(t *testing.T) {
	web := Attributes{Process: "kubelet/node-1", Node: "node-1", Namespace: "default", Pod: "web-1", Volume: "data", Verb: "patch", Resource: "pods", Subresource: "status"}
	for name, c := range map[string]struct {
		point Point
		where Attributes
		want  bool
	}{
		"everything":         {VolumeUnmount, Attributes{}, true},
		"all points of kind": {"volume.*", Attributes{}, true},
		"another point":      {VolumeMount, Attributes{}, false},
		"all fields":         {VolumeUnmount, web, true},
		"another node":       {VolumeUnmount, Attributes{Node: "node-2"}, false},
		"a beginning":        {VolumeUnmount, Attributes{Pod: "web-*"}, true},
		"no pattern within":  {VolumeUnmount, Attributes{Pod: "*-1"}, false},
		"an alternative":     {VolumeUnmount, Attributes{Node: "node-3,node-1", Resource: "leases,pod*"}, true},
		"no alternative":     {VolumeUnmount, Attributes{Node: "node-3,node-10"}, false},
		"what is not said":   {VolumeUnmount, Attributes{Container: "main"}, false},
	} {
		f := Fault{Spec: Spec{Point: c.point, Where: c.where}}
		if got := f.matches(occurrence{point: VolumeUnmount, attrs: web}); got != c.want {
			t.Errorf("%s: selects %v, want %v", name, got, c.want)
		}
	}
}

// TestChance: the same seed triggers for the same actions, whatever happens in between, and the
// rate matches the probability.
func TestChance(t *testing.T) {
	strikes := func(seed uint64) (struck []bool) {
		f := Fault{Name: "f", Spec: Spec{Point: APIRequest, Probability: 0.3, Seed: seed}}
		for pod := range 100 {
			for nth := range uint64(100) {
				p := occurrence{point: APIRequest, attrs: Attributes{Pod: string(rune('a' + pod))}}
				struck = append(struck, f.triggers(p, counts{nth: nth}))
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
