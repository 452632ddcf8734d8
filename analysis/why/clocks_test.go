package why

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkOtherClocks repeats the question with a wrong clock of the observer and of each process.
// Only the cause clock-skew may show that.
func checkOtherClocks(t *testing.T, name string, p Pod) {
	t.Helper()
	if p.APIServer.Report == nil {
		return // the apiserver's clock is unknown
	}
	findings := func(p Pod) []Finding {
		return slices.DeleteFunc(ExplainPod(p).Findings, func(f Finding) bool { return f.Name == "clock-skew" })
	}
	want, at := findings(p), ExplainPod(p).At
	for _, off := range []time.Duration{-time.Hour, 13 * time.Second, 24 * time.Hour} {
		observer := p
		for _, at := range []*time.Time{&observer.Now, &observer.Kubelet.At, &observer.Runtime.At, &observer.Controllers.At, &observer.APIServer.At, &observer.Bus.At} {
			*at = at.Add(off)
		}
		kubelet, runtime, bus := p, p, p
		kubelet.Kubelet.Report, runtime.Runtime.Report, bus.Bus.Report = shiftClock(p.Kubelet.Report, off), shiftClock(p.Runtime.Report, off), shiftClock(p.Bus.Report, off)
		if lease := p.Node.Lease; lease != nil && p.Kubelet.Report != nil {
			kubelet.Node.Lease = lease.DeepCopy()
			kubelet.Node.Lease.Spec.RenewTime.Time = lease.Spec.RenewTime.Add(off)
		}
		for whose, other := range map[string]Pod{"the observer": observer, "the kubelet": kubelet, "the runtime": runtime, "the bus": bus} {
			if got := ExplainPod(other).At; !got.Equal(at) {
				t.Errorf("%s, with the clock of %s %v off: asked at %v, not %v", name, whose, off, got, at)
			}
			if diff := cmp.Diff(want, findings(other)); diff != "" {
				t.Errorf("%s, with the clock of %s %v off: %s", name, whose, off, diff)
			}
		}
	}
}

// shiftClock returns an answer of a process whose clock is off; nil for no answer.
func shiftClock[T interface{ Shift(offset time.Duration) T }](said *T, off time.Duration) *T {
	if said == nil {
		return nil
	}
	by := (*said).Shift(off)
	return &by
}
