package guarantees

import "github.com/podfall/podfall/internal/history"

// livenessProperties are what must happen in the end: while nothing is broken, counted from
// when the last was mended.
func livenessProperties() []Property {
	troubles := []history.Name{history.NameFaultWatch, history.NameFaultBegin, history.NameFaultEnd, history.NameStall}
	fair := func(more ...history.Name) []history.Name {
		return append(append([]history.Name{}, troubles...), more...)
	}
	return []Property{
		{
			ID: "L1", Promise: "a terminating pod that nothing blocks goes within its grace period and 10 s", check: goes,
			From: fair(history.NameCommit, history.NameCreate), Partly: "a pod whose container's script holds it up is not judged",
		},
		{
			ID: "L2", Promise: "a pod goes once its blocker is removed", check: freed,
			From: fair(history.NameOpCall, history.NameOpReturn, history.NameCommit, history.NameCreate), Partly: "as L1; after trouble the bound is its grace period and 70 s, of which 60 are for connections and back-offs",
		},
		{
			ID: "L3", Promise: "a healed kubelet ends what the API has not", check: adopted,
			From: fair(history.NameCommit, history.NameStart, history.NameExit, history.NameKubeletTerm), Partly: "as L2",
		},
		{
			ID: "L4", Promise: "watchers equal the store", check: informed,
			From: fair(history.NameCommit, history.NameWatchOpen, history.NameWatchEvent, history.NameWatchEnd, history.NameKubeletSee), Partly: "of kubelets only which pods they have and are to end; other caches are not recorded",
		},
		{
			ID: "L5", Promise: "the desired state is reached and stays", check: reached,
			From: fair(history.NameCommit, history.NameOpReturn, history.NameDecide), Partly: "of ReplicaSets and StatefulSets, by their number of pods; not while a pod of others has the name of the next",
		},
		{
			ID: "L6", Promise: "the apiserver serves soon after a kill", check: serving,
			From: fair(history.NameStoreOpen), Partly: "the bound is 2 s, and 5 for a busy machine to start a process",
		},
		{
			ID: "L7", Promise: "no request hangs", From: fair(history.NameOpCall, history.NameOpReturn), check: prompt,
			Partly: "of requests that reach the apiserver; a client's own deadline is its own",
		},
		{
			ID: "L8", Promise: "the explanation is right", From: fair(history.NameBlocker, history.NameCommit, history.NameCreate, history.NameKubeletBoot), check: explains,
			Partly: "that something is said is checked of kubelets that are down or cut off",
		},
		{ID: "L9", Promise: "in the end nothing is reconciled", From: fair(history.NameDecide, history.NameOpCall), Partly: "queues are not recorded; what is decided about a Job follows its pods", check: idle},
		{ID: "L10", Promise: "nothing leaks", Unchecked: "a history does not show it; TestLeaks of e2e/guarantees measures it"},
		{ID: "L11", Promise: "the end is the same with and without faults", Unchecked: "needs two histories; TestSameEnd of e2e/guarantees compares them"},
	}
}
