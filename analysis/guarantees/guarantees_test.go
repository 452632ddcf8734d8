package guarantees

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/podfall/podfall/internal/history"
)

// TestCheckers runs every checker on histories made by hand: one that violates its invariant, and
// one that has a case and keeps it. No history that keeps one invariant violates another.
func TestCheckers(t *testing.T) {
	kept := map[string]bool{}
	keeping := validHistories()
	maps.Copy(keeping, validTroubles())
	maps.Copy(keeping, validReads())
	maps.Copy(keeping, validDetails())
	maps.Copy(keeping, falseAlarms())
	maps.Copy(keeping, validExplanations())
	maps.Copy(keeping, validDependents())
	maps.Copy(keeping, validBudgets())
	maps.Copy(keeping, validVolumes())
	maps.Copy(keeping, validSidecars())
	for what, b := range keeping {
		for _, r := range check(t, b) {
			if r.Err() != nil {
				t.Errorf("%s: %v", what, r.Err())
			}
			if r.Verdict == Held {
				kept[r.ID] = true
			}
		}
	}
	broken := map[string]bool{}
	for _, c := range slices.Concat(storeViolations(), webhookViolations(), watchViolations(), deletionViolations(), nodeViolations(), otherViolations(), livenessViolations(), explanationViolations(), readViolations(), detailViolations(), dependentViolations(), budgetViolations(), volumeViolations(), sidecarViolations()) {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			r := result(check(t, c.history), c.id)
			if r.Verdict != Violated {
				t.Fatalf("%s (%d cases), want broken", r.Verdict, r.Cases)
			}
			broken[c.id] = true
			text := r.Err().Error()
			if !strings.HasPrefix(text, r.ID+": "+r.Statement) || strings.Count(text, "\n") > 9 {
				t.Errorf("want the invariant, and ten lines at most: %s", text)
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

// violation is a history that violates an invariant.
type violation struct {
	id, what string
	history  *builder
}

// TestCounts counts the invariants of guarantees.md: 62 of safety and 11 of liveness, and A15, D11,
// K15, K16, C9, C10 and C11, which are podfall's own.
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

// TestProvesNothing refuses histories in which nothing happened, or of which events are missing.
func TestProvesNothing(t *testing.T) {
	lost := newBuilder().deletePod()
	lost.record("apiserver", "", history.LostEvents{Count: 2, Err: "disk full"})
	gap := newBuilder().deletePod()
	gap.evidence.Log.Gaps = []history.Gap{{Process: kubelet, From: 2, To: 3}}
	for what, c := range map[string]struct {
		history *builder
		want    error
	}{
		"empty":   {&builder{}, ErrNothing},
		"refused": {newBuilder().request("a", by(user, "create"), 403), ErrNothing},
		"lost":    {lost, ErrIncomplete},
		"gap":     {gap, ErrIncomplete},
	} {
		if _, err := Check(c.history.evidence); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
}

// TestBeginningLost judges nothing whose cause old files may have held.
func TestBeginningLost(t *testing.T) {
	b := newBuilder().deletePod()
	b.evidence.Log.Events = slices.DeleteFunc(b.evidence.Log.Events, func(e history.Event) bool {
		return e.Process == "apiserver" && e.Sequence < 10
	})
	b.evidence.Log.Gaps = []history.Gap{{Process: "apiserver", From: 1, To: 9}}
	for _, r := range check(t, b) {
		if r.Err() != nil {
			t.Error(r.Err())
		}
	}
}

// check checks a built history.
func check(t *testing.T, b *builder) []Result {
	t.Helper()
	results, err := Check(b.evidence)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func result(results []Result, id string) Result {
	at := slices.IndexFunc(results, func(r Result) bool { return r.ID == id })
	return results[at]
}

// validHistories returns histories that keep every invariant.
func validHistories() map[string]*builder {
	plain := newBuilder().deletePod()
	plain.request("again", by(user, "delete"), 404)
	hooked := newBuilder().runPod().markPod().record(kubelet, "", history.PreStopBegin{ContainerRef: of()}).record(kubelet, "", history.PreStopEnd{ContainerRef: of()})
	hooked.record(kubelet, "", history.Mount{UID: uid, Volume: "v"}).signalPod("SIGTERM").wait(20).signalPod("SIGKILL").exitPod()
	hooked.record(runtime, "", history.SandboxStop{Pod: name, UID: uid}).record(kubelet, "", history.Unmount{UID: uid, Volume: "v"}).reportEnd().confirmPod()
	retried := newBuilder().runPod().markPod().record(kubelet, "", history.PreStopBegin{ContainerRef: of()}).record(kubelet, "", history.PreStopEnd{ContainerRef: of()})
	retried.record(kubelet, "", history.KubeletStuck{Pod: name, UID: uid, Doing: "stop pod"}).record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
	retried.record(kubelet, "", history.PreStopBegin{ContainerRef: of()}).record(kubelet, "", history.PreStopEnd{ContainerRef: of()}).signalPod("SIGTERM").exitPod().reportEnd().confirmPod()
	preconditions := newBuilder().runPod()
	preconditions.request("revision", by(user, "delete", grace(30), func(o *history.OpCall) { o.PreRevision = "3" }), 200, web(modified, marked(30, preconditions.clock+32)))
	held := newBuilder().request("create", by(user, "create"), 201, web(added, pending, finalizers("a")))
	held.request("mark", by(user, "delete"), 200, web(modified, pending, finalizers("a"), marked(0, held.clock+4)))
	held.request("free", by(user, "patch"), 200, web(deleted, pending, finalizers("a"), marked(0, held.clock)))
	policies := newBuilder().runPod()
	policies.request("mark", by(user, "delete"), 200, web(modified, finalizers("foregroundDeletion"), marked(30, policies.clock+32)))
	policies.request("again", by(user, "delete"), 200, web(modified, policies.keepMark(), finalizers("orphan")))
	failed := newBuilder().runPod()
	failed.record("apiserver", "", history.StoreError{Kind: "no space"}).restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).markPod()
	reopened := newBuilder().runPod().sendEvent(3).restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).markPod()
	lease := newBuilder().runPod().record(kubelet, "", history.Lease{Node: "n1"}).restart(kubelet).record(kubelet, "", history.Lease{Node: "n1"}).record(kubelet, "", history.Lease{Node: "n1"})
	cascade := newBuilder().runPod().record("controllers", "", history.Decide{Controller: "namespace-controller", Action: "delete", Resource: podResource, Key: name})
	cascade.request("mark", by("controllers", "delete"), 200, web(modified, marked(30, cascade.clock+32)))
	evicted := newBuilder().runPod()
	evicted.request("evict", by(user, "create", grace(0), evicting), 201, web(modified), web(modified, marked(0, evicted.clock+4)), web(deleted, marked(0, evicted.clock+4)))
	return map[string]*builder{
		"evicted": evicted, "webhooks": validWebhooks(),
		"plain": plain.withStoreFile(), "hooked": hooked.withStoreFile(), "retried": retried.withStoreFile(), "precondition": preconditions, "finalizer": held.withStoreFile(), "policies": policies, "standing still": pausedControllers(0), "disk": failed, "opened again": reopened,
		"boots": lease, "cascade": cascade, "watched": watchedDeletion(sendAll), "split brain": splitBrain(by(user, "delete", grace(0)), history.Window{}),
	}
}
