package client

import (
	"slices"
	"testing"
	"time"

	"github.com/podfall/podfall/analysis/why"
)

// TestGroupByCause wants the cause with the most objects first, an object under the first finding
// that blocks it or that blocks what it waits for, and objects that nothing blocks at the end.
func TestGroupByCause(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	finding := func(id string, blocks bool) why.Finding {
		return why.Finding{ID: id, Name: "x", Blocks: blocks, Since: at.Add(-time.Minute)}
	}
	report := func(object string, findings ...why.Finding) why.Report {
		return why.Report{Object: object, Namespace: "shop", UID: "1", At: at, State: "within its grace", Findings: findings}
	}
	namespace := report("namespace/shop")
	namespace.Below = []why.Report{report("pod/a", finding("STK-06", true))}
	groups := groupByCause([]why.Report{
		report("pod/free", finding("STK-33", false)),
		report("pod/held", finding("STK-01", true)),
		report("pod/a", finding("STK-33", false), finding("STK-06", true)),
		namespace,
	})
	var got []string
	for _, group := range groups {
		title := "free"
		if group.first != nil {
			title = group.first.ID
		}
		got = append(append(got, title), group.objects...)
	}
	want := []string{
		"STK-06", "pod/a in shop, for 1m0s", "namespace/shop in shop, for 1m0s",
		"STK-01", "pod/held in shop, for 1m0s",
		"free", "pod/free in shop: within its grace",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
