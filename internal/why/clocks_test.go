package why

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// byAnotherClock has somebody ask whose clock is wrong, which nothing but the cause clock-skew may show.
func byAnotherClock(t *testing.T, name string, p Pod) {
	t.Helper()
	if p.APIServer.Said == nil {
		return // nobody says what time it is for the API
	}
	findings := func(p Pod) []Finding {
		return slices.DeleteFunc(OfPod(p).Findings, func(f Finding) bool { return f.Name == "clock-skew" })
	}
	want := findings(p)
	for _, off := range []time.Duration{-time.Hour, 13 * time.Second, 24 * time.Hour} {
		other := p
		for _, at := range []*time.Time{&other.Now, &other.Kubelet.At, &other.Runtime.At, &other.Controllers.At, &other.APIServer.At, &other.Bus.At} {
			*at = at.Add(off)
		}
		if diff := cmp.Diff(want, findings(other)); diff != "" {
			t.Errorf("%s, asked by a clock that is %v off: %s", name, off, diff)
		}
	}
}
