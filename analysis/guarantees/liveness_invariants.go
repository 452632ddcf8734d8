package guarantees

import "github.com/podfall/podfall/internal/history"

// livenessInvariants returns what must happen in the end: while nothing is broken, counted from the
// end of the last trouble.
func livenessInvariants() []Invariant {
	troubles := []history.Name{history.NameFaultWatch, history.NameFaultBegin, history.NameFaultEnd, history.NameStall}
	fair := func(more ...history.Name) []history.Name {
		return append(append([]history.Name{}, troubles...), more...)
	}
	return []Invariant{
		{
			ID: "L1", Statement: "a terminating pod that nothing blocks goes within its grace period and 10 s", check: checkRemovalTime,
			Facts: fair(history.NameCommit, history.NameCreate), Limits: "a pod whose container's script holds it up is not judged",
		},
		{
			ID: "L2", Statement: "a pod goes once its blocker is removed", check: checkRemovalAfterBlocker,
			Facts: fair(history.NameOpCall, history.NameOpReturn, history.NameCommit, history.NameCreate), Limits: "as L1; after trouble the bound is its grace period and 70 s, of which 60 are for connections and back-offs",
		},
		{
			ID: "L3", Statement: "a healed kubelet ends what the API has not", check: checkOrphansStopped,
			Facts: fair(history.NameCommit, history.NameStart, history.NameExit, history.NameKubeletTerm), Limits: "as L1; the bound is its grace period and 72 s, of which 60 are for connections and back-offs, after trouble and without",
		},
		{
			ID: "L4", Statement: "watchers equal the store", check: checkWatchersCaughtUp,
			Facts: fair(history.NameCommit, history.NameWatchOpen, history.NameWatchEvent, history.NameWatchEnd, history.NameKubeletSee), Limits: "watches have 5 s, kubelets 65, of which 60 are for connections; of kubelets only which pods they have and are to end; other caches are not recorded",
		},
		{
			ID: "L5", Statement: "the desired state is reached and stays", check: checkDesiredState,
			Facts: fair(history.NameCommit, history.NameOpReturn, history.NameDecide), Limits: "60 s after the last that disturbs it, and 60 more after trouble; of ReplicaSets and StatefulSets, by their number of pods; not while a pod of others has the name of the next",
		},
		{
			ID: "L6", Statement: "the apiserver serves soon after a kill", check: checkRestartTime,
			Facts: fair(history.NameStoreOpen), Limits: "the bound is 2 s, and 5 for a busy machine to start a process",
		},
		{
			ID: "L7", Statement: "no request hangs", Facts: fair(history.NameOpCall, history.NameOpReturn), check: checkRequestsAnswered,
			Limits: "of requests that reach the apiserver; a client's own deadline is its own",
		},
		{
			ID: "L8", Statement: "the explanation is right", Facts: fair(history.NameBlocker, history.NameOpCall, history.NameOpReturn, history.NameCommit, history.NameCreate, history.NameKubeletBoot, history.NameDecide), check: checkExplanations,
			Limits: "that something is said is checked of kubelets that are down or cut off, 35 s after the pod is overdue, and not 5; that a Job keeps a pod, of any Job that is there; what needs no trouble is not judged, such as a long grace or late requests",
		},
		{ID: "L9", Statement: "in the end nothing is reconciled", Facts: fair(history.NameDecide, history.NameOpCall), Limits: "queues are not recorded; what is decided about a Job follows its pods", check: checkIdle},
		{ID: "L10", Statement: "nothing leaks", Unchecked: "a history does not show it; TestLeaks of e2e/guarantees measures it: goroutines and descriptors within a tenth, the heap after a collection, and not the memory of the process, within a tenth and 16 MiB, databases within 4 KiB for each pod"},
		{ID: "L11", Statement: "the end is the same with and without faults", Unchecked: "needs two histories; TestSameEnd of e2e/guarantees compares them"},
	}
}
