package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

var update = flag.Bool("update", false, "write the golden file")

// historyBuilder builds a history by hand. Every event is a second after the one before it.
type historyBuilder struct {
	events []history.Event
	at     int64
	began  time.Time
}

func newHistoryBuilder() *historyBuilder {
	return &historyBuilder{began: time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)}
}

func (h *historyBuilder) after(seconds int64) *historyBuilder { h.at += seconds; return h }

func (h *historyBuilder) record(process, cause string, fact history.Fact) *historyBuilder {
	h.at++
	h.events = append(h.events, history.Event{
		Sequence: uint64(len(h.events) + 1), Process: process, Cause: cause, Fact: fact,
		Began: h.at*1e9 - 1e6, Ended: h.at * 1e9, Wall: h.began.Add(time.Duration(h.at) * time.Second),
	})
	return h
}

// deletePod creates a pod, deletes it by the operation `cause`, and ends with its removal.
func (h *historyBuilder) deletePod(name, uid, node, cause string) *historyBuilder {
	commit := func(op string, revision int64, grace *int64, phase string) history.Commit {
		c := history.Commit{Revision: revision, Resource: "pods", Key: "default/" + name, UID: uid, Op: op, Grace: grace, Node: node, Phase: phase}
		if grace != nil {
			deadline := h.began.Add(time.Duration(h.at+*grace) * time.Second)
			c.Deadline = &deadline
		}
		return c
	}
	of := history.ContainerRef{Pod: "default/" + name, UID: uid, Container: "c-" + uid, ContainerName: "main"}
	kubelet, runtime := "kubelet/"+node, "runtime/"+node
	return h.record("apiserver", "create-"+uid, commit("ADDED", h.at, nil, "Pending")).
		record(kubelet, "", history.KubeletSee{Pod: of.Pod, UID: uid, Op: "ADD"}).
		record(kubelet, "", history.Mount{UID: uid, Volume: "data"}).
		record(runtime, "", history.Start{ContainerRef: of, Scripted: true}).
		record("apiserver", "", commit("MODIFIED", h.at, nil, "Running")).
		after(3).
		record("apiserver", cause, history.OpCall{Identity: "client:admin", Verb: "delete", Resource: "pods", Key: of.Pod}).
		record("apiserver", cause, commit("MODIFIED", h.at, new(int64(9)), "Running")).
		record(kubelet, "", history.KubeletSee{Pod: of.Pod, UID: uid, Op: "UPDATE", Grace: new(int64(9))}).
		record(kubelet, "", history.KubeletTerm{Pod: of.Pod, UID: uid, Grace: 9}).
		record(runtime, "", history.PreStopBegin{ContainerRef: of}).
		record(runtime, "", history.PreStopEnd{ContainerRef: of}).
		record(runtime, "", history.Signal{ContainerRef: of, Signal: "SIGTERM"}).
		after(6).
		record(runtime, "", history.Signal{ContainerRef: of, Signal: "SIGKILL"}).
		record(runtime, "", history.Exit{ContainerRef: of, Code: 137}).
		record(kubelet, "", history.KubeletStuck{Pod: of.Pod, UID: uid, Doing: "unmount", Err: "busy"}).
		record(kubelet, "", history.Unmount{UID: uid, Volume: "data"}).
		record(runtime, "", history.SandboxStop{Pod: of.Pod, UID: uid}).
		record(kubelet, "", history.KubeletStatus{Pod: of.Pod, UID: uid, Phase: "Failed"}).
		record(kubelet, "", history.KubeletFinal{Pod: of.Pod, UID: uid}).
		record("apiserver", "final-"+uid, commit("DELETED", h.at, new(int64(0)), "Failed"))
}

func (h *historyBuilder) input(t *testing.T) Input {
	t.Helper()
	return Input{Title: "A history", Log: history.Merge(h.events, 1), Facts: []Fact{{"seed", "17"}}, Notes: []string{"the database was not read"}}
}

// fullInput is the input of a page that shows everything a page can show.
func fullInput(t *testing.T) Input {
	t.Helper()
	cut := json.RawMessage(`{"name":"n1","spec":{"parties":["node-1"],"direction":"from-node"}}`)
	hang := json.RawMessage(`{"name":"n2","spec":{"point":"volume.unmount","effect":{"type":"hang"},"where":{"node":"node-1"}}}`)
	h := newHistoryBuilder()
	h.deletePod("web", "uid-1", "node-1", "op-1")
	h.record("bus", "", history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleCut, What: "n1", CutOff: []string{"node-1"}, Arguments: cut}}).
		record("bus", "", history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleFault, What: "n2", Arguments: hang}}).
		record("supervisor", "", history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleDown, What: "kubelet/node-2"}}).
		record("kubelet/node-1", "", history.FaultTrigger{Fault: "n2", Point: "volume.unmount"})
	h.deletePod("web", "uid-2", "node-1", "op-2")
	h.record("bus", "", history.FaultEnd{Trouble: history.Trouble{Kind: history.TroubleCut, What: "n1"}})
	// db is force-deleted, and two incarnations of it run.
	db := func(uid string) history.ContainerRef {
		return history.ContainerRef{Pod: "default/db-0", UID: uid, Container: "c-" + uid, ContainerName: "main"}
	}
	pod := func(uid, op, node string) history.Commit {
		return history.Commit{Resource: "pods", Key: "default/db-0", UID: uid, Op: op, Node: node, Revision: h.at}
	}
	h.record("apiserver", "", pod("uid-3", "ADDED", "node-1")).record("runtime/node-1", "", history.Start{ContainerRef: db("uid-3")}).
		record("apiserver", "op-3", pod("uid-3", "DELETED", "node-1")).
		record("apiserver", "", pod("uid-4", "ADDED", "node-2")).record("runtime/node-2", "", history.Start{ContainerRef: db("uid-4")}).
		after(4).record("runtime/node-1", "", history.Exit{ContainerRef: db("uid-3")}).
		after(600).deletePod("late", "uid-5", "node-2", "op-5")
	in := h.input(t)
	in.Results = []guarantees.Result{
		{Invariant: guarantees.Invariant{ID: "A1", Statement: "no acknowledged write is lost"}, Verdict: guarantees.Held, Cases: 7},
		{
			Invariant: guarantees.Invariant{ID: "K3", Statement: "SIGKILL never comes early"}, Verdict: guarantees.Violated, Cases: 3, Violations: 1,
			First: &guarantees.Counterexample{What: "SIGKILL came early", Events: []history.Event{h.events[9], h.events[13], {Sequence: 1, Fact: h.events[6].Fact}}},
		},
		{Invariant: guarantees.Invariant{ID: "L11", Statement: "the end is the same"}, Verdict: guarantees.NotCheckable, Why: "needs two runs"},
	}
	return in
}

func page(t *testing.T, in Input) string {
	t.Helper()
	p, err := New(in)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// pageBody returns the parts of a page that depend on its input.
func pageBody(html string) string {
	html = html[strings.Index(html, "<body"):]
	from, to := strings.Index(html, "<svg class=\"defs\""), strings.Index(html, "<div class=\"pane\"")
	return html[:from] + html[to:strings.Index(html, "<script>")]
}

// TestGolden compares a page with the golden file. -update rewrites it.
func TestGolden(t *testing.T) {
	got := pageBody(page(t, fullInput(t)))
	path := filepath.Join("testdata", "page.html")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the page differs from %s:\n%s", path, firstDifference(got, string(want)))
	}
	if again := pageBody(page(t, fullInput(t))); again != got {
		t.Error("the same history made two pages")
	}
}

func firstDifference(got, want string) string {
	for i, line := range strings.Split(got, "\n") {
		if lines := strings.Split(want, "\n"); i >= len(lines) || lines[i] != line {
			return fmt.Sprintf("line %d: %.600s", i+1, line)
		}
	}
	return "it ends early"
}

// TestPinsAreInLanes: every event of a counter-example that is about a pod links to a pin.
func TestPinsAreInLanes(t *testing.T) {
	html := page(t, fullInput(t))
	for _, anchor := range []string{"K3-1", "K3-2", "K3-3"} {
		if !strings.Contains(html, `href="#`+anchor+`"`) || !strings.Contains(html, `id="`+anchor+`"`) {
			t.Errorf("%s leads nowhere", anchor)
		}
	}
}

// TestAbsurdTimes renders histories with times farther apart than an int64 or a duration holds.
func TestAbsurdTimes(t *testing.T) {
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for what, change := range map[string]func(begin, end *history.Event){
		"clocks of the machine": func(begin, end *history.Event) { begin.Ended, end.Ended = math.MinInt64, math.MaxInt64 },
		"the last instant":      func(begin, end *history.Event) { begin.Ended, end.Ended = math.MaxInt64, math.MaxInt64 },
		"clocks of the cluster": func(begin, end *history.Event) { begin.Wall, end.Wall = first, last },
		"both": func(begin, end *history.Event) {
			*begin, *end = history.Event{Sequence: 1, Process: begin.Process, Fact: begin.Fact, Began: math.MinInt64, Ended: math.MinInt64, Wall: first},
				history.Event{Sequence: 9, Process: end.Process, Fact: end.Fact, Began: math.MaxInt64, Ended: math.MaxInt64, Wall: last}
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := newHistoryBuilder().deletePod("web", "uid-1", "node-1", "op-1")
			change(&h.events[0], &h.events[len(h.events)-1])
			if html := page(t, h.input(t)); strings.Contains(html, "NaN") || strings.Contains(html, "Inf") {
				t.Error("a place on the page is no number")
			}
		})
	}
}

// TestNoClockIsRight renders a history in which every clock was skewed by the times that they
// showed.
func TestNoClockIsRight(t *testing.T) {
	skew := json.RawMessage(`{"name":"s","spec":{"point":"clock.skew","effect":{"type":"value","value":"1h"},"where":{"process":"*"}}}`)
	h := newHistoryBuilder().record("bus", "", history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleFault, What: "s", Arguments: skew}}).
		deletePod("web", "uid-1", "node-1", "op-1")
	if html := page(t, h.input(t)); !strings.Contains(html, "2030-05-01") {
		t.Error("want what the clocks showed")
	}
}

// TestNoExternalResources: the page loads nothing.
func TestNoExternalResources(t *testing.T) {
	html := page(t, fullInput(t))
	for _, word := range []string{"http:", "https:", "src=", "@import", "url(http", "<link"} {
		if strings.Contains(html, word) {
			t.Errorf("the page holds %q", word)
		}
	}
}

// TestHostileNames: a name with markup is shown as text.
func TestHostileNames(t *testing.T) {
	const evil = `"><script>alert(1)</script><svg onload='x'>`
	h := newHistoryBuilder().deletePod(evil, evil, evil, evil)
	h.record("bus", "", history.FaultBegin{Trouble: history.Trouble{Kind: history.TroubleKind(evil), What: evil}})
	h.deletePod("other", "uid-2", "node-1", "op-2")
	in := h.input(t)
	in.Title, in.Facts, in.Notes, in.Unproven = evil, []Fact{{evil, evil}}, []string{evil}, errors.New(evil)
	in.Results = []guarantees.Result{{
		Invariant: guarantees.Invariant{ID: evil, Statement: evil}, Verdict: guarantees.Violated, Cases: 1, Violations: 1,
		First: &guarantees.Counterexample{What: evil, Events: h.events[:3]},
	}}
	html := page(t, in)
	for _, word := range []string{"<script>alert", "<svg onload", `"><` + "script"} {
		if strings.Contains(html, word) {
			t.Errorf("the page holds %s", word)
		}
	}
	if !strings.Contains(html, "&lt;script&gt;alert(1)") {
		t.Error("the name is not on the page")
	}
}

func TestNothingToShow(t *testing.T) {
	_, err := New(Input{Log: history.Merge(newHistoryBuilder().record("bus", "", history.KubeletBoot{Node: "node-1"}).events, 0)})
	if !errors.Is(err, ErrNothing) {
		t.Errorf("%v, want %v", err, ErrNothing)
	}
}

// TestVerdictsOfLanes checks what each lane says of its pod.
func TestVerdictsOfLanes(t *testing.T) {
	p, err := New(fullInput(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"uid-1": "gone", "uid-2": "gone", "uid-3": "forced", "uid-4": "running", "uid-5": "gone"}
	for _, l := range p.Lanes {
		if l.Word != want[l.UID] {
			t.Errorf("%s is %s (%s), want %s", l.UID, l.Word, l.Verdict, want[l.UID])
		}
	}
	if len(p.Splits) != 1 || p.Splits[0].Lanes != [2]string{"uid-3", "uid-4"} {
		t.Errorf("split-brain windows %+v, want one of uid-3 and uid-4", p.Splits)
	}
	if len(p.Axis.Idle) != 1 {
		t.Errorf("idle stretches %+v, want the one of ten minutes", p.Axis.Idle)
	}
}

// TestAxis: later instants are never further left, and ticks are at the position of their time.
func TestAxis(t *testing.T) {
	in := fullInput(t)
	lanes := lanesOf(in.Log.Events)
	a := newAxis(in.Log.Events, instants(lanes, nil))
	last := percent(0)
	for _, e := range in.Log.Events {
		x := a.position(e.Ended)
		if x < last || x < 0 || x > 100 {
			t.Fatalf("%d is at %v, behind %v", e.Ended, x, last)
		}
		if off := a.clusterTime(a.instantOf(e.Wall)).Sub(e.Wall).Abs(); off > time.Second {
			t.Fatalf("%v is found %v away", e.Wall, off)
		}
		last = x
	}
}

// TestStalls shows a pause only once if it was requested and also noticed by its process.
func TestStalls(t *testing.T) {
	paused := history.Trouble{Kind: history.TroublePaused, What: "kubelet/node-1"}
	h := newHistoryBuilder().deletePod("web", "uid-1", "node-1", "op-1")
	h.after(5).record("apiserver", "", history.Stall{})
	h.events[len(h.events)-1].Began -= 4 * int64(time.Second)
	h.record("supervisor", "", history.FaultBegin{Trouble: paused}).after(5).record("supervisor", "", history.FaultEnd{Trouble: paused})
	h.record("kubelet/node-1", "", history.Stall{})
	h.events[len(h.events)-1].Began -= 7 * int64(time.Second)
	h.events[len(h.events)-1].Ended -= int64(time.Second) / 2
	h.record("supervisor", "", history.FaultBegin{Trouble: paused}).record("supervisor", "", history.FaultEnd{Trouble: paused})
	h.after(9).record("kubelet/node-1", "", history.Stall{})
	h.events[len(h.events)-1].Began -= 20 * int64(time.Second)
	h.deletePod("web", "uid-2", "node-1", "op-2")
	var texts []string
	for _, trouble := range findTroubles(h.input(t).Log.Events, lanesOf(h.input(t).Log.Events)) {
		texts = append(texts, trouble.text)
	}
	if want := []string{"apiserver stood still", "kubelet/node-1 stood still", "kubelet/node-1 paused", "kubelet/node-1 paused"}; !slices.Equal(texts, want) {
		t.Errorf("troubles %q, want %q", texts, want)
	}
}
