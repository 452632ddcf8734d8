package why

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// byAnotherClock has somebody ask whose clock is wrong, and somebody tell whose clock is, which nothing
// but the cause clock-skew may show.
func byAnotherClock(t *testing.T, name string, p Pod) {
	t.Helper()
	if p.APIServer.Said == nil {
		return // nobody says what time it is for the API
	}
	findings := func(p Pod) []Finding {
		return slices.DeleteFunc(OfPod(p).Findings, func(f Finding) bool { return f.Name == "clock-skew" })
	}
	want, at := findings(p), OfPod(p).At
	for _, off := range []time.Duration{-time.Hour, 13 * time.Second, 24 * time.Hour} {
		observer := p
		for _, at := range []*time.Time{&observer.Now, &observer.Kubelet.At, &observer.Runtime.At, &observer.Controllers.At, &observer.APIServer.At, &observer.Bus.At} {
			*at = at.Add(off)
		}
		kubelet, runtime, bus := p, p, p
		kubelet.Kubelet.Said, runtime.Runtime.Said, bus.Bus.Said = moved(p.Kubelet.Said, off), moved(p.Runtime.Said, off), moved(p.Bus.Said, off)
		if lease := p.Node.Lease; lease != nil && p.Kubelet.Said != nil {
			kubelet.Node.Lease = lease.DeepCopy()
			kubelet.Node.Lease.Spec.RenewTime.Time = lease.Spec.RenewTime.Add(off)
		}
		for whose, other := range map[string]Pod{"the observer": observer, "the kubelet": kubelet, "the runtime": runtime, "the bus": bus} {
			if got := OfPod(other).At; !got.Equal(at) {
				t.Errorf("%s, with the clock of %s %v off: asked at %v, not %v", name, whose, off, got, at)
			}
			if diff := cmp.Diff(want, findings(other)); diff != "" {
				t.Errorf("%s, with the clock of %s %v off: %s", name, whose, off, diff)
			}
		}
	}
}

// moved is what a process says whose clock is so far off; nil of one that says nothing.
func moved[T interface{ Moved(ahead time.Duration) T }](said *T, off time.Duration) *T {
	if said == nil {
		return nil
	}
	by := (*said).Moved(off)
	return &by
}
