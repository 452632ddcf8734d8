package guarantees

import (
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// Invariant is a property of the cluster that must always hold.
type Property struct {
	// ID identifies the invariant in guarantees.md, for example A1.
	ID string
	// Statement says what must hold.
	Promise string
	// Facts names the events that the checker reads.
	From []history.Name
	// Limits says which part of the invariant is not checked; empty if all of it is.
	Partly string
	// Unchecked says why no history can show the invariant yet; empty if it has a checker.
	Unchecked string

	check func(*past, *trial)
}

// Invariants returns all invariants, in order.
func Properties() []Property {
	return slices.Concat(storeProperties(), watchProperties(), deletionProperties(), nodeProperties(),
		controllerProperties(), messageProperties(), livenessProperties())
}

// Title returns the id and the statement of an invariant. Messages about a violation begin with it,
// also those of tests that check what no history shows.
func Words(id string) string {
	all := Properties()
	p := all[slices.IndexFunc(all, func(p Property) bool { return p.ID == id })]
	return p.ID + ": " + p.Promise
}

// operationFacts returns the facts about operations and commits, and more.
func operations(more ...history.Name) []history.Name {
	return append([]history.Name{history.NameOpCall, history.NameOpReturn, history.NameCommit}, more...)
}

func commits() []history.Name { return []history.Name{history.NameCommit} }

func storeProperties() []Property {
	return []Property{
		{ID: "A1", Promise: "no acknowledged write is lost", From: operations(), check: kept},
		{ID: "A2", Promise: "nothing is invented: every commit was asked for", From: operations(), check: caused},
		{ID: "A3", Promise: "revisions rise by one and are never given again", From: operations(history.NameStoreOpen, history.NameWatchEvent), check: counted},
		{
			ID: "A4", Promise: "a write or a read that begins after another was answered comes after it", From: operations(history.NameLookup, history.NameConsulted),
			Partly: "lists that ask for any revision may be older", check: ordered,
		},
		{ID: "A5", Promise: "a write replaces the revision that it was made for", From: operations(), check: optimistic},
		{ID: "A6", Promise: "a create is exclusive and a uid is never used twice", From: commits(), check: exclusive},
		{ID: "A7", Promise: "an operation that means one uid changes no other", From: operations(), check: preconditions},
		{
			ID: "A8", Promise: "creationTimestamp and nodeName stay, and generation, deletionTimestamp, grace period and phase only go one way",
			From: []history.Name{history.NameCommit, history.NameDecide}, check: monotone,
			Partly: "the pod garbage collector may fail a pod whose success it has not seen, as upstream's",
		},
		{
			ID: "A9", Promise: "what is on disk is one state, whatever moment the power failed", From: []history.Name{history.NameStoreOpen, history.NameCommit}, check: oneState,
			Partly: "of the file as it is; images of the disk at every moment are tried by TestPowerCuts of services/apiserver/store",
		},
		{
			ID: "A10", Promise: "damage is detected", From: []history.Name{history.NameStoreOpen}, check: undamaged,
			Partly: "of the file as it is; damaged copies are tried by TestDamagedFiles of services/apiserver/store",
		},
		{ID: "A11", Promise: "nothing is acknowledged after the disk has refused a commit", From: operations(history.NameStoreError), check: silent},
		{
			ID: "A12", Promise: "a list is exactly the state at its revision, page by page", From: []history.Name{history.NameLookup, history.NameCommit, history.NameStoreOpen}, check: exactly,
			Partly: "by labels, and the fields metadata.name, metadata.namespace, spec.nodeName and status.phase",
		},
		{ID: "A13", Promise: "what was compacted is refused with 410, and nothing else is", From: []history.Name{history.NameLookup, history.NameFsync}, check: honest},
		{ID: "A14", Promise: "what was refused, or was a dry run, changes nothing", From: operations(), check: harmless},
		{
			ID: "A15", Promise: "what a webhook has refused does not happen, and one that may be passed over refuses nothing by its failure",
			From: operations(history.NameConsulted), check: consulted,
		},
	}
}

func watchProperties() []Property {
	sends := []history.Name{history.NameWatchOpen, history.NameWatchEvent, history.NameWatchEnd}
	replayed := append(sends, history.NameCommit)
	opens := []history.Name{history.NameLookup, history.NameCommit}
	const scopes = "of watches by labels, and the fields metadata.name, metadata.namespace, spec.nodeName and status.phase"
	return []Property{
		{ID: "W1", Promise: "a watch's revisions never fall", From: sends, check: inOrder},
		{ID: "W2", Promise: "a watch is sent no revision twice", From: sends, check: once},
		{ID: "W3", Promise: "a watch is sent every commit that its selector covers, and nothing else", From: replayed, Partly: scopes, check: gapless},
		{ID: "W4", Promise: "a watch that resumes misses nothing, or is told 410", From: append(opens, history.NameFsync), Partly: scopes, check: caughtUp},
		{ID: "W5", Promise: "a bookmark is true", From: append(opens, history.NameTook), Partly: scopes, check: truly},
		{ID: "W6", Promise: "the type of an event is relative to the selector, and its object is the commit's", From: replayed, Partly: scopes, check: typed},
		{
			ID: "W7", Promise: "a slow consumer is told everything or its end, and holds nobody up", From: []history.Name{history.NameTook, history.NameCommit}, check: wholly,
			Partly: "of the consumers in controllers and kubelets; that a slow one holds nobody up is tried by TestTD048AStuckReaderDelaysNobody of services/apiserver/watch",
		},
		{ID: "W8", Promise: "no client goes back in time, over reconnects and restarts", From: []history.Name{history.NameKubeletSee, history.NameCopied}, Partly: "of clients kubelets and controllers", check: forward},
		{ID: "W9", Promise: "all watches agree at equal revisions", From: sends, check: agreed},
		{ID: "W10", Promise: "a watch from no, any, a present, a future and a false revision is answered as documented", From: opens, Partly: scopes, check: documented},
	}
}

func deletionProperties() []Property {
	return []Property{
		{ID: "D1", Promise: "a graceful delete of a pod that runs only marks it, with the time of the delete and the grace period", From: operations(), Partly: "the time is not judged while a fault skews the apiserver's clock", check: graceful},
		{ID: "D2", Promise: "the grace period is the one asked for or the pod's own, 0 for a pod that cannot run, 1 for a negative one", From: operations(), check: periods},
		{ID: "D3", Promise: "a later delete only shortens", From: operations(), Partly: "as D1", check: shortenOnly},
		{ID: "D4", Promise: "finalizers hold an object, none is added to one that is being deleted, and the end of the last removes it", From: commits(), check: finalized},
		{ID: "D5", Promise: "a pod is removed by its own kubelet, by force, by the end of its last finalizer, or when it cannot run", From: operations(), check: remover},
		{
			ID: "D6", Promise: "a pod's object outlives its containers and mounts", check: outlives,
			From: operations(history.NameStart, history.NameExit, history.NameMount, history.NameUnmount),
		},
		{ID: "D7", Promise: "a re-created pod is never hit", From: operations(history.NameKubeletSee), Partly: "of a status's writer it is known what it had seen, not what it meant", check: meant},
		{ID: "D8", Promise: "a force delete is immediate, and people are warned where it leaves something behind", From: operations(), Partly: "windows are C2's", check: immediate},
		{ID: "D9", Promise: "deletes are idempotent", From: operations(), check: idempotent},
		{ID: "D10", Promise: "a cascade never force-deletes", From: operations(history.NameDecide), check: cascades},
		{
			ID: "D11", Promise: "an owner that is deleted in the foreground goes after those of its dependents that block its deletion", From: operations(history.NameDecide), check: ownersLast,
			Partly: "of owners that the garbage collector lets go, and dependents of built-in kinds of which it could have heard for a minute",
		},
	}
}

func nodeProperties() []Property {
	signals := []history.Name{history.NameSignaling, history.NameSignal}
	stops := append(signals, history.NameKubeletTerm, history.NameKubeletSee, history.NamePreStopEnd)
	starts := []history.Name{history.NameCreate, history.NameStart, history.NameExit}
	return []Property{
		{ID: "K1", Promise: "the stop signal waits for the preStop hook, which runs once in each attempt", From: append(signals, history.NameKubeletTerm, history.NamePreStopBegin, history.NamePreStopEnd), check: hooked},
		{ID: "K2", Promise: "SIGKILL is preceded by the stop signal", From: append(signals, history.NameCreate, history.NameStart, history.NameKubeletTerm), Partly: "of what ran when the stop of its pod was planned", check: warned},
		{ID: "K3", Promise: "SIGKILL never comes early", From: stops, Partly: "of pods that are stopped; the grace period of a failed probe is not recorded", check: patient},
		{ID: "K4", Promise: "SIGKILL does not come late", From: append(stops, history.NameKubeletStuck), Partly: "of stops that did not fail", check: punctual},
		{
			ID: "K5", Promise: "a shortened grace period holds from the next attempt to stop the pod on", From: []history.Name{history.NameKubeletSee, history.NameKubeletTerm}, check: honoured,
			Partly: "as upstream, and not at once (KBL-18)",
		},
		{ID: "K6", Promise: "a runtime sends a container its stop signal once", From: signals, check: onceSignaled},
		{ID: "K7", Promise: "nothing is started once a pod's end has begun", From: append(starts, history.NameKubeletTerm), check: final},
		{ID: "K8", Promise: "a pod that has ended never runs again", From: append(starts, history.NameCommit, history.NameKubeletFinal), check: dead},
		{ID: "K9", Promise: "a pod is on one node", From: starts, check: oneNode},
		{ID: "K10", Promise: "what a kubelet tells is true", From: append(starts, history.NameKubeletStatus, history.NameKubeletTerm), Partly: "that one runs which has ended is only a lie where nothing is broken, after 30 s, and not before a webhook lets it be said or the stop of its pod is over", check: truthful},
		{ID: "K11", Promise: "the final delete comes after the runtime was asked", From: []history.Name{history.NameKubeletFinal}, check: asked},
		{
			ID: "K12", Promise: "directories, volumes and logs belong to one uid", From: []history.Name{history.NameMount, history.NameUnmount, history.NameCreate}, check: apart,
			Partly: "logs are kept under their container's id, which is never another pod's",
		},
		{
			ID: "K13", Promise: "containers end before sidecars are stopped, and before volumes and sandboxes are taken away, and the last phase is told before the final delete", check: tornDown,
			From:   append(starts, history.NameUnmount, history.NameSandboxStop, history.NameKubeletStatus, history.NameKubeletFinal, history.NameCommit, history.NameKubeletTerm, history.NameSignaling),
			Partly: "of sidecars that are stopped with their pod, before its grace period is used up",
		},
		{
			ID: "K14", Promise: "a kubelet that is cut off keeps running what it knows", check: steadfast,
			From: []history.Name{history.NameFaultBegin, history.NameFaultEnd, history.NameKubeletSee, history.NameKubeletTerm, history.NameKubeletBoot, history.NameStart, history.NameExit},
		},
		{ID: "K15", Promise: "of a container of a pod one run at a time is alive", From: starts, check: oneRun},
		{
			ID: "K16", Promise: "a volume for one node is attached to one and mounted where it is attached, and leaves a node that has it mounted only if that is gone, out of service, or not well and without a use for it for 6 min",
			From: operations(history.NameMount, history.NameUnmount), check: attachedOnce, Partly: "of CSI volumes that are attached by the controllers",
		},
	}
}

func controllerProperties() []Property {
	lives := []history.Name{history.NameStart, history.NameExit, history.NameCommit, history.NameOpCall}
	return []Property{
		{ID: "C1", Promise: "at most one incarnation of an identity runs, unless the older was forced away", From: lives, check: atMostOne},
		{
			ID: "C2", Promise: "split-brain windows are shown exactly", From: append(lives, history.NameWindow, history.NameLookup), check: shown,
			Partly: "of pods that controllers saw leave the API and knew bound, or that had left before they began and could be found in time, on nodes whose runtimes answered",
		},
		{ID: "C3", Promise: "a name is taken until its object is gone, and an ordered StatefulSet makes its pods in order", From: commits(), check: nameLocked},
		{
			ID: "C4", Promise: "a ReplicaSet never has more pods than it should, but for the creates of one sync", From: operations(history.NameLookup), check: notTooMany,
			Partly: "not within a minute of a start of the controllers",
		},
		{ID: "C5", Promise: "a controller reads its own writes before it changes an object again", From: operations(history.NameDecide), check: upToDate},
		{
			ID: "C6", Promise: "no pod is evicted in haste", From: operations(history.NameDecide, history.NameLookup), check: notInHaste,
			Partly: "a node may be called unreachable after 40 s, the shortest of the releases; what a skewed clock does is not judged",
		},
		{ID: "C7", Promise: "controllers only begin deletion", From: operations(history.NameDecide), check: begins},
		{ID: "C8", Promise: "a pod is bound once, and not while it is being deleted", From: commits(), check: boundOnce},
		{ID: "C9", Promise: "an eviction is allowed only within its budget", From: operations(), check: withinBudget},
		{
			ID: "C10", Promise: "no index of a Job is given to a pod while another pod does it", From: operations(), check: onePerIndex,
			Partly: "as C4",
		},
		{ID: "C11", Promise: "a Job counts none of its pods twice", From: operations(history.NameDecide), check: countedOnce},
	}
}

func messageProperties() []Property {
	return []Property{
		{ID: "N1", Promise: "an operation takes effect once", From: commits(), check: onceDone},
		{ID: "N2", Promise: "no message takes effect after its deadline", From: operations(), Partly: "a change is begun a second late at most, for timers; a slow disk may have it later", check: inTime},
		{ID: "N3", Promise: "a cut is a cut", From: operations(history.NameFaultBegin, history.NameFaultEnd, history.NameKubeletSee), Partly: "of cuts that hold or reset everything, both ways", check: cutOff},
		{ID: "N4", Promise: "a kubelet changes what is on its node", From: operations(), Partly: "what the bus refuses is not recorded", check: identified},
		{ID: "N5", Promise: "what is malformed changes nothing and ends nobody", From: []history.Name{history.NameRefused}, check: unimpressed, Partly: "what is more than the bus lets through, its own tests send"},
		{ID: "N6", Promise: "an older incarnation is fenced", From: []history.Name{history.NameKubeletStatus, history.NameLease, history.NameReady, history.NameOpCall}, Partly: "of kubelets", check: fenced},
	}
}
