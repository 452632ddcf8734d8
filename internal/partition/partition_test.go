package partition_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/partition"
)

var (
	members = partition.Members([]string{"node-1", "node-2", "node-3"})
	since   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

func cut(t *testing.T, spec partition.Spec) partition.Cut {
	t.Helper()
	c, err := partition.New("c", spec, members, since)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCutOff(t *testing.T) {
	for want, spec := range map[string]partition.Spec{
		"[node-2]":                     {Members: []string{"node-2"}},
		"[gateway node-1]":             {Members: []string{"node-1", "gateway"}},
		"[node-1 node-2 node-3]":       {Groups: [][]string{{"node-1", "node-2"}, {"node-3"}}},
		"[node-1 node-2]":              {Groups: [][]string{{"node-1", "node-2"}}},
		"[controllers gateway node-2]": {Groups: [][]string{{"apiserver", "node-1", "node-3"}}},
		"[controllers node-1]":         {Groups: [][]string{{"node-1", "controllers"}}},
		"[gateway node-1 node-2]":      {Groups: [][]string{{"apiserver", "controllers", "node-3"}, {"gateway", "node-1"}}},
		"[apiserver controllers]":      {Members: []string{"controllers", "apiserver"}},
	} {
		if got := fmt.Sprint(cut(t, spec).Spec.CutOff(members)); got != want {
			t.Errorf("%+v cuts off %s, want %s", spec, got, want)
		}
	}
}

func TestConditionOf(t *testing.T) {
	hold, reset := partition.OneWay{Manner: partition.Hold}, partition.OneWay{Manner: partition.Reset}
	slow := partition.OneWay{Latency: time.Second, Jitter: 2 * time.Second, Seed: 7, Bandwidth: 1000}
	one := []string{"node-1"}
	for name, c := range map[string]struct {
		specs []partition.Spec
		at    time.Duration
		want  partition.Condition
		next  time.Duration // 0: never
	}{
		"none":        {},
		"somebody":    {specs: []partition.Spec{{Members: []string{"node-2"}}}},
		"both ways":   {specs: []partition.Spec{{Members: one}}, want: partition.Condition{FromNode: hold, ToNode: hold}},
		"one way":     {specs: []partition.Spec{{Members: one, Direction: partition.ToNode}}, want: partition.Condition{ToNode: hold}},
		"reset":       {specs: []partition.Spec{{Members: one, Manner: partition.Reset}}, want: partition.Condition{FromNode: reset, ToNode: reset}},
		"for a while": {specs: []partition.Spec{{Members: one, Duration: seconds(9)}}, at: 3 * time.Second, want: partition.Condition{FromNode: hold, ToNode: hold}, next: 9 * time.Second},
		"over":        {specs: []partition.Spec{{Members: one, Duration: seconds(9)}}, at: 9 * time.Second},
		"messages":    {specs: []partition.Spec{{Members: one, Only: []partition.Message{partition.Leases}}}},
		"slow": {
			specs: []partition.Spec{{Members: one, Direction: partition.FromNode, Latency: seconds(1), Jitter: seconds(2), Seed: 7, Bandwidth: 1000}},
			want:  partition.Condition{FromNode: slow},
		},
		"flaps down": {specs: []partition.Spec{{Members: one, Flap: partition.Flap{Down: seconds(2), Up: seconds(3)}}}, at: 6 * time.Second, want: partition.Condition{FromNode: hold, ToNode: hold}, next: 7 * time.Second},
		"flaps up":   {specs: []partition.Spec{{Members: one, Flap: partition.Flap{Down: seconds(2), Up: seconds(3)}}}, at: 7 * time.Second, next: 10 * time.Second},
		"the worst of all": {
			specs: []partition.Spec{
				{Members: one, Direction: partition.FromNode},
				{Members: one, Direction: partition.FromNode, Latency: seconds(1), Bandwidth: 50},
				{Groups: [][]string{{"node-1"}}, Direction: partition.FromNode, Latency: seconds(2), Bandwidth: 70, Duration: seconds(5)},
				{Members: one, Direction: partition.FromNode, Latency: seconds(2), Duration: seconds(4)},
			},
			want: partition.Condition{FromNode: partition.OneWay{Manner: partition.Hold, Latency: 5 * time.Second, Bandwidth: 50}},
			next: 4 * time.Second,
		},
		"reset beats hold": {
			specs: []partition.Spec{{Members: one}, {Members: one, Manner: partition.Reset}, {Members: one}},
			want:  partition.Condition{FromNode: reset, ToNode: reset},
		},
	} {
		var cuts []partition.Cut
		for _, spec := range c.specs {
			cuts = append(cuts, cut(t, spec))
		}
		got, next := partition.ConditionOf(cuts, "node-1", members, since.Add(c.at))
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if want := since.Add(c.next); c.next != 0 && !next.Equal(want) || c.next == 0 && !next.IsZero() {
			t.Errorf("%s: changes at %s, want %s after %s", name, next, c.next, since)
		}
	}
}

func TestExpired(t *testing.T) {
	c := cut(t, partition.Spec{Members: []string{"node-1"}, Duration: seconds(60)})
	c.Lease = &partition.Lease{Holder: "somebody", Expires: since.Add(5 * time.Second)}
	for _, row := range []struct {
		wall, cluster time.Duration
		over          bool
	}{{0, 0, false}, {4 * time.Second, 59 * time.Second, false}, {5 * time.Second, 0, true}, {0, time.Minute, true}} {
		if got := c.Expired(since.Add(row.wall), since.Add(row.cluster)); got != row.over {
			t.Errorf("after %s on the wall and %s of the cluster it is over: %v", row.wall, row.cluster, got)
		}
	}
}

func TestFaultsOfMessages(t *testing.T) {
	c := cut(t, partition.Spec{
		Members: []string{"node-2", "controllers"}, Only: []partition.Message{partition.Statuses, partition.Watches}, Duration: seconds(60),
	})
	var got []string
	for _, f := range c.Faults(members) {
		if err := fault.Check(f.Name, f.Spec); err != nil {
			t.Error(err)
		}
		if !f.Until.Equal(c.Until) || f.Spec.Effect.Kind != fault.Hang {
			t.Errorf("%s: %+v", f.Name, f)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", f.Name, f.Spec.Point, f.Spec.Where.Process, f.Spec.Where.Subresource))
	}
	want := []string{
		"c.controllers.status api.request controllers status", "c.controllers.watch watch.deliver controllers ",
		"c.node-2.status api.request kubelet/node-2 status", "c.node-2.watch watch.deliver kubelet/node-2 ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("faults\n%q, want\n%q", got, want)
	}
	for _, message := range partition.Messages() {
		c.Spec.Only = []partition.Message{message}
		for _, f := range c.Faults(members) {
			if err := fault.Check(f.Name, f.Spec); err != nil {
				t.Error(err)
			}
		}
	}
	if whole := cut(t, partition.Spec{Members: []string{"node-2"}}); len(whole.Faults(members)) > 0 {
		t.Error("a cut of all bytes is faults too")
	}
}

func TestCheckNamesTheField(t *testing.T) {
	one := []string{"node-1"}
	for want, spec := range map[string]partition.Spec{
		"spec.parties: Required value":                              {},
		`spec.parties[1]: Unsupported value: "node-9"`:              {Members: []string{"node-1", "node-9"}},
		`spec.parties[1]: Duplicate value: "node-1"`:                {Members: []string{"node-1", "node-1"}},
		"spec.groups: Forbidden: must not be beside parties":        {Members: one, Groups: [][]string{{"node-2"}}},
		`spec.groups[1][0]: Duplicate value: "node-1"`:              {Groups: [][]string{{"node-1"}, {"node-1"}}},
		"spec.groups[1]: Required value":                            {Groups: [][]string{{"node-1"}, {}}},
		"nobody is cut off":                                         {Groups: [][]string{members}},
		`spec.direction: Unsupported value: "up"`:                   {Members: one, Direction: "up"},
		`spec.manner: Unsupported value: "drop"`:                    {Members: one, Manner: "drop"},
		"a connection is reset in both directions":                  {Members: one, Manner: partition.Reset, Direction: partition.ToNode},
		`spec.manner: Invalid value: "carry": want a latency`:       {Members: one, Manner: partition.Carry},
		`spec.only[0]: Unsupported value: "lies"`:                   {Members: one, Only: []partition.Message{"lies"}},
		"spec.only: Forbidden: holds messages":                      {Members: one, Only: []partition.Message{partition.Leases}, Direction: partition.ToNode},
		"the apiserver is asked":                                    {Members: []string{"apiserver"}, Only: []partition.Message{partition.Leases}},
		`spec.latency: Invalid value: "-1s": must not be negative`:  {Members: one, Latency: seconds(-1)},
		`spec.jitter: Invalid value: "-1s": must not be negative`:   {Members: one, Jitter: seconds(-1)},
		`spec.duration: Invalid value: "-1s": must not be negative`: {Members: one, Duration: seconds(-1)},
		`spec.bandwidth: Invalid value: -1: must not be negative`:   {Members: one, Bandwidth: -1},
		`spec.flap.up: Invalid value: 0: must be more than 0`:       {Members: one, Flap: partition.Flap{Down: seconds(1)}},
	} {
		if err := partition.Check("c", spec, members); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v\nwant %s", spec, err, want)
		}
	}
	if err := partition.Check("My cut", partition.Spec{Members: one}, members); err == nil || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("a bad name: %v", err)
	}
}
