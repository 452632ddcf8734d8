package guarantees

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// TestForged puts every checker to histories made by hand: one that breaks its promise, and
// one that has a case of it and keeps it. No history that keeps one promise breaks another.
func TestForged(t *testing.T) {
	kept := map[string]bool{}
	keeping := whole()
	maps.Copy(keeping, lively())
	maps.Copy(keeping, reading())
	maps.Copy(keeping, telling())
	maps.Copy(keeping, forgiven())
	maps.Copy(keeping, explaining())
	maps.Copy(keeping, dependents())
	maps.Copy(keeping, budgets())
	maps.Copy(keeping, disks())
	maps.Copy(keeping, sidecars())
	for what, f := range keeping {
		for _, r := range check(t, f) {
			if r.Err() != nil {
				t.Errorf("%s: %v", what, r.Err())
			}
			if r.Verdict == Held {
				kept[r.ID] = true
			}
		}
	}
	broken := map[string]bool{}
	for _, c := range slices.Concat(brokenStore(), brokenWebhooks(), brokenWatches(), brokenDeletions(), brokenNodes(), brokenOthers(), brokenLiveness(), brokenExplanations(), brokenReads(), brokenTellings(), brokenDependents(), brokenBudgets(), brokenDisks(), brokenSidecars()) {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			r := result(check(t, c.history), c.id)
			if r.Verdict != Violated {
				t.Fatalf("%s (%d cases), want broken", r.Verdict, r.Cases)
			}
			broken[c.id] = true
			text := r.Err().Error()
			if !strings.HasPrefix(text, r.ID+": "+r.Statement) || strings.Count(text, "\n") > 9 {
				t.Errorf("want the promise, and ten lines at most: %s", text)
			}
		})
	}
	for _, p := range Invariants() {
		switch {
		case p.check == nil && (p.Unchecked == "" || len(p.Facts) > 0):
			t.Errorf("%s has no checker: want why, and no events", p.ID)
		case p.check != nil && (p.Unchecked != "" || len(p.Facts) == 0):
			t.Errorf("%s has a checker: want its events", p.ID)
		case p.check != nil && (!kept[p.ID] || !broken[p.ID]):
			t.Errorf("%s: a history that keeps it %v, one that breaks it %v; want both", p.ID, kept[p.ID], broken[p.ID])
		}
	}
}

// forged is a history that breaks a property.
type forged struct {
	id, what string
	history  *forge
}

// TestCounts has the table be that of guarantees.md, 62 properties of safety and 11 of
// liveness, and A15, D11, K15, K16, C9, C10 and C11, which are podfall's own.
func TestCounts(t *testing.T) {
	count := map[byte]int{}
	for _, p := range Invariants() {
		count[p.ID[0]]++
	}
	for letter, want := range map[byte]int{'A': 15, 'W': 10, 'D': 11, 'K': 16, 'C': 11, 'N': 6, 'L': 11} {
		if count[letter] != want {
			t.Errorf("%c: %d properties, want %d", letter, count[letter], want)
		}
	}
}

// TestProvesNothing refuses a history in which nothing has happened, or of which something is missing.
func TestProvesNothing(t *testing.T) {
	lost := newForge().whole()
	lost.say("apiserver", "", history.LostEvents{Count: 2, Err: "disk full"})
	gap := newForge().whole()
	gap.evidence.Log.Gaps = []history.Gap{{Process: kubelet, From: 2, To: 3}}
	for what, c := range map[string]struct {
		history *forge
		want    error
	}{
		"empty":   {&forge{}, ErrNothing},
		"refused": {newForge().ask("a", by(user, "create"), 403), ErrNothing},
		"lost":    {lost, ErrIncomplete},
		"gap":     {gap, ErrIncomplete},
	} {
		if _, err := Check(c.history.evidence); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// TestBeginningLost judges nothing that old files may have had the cause of.
func TestBeginningLost(t *testing.T) {
	f := newForge().whole()
	f.evidence.Log.Events = slices.DeleteFunc(f.evidence.Log.Events, func(e history.Event) bool {
		return e.Process == "apiserver" && e.Sequence < 10
	})
	f.evidence.Log.Gaps = []history.Gap{{Process: "apiserver", From: 1, To: 9}}
	for _, r := range check(t, f) {
		if r.Err() != nil {
			t.Error(r.Err())
		}
	}
}

func check(t *testing.T, f *forge) []Result {
	t.Helper()
	results, err := Check(f.evidence)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func result(results []Result, id string) Result {
	at := slices.IndexFunc(results, func(r Result) bool { return r.ID == id })
	return results[at]
}

// whole are histories that keep every promise.
func whole() map[string]*forge {
	plain := newForge().whole()
	plain.ask("again", by(user, "delete"), 404)
	hooked := newForge().run().mark().say(kubelet, "", history.PreStopBegin{ContainerRef: of()}).say(kubelet, "", history.PreStopEnd{ContainerRef: of()})
	hooked.say(kubelet, "", history.Mount{UID: uid, Volume: "v"}).signal("SIGTERM").wait(20).signal("SIGKILL").exit()
	hooked.say(runtime, "", history.SandboxStop{Pod: name, UID: uid}).say(kubelet, "", history.Unmount{UID: uid, Volume: "v"}).told().remove()
	retried := newForge().run().mark().say(kubelet, "", history.PreStopBegin{ContainerRef: of()}).say(kubelet, "", history.PreStopEnd{ContainerRef: of()})
	retried.say(kubelet, "", history.KubeletStuck{Pod: name, UID: uid, Doing: "stop pod"}).say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
	retried.say(kubelet, "", history.PreStopBegin{ContainerRef: of()}).say(kubelet, "", history.PreStopEnd{ContainerRef: of()}).signal("SIGTERM").exit().told().remove()
	preconditions := newForge().run()
	preconditions.ask("revision", by(user, "delete", grace(30), func(o *history.OpCall) { o.PreRevision = "3" }), 200, web(modified, marked(30, preconditions.clock+32)))
	held := newForge().ask("create", by(user, "create"), 201, web(added, pending, finalizers("a")))
	held.ask("mark", by(user, "delete"), 200, web(modified, pending, finalizers("a"), marked(0, held.clock+4)))
	held.ask("free", by(user, "patch"), 200, web(deleted, pending, finalizers("a"), marked(0, held.clock)))
	policies := newForge().run()
	policies.ask("mark", by(user, "delete"), 200, web(modified, finalizers("foregroundDeletion"), marked(30, policies.clock+32)))
	policies.ask("again", by(user, "delete"), 200, web(modified, policies.stillMarked(), finalizers("orphan")))
	failed := newForge().run()
	failed.say("apiserver", "", history.StoreError{Kind: "no space"}).restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).mark()
	reopened := newForge().run().shown(3).restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).mark()
	lease := newForge().run().say(kubelet, "", history.Lease{Node: "n1"}).restart(kubelet).say(kubelet, "", history.Lease{Node: "n1"}).say(kubelet, "", history.Lease{Node: "n1"})
	cascade := newForge().run().say("controllers", "", history.Decide{Controller: "namespace-controller", Action: "delete", Resource: podResource, Key: name})
	cascade.ask("mark", by("controllers", "delete"), 200, web(modified, marked(30, cascade.clock+32)))
	evicted := newForge().run()
	evicted.ask("evict", by(user, "create", grace(0), evicting), 201, web(modified), web(modified, marked(0, evicted.clock+4)), web(deleted, marked(0, evicted.clock+4)))
	return map[string]*forge{
		"evicted": evicted, "webhooks": webhooks(),
		"plain": plain.file(), "hooked": hooked.file(), "retried": retried.file(), "precondition": preconditions, "finalizer": held.file(), "policies": policies, "standing still": standStill(0), "disk": failed, "opened again": reopened,
		"boots": lease, "cascade": cascade, "watched": watched(sendAll), "split brain": splitBrain(by(user, "delete", grace(0)), history.Window{}),
	}
}
