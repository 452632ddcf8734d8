package bus_test

import (
	"encoding/json"
	"fmt"
	"testing"

	carrier "github.com/podfall/podfall/internal/bus"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/mgmt"
	"github.com/podfall/podfall/internal/partition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/bus"
)

// TestInspectLinks makes cuts and inspects the bus after each. A link that is slow, or holds one
// kind of message, still counts as carrying.
func TestInspectLinks(t *testing.T) {
	at, _ := start(t, bus.Config{Nodes: []string{"n1", "n2"}, Boot: "b1"})
	plane := mgmt.NewClient(dial(t, carrier.Config{URLs: at.Hub, Identity: proto.Admin}))
	for name, row := range map[string]struct {
		spec partition.Spec
		want string
	}{
		"both":      {partition.Spec{Members: []string{"n1"}}, "n1 either way"},
		"from":      {partition.Spec{Members: []string{"n1"}, Direction: partition.FromNode}, "n1 from it"},
		"to":        {partition.Spec{Members: []string{"n2"}, Direction: partition.ToNode}, "n2 to it"},
		"reset":     {partition.Spec{Members: []string{"n2"}, Manner: partition.Reset}, "n2 either way"},
		"slow":      {partition.Spec{Members: []string{"n1"}, Bandwidth: 1000}, ""},
		"apiserver": {partition.Spec{Members: []string{"apiserver"}}, "apiserver either way"},
	} {
		if _, err := plane.Set(t.Context(), mgmt.Change{Cut: &mgmt.AddCut{Name: "cut", Spec: row.spec}}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := silentLinks(t, plane); got != row.want {
			t.Errorf("%s: the bus says %q, want %q", name, got, row.want)
		}
		if _, err := plane.Set(t.Context(), mgmt.Change{Heal: &mgmt.Selection{All: true}}); err != nil {
			t.Fatal(err)
		}
		if got := silentLinks(t, plane); got != "" {
			t.Errorf("%s: after it has healed the bus says %q", name, got)
		}
	}
}

// silentLinks returns the links that carry nothing, as the bus reports them.
func silentLinks(t *testing.T, plane *mgmt.Client) (text string) {
	t.Helper()
	raw, err := plane.Inspect(t.Context(), "bus", nil)
	var data inspect.Bus
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	if err != nil || data.Boot != "b1" || len(data.Links) != 5 {
		t.Fatalf("%s, %v", raw, err)
	}
	for _, link := range data.Links {
		if link.Silent != "" && link.Since.IsZero() || link.Silent == "" && !link.Since.IsZero() {
			t.Errorf("silent %q since %v", link.Silent, link.Since)
		}
		if link.Silent != "" {
			text += fmt.Sprintf("%s %s", link.Member, link.Silent)
		}
	}
	return text
}
