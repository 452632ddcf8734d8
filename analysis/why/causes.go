package why

import (
	"slices"
	"sync"
)

// Cause is a row of the catalogue of what keeps objects (docs/why.md).
type Cause struct {
	// ID is the id of the row; empty for causes that the catalogue of pods does not have.
	ID   string
	Name string
	// Harmless is true for what only looks like a blocker.
	Harmless bool
	Means    string
	Who      string
	Unblocks string
	Forcing  string
}

// What forcing leaves behind, shared by several causes.
const (
	runsOn     = "the object is removed at once; its containers keep running, with their volumes and their address, until the node stops them: two pods of one identity may run at the same time"
	leftOnNode = "the object is removed at once; its leftovers stay on the node, and the evidence of the real fault is lost"
	noHelp     = "nothing: a forced delete waits for finalizers like any other"
	noNeed     = "forcing is not needed"
)

// Causes returns the catalogue, by id and then by name.
func Causes() []Cause { return slices.Clone(catalogue()) }

//nolint:gochecknoglobals // built once, on first use; nothing changes it
var catalogue = sync.OnceValue(func() []Cause {
	return slices.Concat(objectCauses(), nodeCauses(), stopCauses(), cleanCauses(), otherCauses())
})

// cause returns the cause with a name. It panics if there is none, which is a mistake in this
// package.
func cause(name string) Cause {
	all := catalogue()
	i := slices.IndexFunc(all, func(c Cause) bool { return c.Name == name })
	if i < 0 {
		panic("why: no cause " + name)
	}
	return all[i]
}

func objectCauses() []Cause {
	const strip = "patching the finalizer away removes the object, and leaks what the finalizer protects"
	return []Cause{
		{
			"STK-01", "finalizer-not-removed", false, "a finalizer is still set, and no client has tried to remove it",
			"the controller that set the finalizer", "the controller does its work and removes the finalizer; " + strip, noHelp,
		},
		{
			"STK-02", "finalizer-removal-refused", false, "the finalizer's owner tries to remove it, and the request is refused",
			"the operator of what refuses the request: authorisation or a webhook", "allow the write; the controller tries again", noHelp,
		},
		{
			"STK-03", "garbage-collector-down", false, "the garbage collector is not working; it removes the finalizers foregroundDeletion and orphan",
			"the operator of the controllers", "start or repair the garbage collector; " + strip, noHelp,
		},
		{
			"STK-04", "job-controller-down", false, "the job controller is not working; it has to count the pod and remove its finalizer",
			"the operator of the controllers", "start or repair the job controller; " + strip, noHelp,
		},
		{
			"", "job-keeps-pod", false, "a Job still needs its pod: until the pod has ended or, with a back-off limit per index, until the next pod has taken over its failure count",
			"nobody; if the Job is suspended, its owner", "the pod ends; the Job is resumed; its back-off after a failure ends (10 min at most); or delete the Job", noHelp,
		},
		{
			"STK-27", "store-does-not-write", false, "the apiserver cannot write: its store is stuck or without quorum",
			"the operator of the apiserver's storage", "the store takes writes again", "nothing: a forced delete is a write too, and fails",
		},
		{
			"STK-29", "clock-skew", true, "the clocks of two processes differ, so times look odd; no deadline depends on them",
			"the operator of the clocks", "nothing waits for this", noNeed,
		},
		{
			"STK-30", "created-again", true, "this is a new pod with the same name; a controller created it after the old pod was gone",
			"the owner's user", "nothing waits for this; to have no pod, scale the owner down", noNeed,
		},
		{
			"STK-31", "namespace-content", false, "the namespace still has objects",
			"the owners of the remaining objects", "the remaining objects are deleted", "a namespace cannot be forced; removing its finalizer orphans its remaining objects",
		},
	}
}

func nodeCauses() []Cause {
	const back = "; or delete the Node object, or taint it out-of-service, if the machine is certainly off"
	return []Cause{
		{
			"STK-05", "kubelet-down", false, "the node's kubelet is not running",
			"the operator of the node", "start the kubelet" + back, runsOn,
		},
		{
			"STK-06", "node-cut-off", false, "the node is cut off and has not heard of the deletion",
			"the operator of the network or the node", "reconnect the node: the stop begins then, with its full grace" + back, runsOn,
		},
		{
			"STK-07", "node-cut-off-after-cleanup", false, "the node has stopped the pod, but is cut off and cannot report that",
			"the operator of the network or the node", "reconnect the node: the object is removed within seconds" + back, "nothing: the containers are gone",
		},
		{
			"STK-08", "evicted-from-silent-node", false, "the pod was evicted because its node is silent, and a silent node cannot confirm",
			"the operator of the network or the node", "bring the node back" + back, runsOn,
		},
		{
			"STK-09", "runtime-down", false, "the node's container runtime does not answer",
			"the operator of the node", "start the container runtime", runsOn,
		},
		{
			"STK-10", "runtime-listing-hangs", false, "the container runtime does not answer list requests, so the kubelet starts no new work",
			"the operator of the node", "repair or restart the container runtime", runsOn,
		},
		{
			"STK-24", "kubelet-unauthorised", false, "the apiserver refuses the kubelet: its credentials or rights are gone",
			"the operator of the node's credentials", "give the kubelet its certificate and rights back", runsOn,
		},
		{
			"STK-25", "node-object-gone", false, "the pod's node is no longer in the API, and pod garbage collection has not removed the pod yet",
			"the operator of the controllers", "start the pod garbage collector, which takes about a minute", runsOn,
		},
		{
			"", "requests-late", false, "the kubelet's requests time out before the apiserver handles them",
			"the operator of the node or the apiserver", "the kubelet or the apiserver is no longer stalled, or the link between them gets faster; the kubelet tries again", runsOn,
		},
		{
			"", "apiserver-fails", false, "the apiserver answers the kubelet with an internal error",
			"the operator of the apiserver", "repair or restart the apiserver; the kubelet tries again", runsOn,
		},
		{
			"STK-26", "kubelet-restarts", false, "the kubelet restarts again and again, and each restart begins a new grace period",
			"the operator of the node", "let the kubelet run for a whole grace period", runsOn,
		},
		{
			"STK-33", "watch-silent", false, "the kubelet is connected, but its watch delivers nothing, so it does not know of the deletion",
			"the operator of the bus", "the watch is resumed, or the kubelet lists again", runsOn,
		},
	}
}

func stopCauses() []Cause {
	const stops = "the object is removed at once; the container runs until the runtime or the kernel can end it"
	return []Cause{
		{
			"STK-11", "stop-hangs", false, "the runtime was asked to stop a container and does not answer",
			"the operator of the node", "repair or restart the container runtime; the kubelet tries again", stops,
		},
		{
			"STK-12", "process-unkillable", false, "a process got SIGKILL and has not ended: uninterruptible sleep",
			"the operator of the node or its storage", "bring back what the process waits for, for example a file server; or reboot the node", stops,
		},
		{
			"STK-13", "runtime-lies", false, "the runtime says that it has stopped a container that still runs",
			"the operator of the node", "repair or restart the container runtime", stops,
		},
		{
			"STK-14", "sandbox-teardown-fails", false, "the pod's network cannot be torn down",
			"the operator of the node's network plug-in", "repair the network plug-in; the kubelet tries again", leftOnNode,
		},
		{
			"STK-19", "device-unprepare-fails", false, "a device of the pod cannot be given back",
			"the operator of the device's driver", "repair the driver; the kubelet tries again", leftOnNode,
		},
		{
			"STK-20", "long-grace", false, "a container uses its long grace period: its preStop hook is still running, or its process ignores the stop signal",
			"the application", "wait until the grace is over; or end the process in the runtime", stops,
		},
		{
			"STK-21", "shorter-grace-ignored", false, "a shorter grace period was set after the stop had begun; the stop keeps the grace period that it began with",
			"the application", "wait until the first grace is over; or end the process in the runtime", stops,
		},
		{
			"STK-22", "start-in-progress", false, "the stop waits for work on one of the pod's containers: an image pull, a postStart hook, or a kill after a failed probe",
			"the operator of the registry, or the author of the hook", "the pull, the hook or the kill ends or fails", "the object is removed at once; the node finishes that work, and then stops what it started",
		},
		{
			"STK-28", "sidecar-does-not-stop", false, "the containers have ended, but a sidecar keeps running until the grace period is over",
			"the application", "wait until the grace is over", stops,
		},
	}
}

func cleanCauses() []Cause {
	return []Cause{
		{
			"STK-15", "volume-unmount-fails", false, "the containers have ended, but a volume cannot be unmounted",
			"the operator of the storage driver", "repair the driver or the file server; the object is removed within seconds", leftOnNode,
		},
		{
			"STK-16", "volume-mounted-twice", false, "after a kubelet restart a volume was mounted twice, and then unmounted only once",
			"the operator of the node", "unmount it once more by hand, or repair the driver", leftOnNode,
		},
		{
			"STK-17", "volume-directory-not-empty", false, "the pod's volume directories cannot be removed",
			"the operator of the node", "remove the remaining files", leftOnNode,
		},
		{
			"STK-18", "cgroup-busy", false, "the pod's cgroup cannot be removed: it still has a process",
			"the operator of the node", "the process ends", leftOnNode,
		},
		{
			"STK-23", "webhook-refuses-kubelet", false, "an admission webhook refuses the kubelet's last writes about the pod",
			"the operator of the webhook", "repair the webhook, or exclude the kubelet's requests from its rules", leftOnNode,
		},
		{
			"STK-32", "orphaned-volume", false, "the object was force-deleted, and its volumes are still mounted on the node",
			"the operator of the node", "unmount them; the kubelet then removes the directories", "it was forced already",
		},
		{
			"STK-34", "rejected-pod", false, "the node rejected the pod on admission, and housekeeping finishes its deletion",
			"nobody", "wait a few seconds", noNeed,
		},
	}
}

// otherCauses returns causes of other objects than pods, and the unknown cause.
func otherCauses() []Cause {
	return []Cause{
		{
			"", "claim-in-use", false, "the claim is used by a pod",
			"the operator of the pod", "delete the pods that use the claim", "patching the finalizer away removes the volume while pods still use it",
		},
		{
			"", "volume-bound", false, "the volume is bound to a claim",
			"the owner of the claim", "delete the claim", "patching the finalizer away loses track of the storage behind it",
		},
		{
			"", "dependents-remain", false, "the object is deleted in the foreground, and waits for its dependents",
			"the owners of what keeps the dependents", "the dependents are deleted", "deleting with propagationPolicy Background removes the object first; patching the finalizer away leaves dependents to the garbage collector",
		},
		{
			"", "unexplained", false, "the deletion is overdue, and no known cause fits what can be observed",
			"the operator of the node", "look at the kubelet's log on the pod's node", runsOn,
		},
	}
}
