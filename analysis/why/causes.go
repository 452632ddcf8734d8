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
	runsOn     = "the object goes at once; its containers run on, with their volumes and their address, until the node acts: two of one identity may be alive"
	leftOnNode = "the object goes at once; what is left on the node stays there, and the evidence of the real fault is lost"
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
	const strip = "patching the finalizer away lets the object go and leaks what the finalizer stands for"
	return []Cause{
		{
			"STK-01", "finalizer-not-removed", false, "a finalizer is still there, and nobody has tried to remove it",
			"the controller that set the finalizer", "the controller does its work and removes the finalizer; " + strip, noHelp,
		},
		{
			"STK-02", "finalizer-removal-refused", false, "a finalizer's owner tries to remove it and is refused",
			"whoever refuses: authorisation, a webhook, a conflict", "lift what refuses the write; the controller tries again", noHelp,
		},
		{
			"STK-03", "garbage-collector-down", false, "the garbage collector, which removes foregroundDeletion and orphan, does not do its work",
			"whoever runs the controllers", "start or mend the garbage collector; " + strip, noHelp,
		},
		{
			"STK-04", "job-controller-down", false, "the job controller, which has to count the pod, does not do its work",
			"whoever runs the controllers", "start or mend the job controller; " + strip, noHelp,
		},
		{
			"", "job-keeps-pod", false, "a Job keeps its pod for now: until it has ended, or, where failures are counted by index, until the next pod reads them",
			"nobody, unless the Job is suspended", "the pod ends; the Job is resumed, or its pause after a failure, of at most 10 min, is over; or delete the Job", noHelp,
		},
		{
			"STK-27", "store-does-not-write", false, "the apiserver cannot write: its store is stuck or without quorum",
			"whoever runs the apiserver's storage", "the store takes writes again", "a forced delete is a write too, and fails",
		},
		{
			"STK-29", "clock-skew", true, "the clocks of two processes differ, so times look odd; nothing acts on them",
			"whoever sets the clocks", "nothing waits for this", noNeed,
		},
		{
			"STK-30", "created-again", true, "this is another pod of the same name, made by a controller after the old one went",
			"whoever scales the owner", "nothing waits for this: scale the owner down to have none", noNeed,
		},
		{
			"STK-31", "namespace-content", false, "the namespace waits for what is still in it",
			"whoever holds what is left", "what is left goes", "a namespace cannot be forced; removing its finalizer strands what is in it",
		},
	}
}

func nodeCauses() []Cause {
	const back = "; or delete the Node object, or taint it out-of-service, when the machine is surely off"
	return []Cause{
		{
			"STK-05", "kubelet-down", false, "the node's kubelet does not run",
			"whoever runs the node", "start the kubelet" + back, runsOn,
		},
		{
			"STK-06", "node-cut-off", false, "the node is cut off and has not heard of the deletion",
			"whoever runs the network or the node", "reconnect the node: the stop begins then, with its full grace" + back, runsOn,
		},
		{
			"STK-07", "node-cut-off-after-cleanup", false, "the node has stopped the pod and cannot say so",
			"whoever runs the network or the node", "reconnect the node: the object goes within seconds" + back, "nothing: the containers are gone",
		},
		{
			"STK-08", "evicted-from-silent-node", false, "the pod was evicted because its node is silent, and a silent node cannot confirm",
			"whoever runs the network or the node", "bring the node back" + back, runsOn,
		},
		{
			"STK-09", "runtime-down", false, "the node's container runtime does not answer",
			"whoever runs the node", "start the container runtime", runsOn,
		},
		{
			"STK-10", "runtime-listing-hangs", false, "the container runtime does not answer when it is asked what runs, so the kubelet takes up nothing",
			"whoever runs the node", "mend or restart the container runtime", runsOn,
		},
		{
			"STK-24", "kubelet-unauthorised", false, "the apiserver refuses the kubelet: its credentials or rights are gone",
			"whoever runs the node's credentials", "give the kubelet its certificate and rights back", runsOn,
		},
		{
			"STK-25", "node-object-gone", false, "the pod's node is not in the API any more, and pod garbage collection has not taken the pod",
			"whoever runs the controllers", "start the pod garbage collector, which takes about a minute", runsOn,
		},
		{
			"", "requests-late", false, "what the kubelet asks of the API is late: it comes, or its turn comes, when its time is over",
			"whoever runs the node or the apiserver", "whichever of the two was held up goes on, or the link between them gets faster; the kubelet asks again", runsOn,
		},
		{
			"", "apiserver-fails", false, "the apiserver answers the kubelet with an error of its own",
			"whoever runs the apiserver", "the apiserver is mended, or started again; the kubelet asks again", runsOn,
		},
		{
			"STK-26", "kubelet-restarts", false, "the kubelet restarts again and again, and the grace begins anew each time",
			"whoever runs the node", "let the kubelet run for as long as the grace is", runsOn,
		},
		{
			"STK-33", "watch-silent", false, "the kubelet is connected and has not been told of the deletion: its watch delivers nothing",
			"whoever runs the bus", "the watch is resumed, or the kubelet lists again", runsOn,
		},
	}
}

func stopCauses() []Cause {
	const stops = "the object goes at once; the container goes on until the runtime or the kernel lets it end"
	return []Cause{
		{
			"STK-11", "stop-hangs", false, "the runtime was asked to stop a container and does not answer",
			"whoever runs the node", "mend or restart the container runtime; the kubelet tries again", stops,
		},
		{
			"STK-12", "process-unkillable", false, "a process got SIGKILL and has not ended: uninterruptible sleep",
			"whoever runs the node or its storage", "what the process waits for comes back, such as a file server; or the node is rebooted", stops,
		},
		{
			"STK-13", "runtime-lies", false, "the runtime says that it has stopped a container that still runs",
			"whoever runs the node", "mend or restart the container runtime", stops,
		},
		{
			"STK-14", "sandbox-teardown-fails", false, "the pod's network cannot be torn down",
			"whoever runs the node's network plug-in", "mend the network plug-in; the kubelet tries again", leftOnNode,
		},
		{
			"STK-19", "device-unprepare-fails", false, "a device of the pod cannot be given back",
			"whoever runs the device's driver", "mend the driver; the kubelet tries again", leftOnNode,
		},
		{
			"STK-20", "long-grace", false, "a container uses its long grace period: a hook that goes on, or a process that ignores its stop signal",
			"the application", "wait until the grace is over; or end the process in the runtime", stops,
		},
		{
			"STK-21", "shorter-grace-ignored", false, "a shorter grace came after the stop had begun, and the stop goes on with the grace it began with",
			"the application", "wait until the first grace is over; or end the process in the runtime", stops,
		},
		{
			"STK-22", "start-in-progress", false, "the kubelet is still at one of the pod's containers, and the stop waits for that: its image is pulled, its postStart hook runs, or it is being killed for a probe that failed",
			"whoever runs the registry or wrote the hook", "the pull, the hook or the kill ends or fails", "the object goes at once; the node goes on until that has ended, and then stops what it started",
		},
		{
			"STK-28", "sidecar-does-not-stop", false, "the containers have ended and a sidecar goes on, until the grace is over",
			"the application", "wait until the grace is over", stops,
		},
	}
}

func cleanCauses() []Cause {
	return []Cause{
		{
			"STK-15", "volume-unmount-fails", false, "the containers have ended and a volume cannot be unmounted",
			"whoever runs the storage driver", "mend the driver or the file server; the object goes within seconds", leftOnNode,
		},
		{
			"STK-16", "volume-mounted-twice", false, "a volume is mounted twice since the kubelet was restarted, and was unmounted once",
			"whoever runs the node", "unmount it once more by hand, or mend the driver", leftOnNode,
		},
		{
			"STK-17", "volume-directory-not-empty", false, "the pod's volume directories cannot be removed",
			"whoever runs the node", "remove the files that are left", leftOnNode,
		},
		{
			"STK-18", "cgroup-busy", false, "the pod's cgroup cannot be removed: a process will not leave it",
			"whoever runs the node", "the process leaves", leftOnNode,
		},
		{
			"STK-23", "webhook-refuses-kubelet", false, "an admission webhook refuses the kubelet's last writes about the pod",
			"whoever runs the webhook", "mend the webhook, or take the kubelet's requests out of its rules", leftOnNode,
		},
		{
			"STK-32", "orphaned-volume", false, "the object was forced away, and its volumes are still mounted on the node",
			"whoever runs the node", "unmount them; the kubelet then removes the directories", "it was forced already",
		},
		{
			"STK-34", "rejected-pod", false, "the node refused the pod when it came, and housekeeping finishes it",
			"nobody", "wait a few seconds", noNeed,
		},
	}
}

// otherCauses returns causes of other objects than pods, and the unknown cause.
func otherCauses() []Cause {
	return []Cause{
		{
			"", "claim-in-use", false, "the claim is used by a pod",
			"whoever runs the pod", "delete the pods that use the claim", "patching the finalizer away takes the volume from under the pods that use it",
		},
		{
			"", "volume-bound", false, "the volume is bound to a claim",
			"whoever owns the claim", "delete the claim", "patching the finalizer away loses track of the storage behind it",
		},
		{
			"", "dependents-remain", false, "the object is deleted in the foreground and waits for its dependents",
			"whoever holds the dependents", "its dependents go", "deleting with propagationPolicy Background lets the object go first; patching the finalizer away leaves dependents to the garbage collector",
		},
		{
			"", "unexplained", false, "it takes longer than it should, and nothing that can be seen says why",
			"whoever runs the node", "look at the kubelet's log on the pod's node", runsOn,
		},
	}
}
