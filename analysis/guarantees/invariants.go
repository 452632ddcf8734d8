package guarantees

import (
	"slices"

	"github.com/podfall/podfall/internal/history"
)

// Invariant is a property of the cluster that must always hold.
type Invariant struct {
	// ID identifies the invariant in guarantees.md, for example A1.
	ID string
	// Statement says what must hold.
	Statement string
	// Facts names the events that the checker reads.
	Facts []history.Name
	// Limits says which part of the invariant is not checked; empty if all of it is.
	Limits string
	// Unchecked says why no history can show the invariant yet; empty if it has a checker.
	Unchecked string

	check func(*clusterHistory, *tally)
}

// Invariants returns all invariants, in order.
func Invariants() []Invariant {
	return slices.Concat(storeInvariants(), watchInvariants(), deletionInvariants(), nodeInvariants(),
		controllerInvariants(), messageInvariants(), livenessInvariants())
}

// Title returns the id and the statement of an invariant. Messages about a violation begin with it,
// also those of tests that check what no history shows.
func Title(id string) string {
	all := Invariants()
	p := all[slices.IndexFunc(all, func(p Invariant) bool { return p.ID == id })]
	return p.ID + ": " + p.Statement
}

// operationFacts returns the facts about operations and commits, and more.
func operationFacts(more ...history.Name) []history.Name {
	return append([]history.Name{history.NameOpCall, history.NameOpReturn, history.NameCommit}, more...)
}

func commitFacts() []history.Name { return []history.Name{history.NameCommit} }

func storeInvariants() []Invariant {
	return []Invariant{
		{ID: "A1", Statement: "no acknowledged write is lost", Facts: operationFacts(), check: checkWritesKept},
		{ID: "A2", Statement: "nothing is invented: every commit was asked for", Facts: operationFacts(), check: checkCommitsRequested},
		{ID: "A3", Statement: "revisions rise by one and are never given again", Facts: operationFacts(history.NameStoreOpen, history.NameWatchEvent), check: checkRevisions},
		{
			ID: "A4", Statement: "a write or a read that begins after another was answered comes after it", Facts: operationFacts(history.NameOpRead, history.NameWebhookCall),
			Limits: "lists that ask for any revision may be older", check: checkRealTimeOrder,
		},
		{ID: "A5", Statement: "a write replaces the revision that it was made for", Facts: operationFacts(), check: checkReplacedRevisions},
		{ID: "A6", Statement: "a create is exclusive and a uid is never used twice", Facts: commitFacts(), check: checkCreates},
		{ID: "A7", Statement: "an operation that means one uid changes no other", Facts: operationFacts(), check: checkUIDPreconditions},
		{
			ID: "A8", Statement: "creationTimestamp and nodeName stay, and generation, deletionTimestamp, grace period and phase only go one way",
			Facts: []history.Name{history.NameCommit, history.NameDecide}, check: checkMonotonicFields,
			Limits: "the pod garbage collector may fail a pod whose success it has not seen, as upstream's",
		},
		{
			ID: "A9", Statement: "what is on disk is one state, whatever moment the power failed", Facts: []history.Name{history.NameStoreOpen, history.NameCommit}, check: checkFileState,
			Limits: "of the file as it is; images of the disk at every moment are tried by TestPowerCuts of services/apiserver/store",
		},
		{
			ID: "A10", Statement: "damage is detected", Facts: []history.Name{history.NameStoreOpen}, check: checkFileDamage,
			Limits: "of the file as it is; damaged copies are tried by TestDamagedFiles of services/apiserver/store",
		},
		{ID: "A11", Statement: "nothing is acknowledged after the disk has refused a commit", Facts: operationFacts(history.NameStoreError), check: checkNoWriteAfterDiskError},
		{
			ID: "A12", Statement: "a list is exactly the state at its revision, page by page", Facts: []history.Name{history.NameOpRead, history.NameCommit, history.NameStoreOpen}, check: checkListIsExact,
			Limits: "by labels, and the fields metadata.name, metadata.namespace, spec.nodeName and status.phase",
		},
		{ID: "A13", Statement: "what was compacted is refused with 410, and nothing else is", Facts: []history.Name{history.NameOpRead, history.NameFsync}, check: checkCompactedRefused},
		{ID: "A14", Statement: "what was refused, or was a dry run, changes nothing", Facts: operationFacts(), check: checkRefusedHasNoEffect},
		{
			ID: "A15", Statement: "what a webhook has refused does not happen, and one that may be passed over refuses nothing by its failure",
			Facts: operationFacts(history.NameWebhookCall), check: checkWebhookAnswers,
		},
	}
}

func watchInvariants() []Invariant {
	sends := []history.Name{history.NameWatchOpen, history.NameWatchEvent, history.NameWatchEnd}
	replayed := append(sends, history.NameCommit)
	opens := []history.Name{history.NameOpRead, history.NameCommit}
	const scopes = "of watches by labels, and the fields metadata.name, metadata.namespace, spec.nodeName and status.phase"
	return []Invariant{
		{ID: "W1", Statement: "a watch's revisions never fall", Facts: sends, check: checkWatchOrder},
		{ID: "W2", Statement: "a watch is sent no revision twice", Facts: sends, check: checkNoDuplicateEvents},
		{ID: "W3", Statement: "a watch is sent every commit that its selector covers, and nothing else", Facts: replayed, Limits: scopes, check: checkNoMissedEvents},
		{ID: "W4", Statement: "a watch that resumes misses nothing, or is told 410", Facts: append(opens, history.NameFsync), Limits: scopes, check: checkWatchResume},
		{ID: "W5", Statement: "a bookmark is true", Facts: append(opens, history.NameWatchDelivery), Limits: scopes, check: checkBookmark},
		{ID: "W6", Statement: "the type of an event is relative to the selector, and its object is the commit's", Facts: replayed, Limits: scopes, check: checkEventTypes},
		{
			ID: "W7", Statement: "a slow consumer is told everything or its end, and holds nobody up", Facts: []history.Name{history.NameWatchDelivery, history.NameCommit}, check: checkSlowConsumer,
			Limits: "of the consumers in controllers and kubelets; that a slow one holds nobody up is tried by TestTD048AStuckReaderDelaysNobody of services/apiserver/watch",
		},
		{ID: "W8", Statement: "no client goes back in time, over reconnects and restarts", Facts: []history.Name{history.NameKubeletSee, history.NameRelist}, Limits: "of clients kubelets and controllers", check: checkClientsMoveForward},
		{ID: "W9", Statement: "all watches agree at equal revisions", Facts: sends, check: checkWatchesAgree},
		{ID: "W10", Statement: "a watch from no, any, a present, a future and a false revision is answered as documented", Facts: opens, Limits: scopes, check: checkWatchStart},
	}
}

func deletionInvariants() []Invariant {
	return []Invariant{
		{ID: "D1", Statement: "a graceful delete of a pod that runs only marks it, with the time of the delete and the grace period", Facts: operationFacts(), Limits: "the time is not judged while a fault skews the apiserver's clock", check: checkGracefulDelete},
		{ID: "D2", Statement: "the grace period is the one asked for or the pod's own, 0 for a pod that cannot run, 1 for a negative one", Facts: operationFacts(), check: checkGracePeriod},
		{ID: "D3", Statement: "a later delete only shortens", Facts: operationFacts(), Limits: "as D1", check: checkGraceOnlyShrinks},
		{ID: "D4", Statement: "finalizers hold an object, none is added to one that is being deleted, and the end of the last removes it", Facts: commitFacts(), check: checkFinalizers},
		{ID: "D5", Statement: "a pod is removed by its own kubelet, by force, by the end of its last finalizer, or when it cannot run", Facts: operationFacts(), check: checkRemover},
		{
			ID: "D6", Statement: "a pod's object outlives its containers and mounts", check: checkPodOutlivesContainers,
			Facts: operationFacts(history.NameStart, history.NameExit, history.NameMount, history.NameUnmount),
		},
		{ID: "D7", Statement: "a re-created pod is never hit", Facts: operationFacts(history.NameKubeletSee), Limits: "of a status's writer it is known what it had seen, not what it meant", check: checkSeenIncarnation},
		{ID: "D8", Statement: "a force delete is immediate, and people are warned where it leaves something behind", Facts: operationFacts(), Limits: "windows are C2's", check: checkForceDelete},
		{ID: "D9", Statement: "deletes are idempotent", Facts: operationFacts(), check: checkIdempotentDelete},
		{ID: "D10", Statement: "a cascade never force-deletes", Facts: operationFacts(history.NameDecide), check: checkCascade},
		{
			ID: "D11", Statement: "an owner that is deleted in the foreground goes after those of its dependents that block its deletion", Facts: operationFacts(history.NameDecide), check: checkForegroundOwner,
			Limits: "of owners that the garbage collector lets go, and dependents of built-in kinds of which it could have heard for a minute",
		},
	}
}

func nodeInvariants() []Invariant {
	signals := []history.Name{history.NameSignaling, history.NameSignal}
	stops := append(signals, history.NameKubeletTerm, history.NameKubeletSee, history.NamePreStopEnd)
	starts := []history.Name{history.NameCreate, history.NameStart, history.NameExit}
	return []Invariant{
		{ID: "K1", Statement: "the stop signal waits for the preStop hook, which runs once in each attempt", Facts: append(signals, history.NameKubeletTerm, history.NamePreStopBegin, history.NamePreStopEnd), check: checkPreStopHook},
		{ID: "K2", Statement: "SIGKILL is preceded by the stop signal", Facts: append(signals, history.NameCreate, history.NameStart, history.NameKubeletTerm), Limits: "of what ran when the stop of its pod was planned", check: checkStopBeforeKill},
		{ID: "K3", Statement: "SIGKILL never comes early", Facts: stops, Limits: "of pods that are stopped; the grace period of a failed probe is not recorded", check: checkKillNotEarly},
		{ID: "K4", Statement: "SIGKILL does not come late", Facts: append(stops, history.NameKubeletStuck), Limits: "of stops that did not fail", check: checkKillNotLate},
		{
			ID: "K5", Statement: "a shortened grace period holds from the next attempt to stop the pod on", Facts: []history.Name{history.NameKubeletSee, history.NameKubeletTerm}, check: checkShortenedGrace,
			Limits: "as upstream, and not at once (KBL-18)",
		},
		{ID: "K6", Statement: "a runtime sends a container its stop signal once", Facts: signals, check: checkStopSignalOnce},
		{ID: "K7", Statement: "nothing is started once a pod's end has begun", Facts: append(starts, history.NameKubeletTerm), check: checkNoStartAfterStop},
		{ID: "K8", Statement: "a pod that has ended never runs again", Facts: append(starts, history.NameCommit, history.NameKubeletFinal), check: checkNoStartAfterEnd},
		{ID: "K9", Statement: "a pod is on one node", Facts: starts, check: checkOneNode},
		{ID: "K10", Statement: "what a kubelet tells is true", Facts: append(starts, history.NameKubeletStatus, history.NameKubeletTerm), Limits: "that one runs which has ended is only a lie where nothing is broken, after 30 s, and not before a webhook lets it be said or the stop of its pod is over", check: checkStatusReports},
		{ID: "K11", Statement: "the final delete comes after the runtime was asked", Facts: []history.Name{history.NameKubeletFinal}, check: checkRuntimeListed},
		{
			ID: "K12", Statement: "directories, volumes and logs belong to one uid", Facts: []history.Name{history.NameMount, history.NameUnmount, history.NameCreate}, check: checkVolumePaths,
			Limits: "logs are kept under their container's id, which is never another pod's",
		},
		{
			ID: "K13", Statement: "containers end before sidecars are stopped, and before volumes and sandboxes are taken away, and the last phase is told before the final delete", check: checkTeardownOrder,
			Facts:  append(starts, history.NameUnmount, history.NameSandboxStop, history.NameKubeletStatus, history.NameKubeletFinal, history.NameCommit, history.NameKubeletTerm, history.NameSignaling),
			Limits: "of sidecars that are stopped with their pod, before its grace period is used up",
		},
		{
			ID: "K14", Statement: "a kubelet that is cut off keeps running what it knows", check: checkCutOffKubelet,
			Facts: []history.Name{history.NameFaultBegin, history.NameFaultEnd, history.NameKubeletSee, history.NameKubeletTerm, history.NameKubeletBoot, history.NameStart, history.NameExit},
		},
		{ID: "K15", Statement: "of a container of a pod one run at a time is alive", Facts: starts, check: checkOneRun},
		{
			ID: "K16", Statement: "a volume for one node is attached to one and mounted where it is attached, and leaves a node that has it mounted only if that is gone, out of service, or not well and without a use for it for 6 min",
			Facts: operationFacts(history.NameMount, history.NameUnmount), check: checkAttachments, Limits: "of CSI volumes that are attached by the controllers",
		},
	}
}

func controllerInvariants() []Invariant {
	runs := []history.Name{history.NameStart, history.NameExit, history.NameCommit, history.NameOpCall}
	return []Invariant{
		{ID: "C1", Statement: "at most one incarnation of an identity runs, unless the older was forced away", Facts: runs, check: checkAtMostOne},
		{
			ID: "C2", Statement: "split-brain windows are shown exactly", Facts: append(runs, history.NameWindow, history.NameOpRead), check: checkWindows,
			Limits: "of pods that controllers saw leave the API and knew bound, or that had left before they began and could be found in time, on nodes whose runtimes answered",
		},
		{ID: "C3", Statement: "a name is taken until its object is gone, and an ordered StatefulSet makes its pods in order", Facts: commitFacts(), check: checkNameReuse},
		{
			ID: "C4", Statement: "a ReplicaSet never has more pods than it should, but for the creates of one sync", Facts: operationFacts(history.NameOpRead), check: checkReplicaCount,
			Limits: "not within a minute of a start of the controllers",
		},
		{ID: "C5", Statement: "a controller reads its own writes before it changes an object again", Facts: operationFacts(history.NameDecide), check: checkReadYourWrites},
		{
			ID: "C6", Statement: "no pod is evicted in haste", Facts: operationFacts(history.NameDecide, history.NameOpRead), check: checkEvictionNotEarly,
			Limits: "a node may be called unreachable after 40 s, the shortest of the releases; what a skewed clock does is not judged",
		},
		{ID: "C7", Statement: "controllers only begin deletion", Facts: operationFacts(history.NameDecide), check: checkNoForcedDeletes},
		{ID: "C8", Statement: "a pod is bound once, and not while it is being deleted", Facts: commitFacts(), check: checkBoundOnce},
		{ID: "C9", Statement: "an eviction is allowed only within its budget", Facts: operationFacts(), check: checkEvictionBudget},
		{
			ID: "C10", Statement: "no index of a Job is given to a pod while another pod does it", Facts: operationFacts(), check: checkOnePodPerIndex,
			Limits: "as C4",
		},
		{ID: "C11", Statement: "a Job counts none of its pods twice", Facts: operationFacts(history.NameDecide), check: checkPodsCountedOnce},
	}
}

func messageInvariants() []Invariant {
	return []Invariant{
		{ID: "N1", Statement: "an operation takes effect once", Facts: commitFacts(), check: checkOneEffect},
		{ID: "N2", Statement: "no message takes effect after its deadline", Facts: operationFacts(), Limits: "a change is begun a second late at most, for timers; a slow disk may have it later", check: checkDeadline},
		{ID: "N3", Statement: "a cut is a cut", Facts: operationFacts(history.NameFaultBegin, history.NameFaultEnd, history.NameKubeletSee), Limits: "of cuts that hold or reset everything, both ways", check: checkCut},
		{ID: "N4", Statement: "a kubelet changes what is on its node", Facts: operationFacts(), Limits: "what the bus refuses is not recorded", check: checkNodeRestriction},
		{ID: "N5", Statement: "what is malformed changes nothing and ends nobody", Facts: []history.Name{history.NameOpRefused}, check: checkMalformedRequests, Limits: "what is more than the bus lets through, its own tests send"},
		{ID: "N6", Statement: "an older incarnation is fenced", Facts: []history.Name{history.NameKubeletStatus, history.NameLease, history.NameReady, history.NameOpCall}, Limits: "of kubelets", check: checkOlderBoots},
	}
}
