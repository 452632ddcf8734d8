package nemesis

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

func drawer(seed uint64) *Drawer {
	return &Drawer{Rand: rand.New(rand.NewPCG(seed, 0)), Nodes: []string{"node-1", "node-2", "node-3"}, Speed: 20}
}

// TestASeedDrawsTheSameSteps checks that drawing is deterministic, and that every kind of step is
// drawn eventually.
func TestASeedDrawsTheSameSteps(t *testing.T) {
	var first []string
	verbs, points := map[string]bool{}, map[string]bool{}
	one, other := drawer(7), drawer(7)
	for range 2000 {
		s := one.Draw()
		if again := other.Draw(); again.String() != s.String() {
			t.Fatalf("one seed drew %s and %s", s, again)
		}
		if len(s.Begin) == 0 || len(s.End) == 0 && len(s.Down) == 0 && s.Lasts > 0 {
			t.Fatalf("%s breaks nothing, or does not mend it", s)
		}
		verbs[s.Begin[0][0]] = true
		if i := slices.Index(s.Begin[0], "--point"); i > 0 {
			points[strings.Join(s.Begin[0][i:i+4], " ")] = true
		}
		first = append(first, s.String())
	}
	if slices.Equal(first[:20], drawNames(drawer(8), 20)) {
		t.Error("two seeds drew the same")
	}
	if len(verbs) != 6 || len(points) < 35 {
		t.Errorf("2,000 steps had the commands %v and %d sorts of faults", verbs, len(points))
	}
}

func drawNames(d *Drawer, n int) []string {
	var all []string
	for range n {
		all = append(all, d.Draw().String())
	}
	return all
}

// TestRowsAreFaults checks that every row is a valid fault, so that no seed fails for an invalid
// one.
func TestRowsAreFaults(t *testing.T) {
	for _, row := range pointFaults() {
		words, text := strings.Fields(row.flags), map[string]string{}
		for i := 0; i+1 < len(words); i += 2 {
			text[strings.TrimPrefix(words[i], "--")] = words[i+1]
		}
		delay, _ := time.ParseDuration(text["delay"])
		err := fault.Check("n1", fault.Spec{
			Point:  fault.Point(text["point"]),
			Where:  fault.Attributes{Client: text["client"], Verb: text["verb"], Resource: text["resource"], Subresource: text["subresource"], Node: text["node"]},
			Effect: fault.Effect{Kind: fault.Kind(text["effect"]), Code: text["code"], Value: text["value"], Delay: metav1.Duration{Duration: delay}},
		})
		if err != nil {
			t.Errorf("%s: %v", row.flags, err)
		}
		if row.crashes == "" && text["effect"] == "crash" {
			t.Errorf("%s: names no process to start again", row.flags)
		}
	}
}

func TestLedger(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	create := func(name string, revision int64, called, returned int) Answer {
		return Answer{Verb: "create", Key: "default/" + name, UID: name, Revision: revision, Called: at(called), Returned: at(returned)}
	}
	commits := []history.Commit{{UID: "a", Revision: 1}, {UID: "b", Revision: 2}, {UID: "c", Revision: 3}}
	for name, tc := range map[string]struct {
		answers []Answer
		want    error
	}{
		"all there":        {[]Answer{create("a", 1, 0, 1), create("b", 2, 2, 3), {Verb: "delete", UID: "x"}}, nil},
		"at the same time": {[]Answer{create("b", 2, 0, 5), create("a", 1, 1, 6)}, nil},
		"one is lost":      {[]Answer{create("a", 1, 0, 1), create("d", 4, 2, 3)}, ErrLost},
		"another's":        {[]Answer{create("a", 2, 0, 1)}, ErrLost},
		"back in time":     {[]Answer{create("c", 3, 0, 1), create("b", 2, 2, 3)}, ErrOrder},
	} {
		l := &Ledger{}
		for _, a := range tc.answers {
			l.Add(a)
		}
		if err := l.Check(commits); tc.want == nil && err != nil || tc.want != nil && !mentions(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func mentions(err, want error) bool { return err != nil && strings.Contains(err.Error(), want.Error()) }

func TestInForce(t *testing.T) {
	steps := []Step{
		{Name: "n1", Begin: [][]string{{"cut"}}},
		{Name: "n2", Begin: [][]string{{"fault"}}, NeedsHit: true},
		{Name: "n3", Begin: [][]string{{"crash", "bus"}}},
		{Name: "n4", Begin: [][]string{{"clock"}}},
	}
	begin := func(what string) history.Event {
		return history.Event{Fact: history.FaultBegin{Trouble: history.Trouble{What: what}}}
	}
	if got := InForce(steps, []history.Event{begin("n2")}); len(got) != 0 {
		t.Errorf("nothing has struck, and yet %v", got)
	}
	events := []history.Event{begin("n1"), begin("bus"), begin("clock"), {Fact: history.FaultTrigger{Fault: "n2"}}}
	if got := InForce(steps, events); len(got) != 4 {
		t.Errorf("in force are %v, want all four", got)
	}
}
