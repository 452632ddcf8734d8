package fault

import (
	"slices"
	"strings"
)

// Point is an injection point.
type Point string

// The points. CRI returns those of the runtime's methods.
const (
	EngineSignal    Point = "engine.signal"
	ImagePull       Point = "image.pull"
	NodePressure    Point = "node.pressure"
	NodeShutdown    Point = "node.shutdown"
	NodeAllocate    Point = "node.allocate"
	VolumeMount     Point = "volume.mount"
	VolumeUnmount   Point = "volume.unmount"
	VolumeRemoveDir Point = "volume.remove-dir"
	VolumeAttach    Point = "volume.attach"
	VolumeDetach    Point = "volume.detach"
	VolumeDelete    Point = "volume.delete"
	CgroupDestroy   Point = "cgroup.destroy"
	ClaimUnprepare  Point = "claim.unprepare"
	APIRequest      Point = "api.request"
	WatchDeliver    Point = "watch.deliver"
	StoreCommit     Point = "store.commit"
	StoreSync       Point = "store.sync"
	StoreSynced     Point = "store.synced"
	ClockSkew       Point = "clock.skew"
	ProcessLimit    Point = "process.limit"
)

const criPrefix = "cri."

// CRI returns the point of a method of the Container Runtime Interface, for example StopContainer.
func CRI(method string) Point { return Point(criPrefix + method) }

// PointInfo describes an injection point.
type PointInfo struct {
	Point Point
	// Description says in words what is done there.
	Description string
	// Where are the fields of [Attributes] that the point sets, besides process and node.
	Where []string
	// Kinds are the possible effects.
	Kinds []Kind
	// Codes is the set of error codes; codeNone if errors have no code.
	Codes CodeSet
	// Values are the possible values: words, or "duration".
	Values []string
	// Rows are the rows of the catalogue of faults that this point covers. Causes are the stuck
	// causes (STK-…) and hazards (HAZ-…).
	Rows   []int
	Causes []string
}

// CodeSet is a set of error codes.
type CodeSet int

// The sets of codes.
const (
	codeNone CodeSet = iota
	codeGRPC
	codeHTTP
)

// Points returns all injection points, ordered by name.
func Points() []PointInfo {
	points := slices.Concat(criPointInfos(), nodePointInfos(), apiPointInfos())
	slices.SortFunc(points, func(a, b PointInfo) int { return strings.Compare(string(a.Point), string(b.Point)) })
	return points
}

// criPointInfos returns the points of the runtime's methods. A lie does not carry out the request.
// A drop carries it out and loses the answer.
func criPointInfos() []PointInfo {
	waits := []Kind{Error, Hang, Delay, Drop, Crash}
	lies := append(slices.Clone(waits), Lie)
	row := func(method, description string, kinds []Kind, causes ...string) PointInfo {
		where := []string{"namespace", "pod", "container"}
		if strings.Contains(method, "Sandbox") {
			where = where[:2]
		}
		if strings.HasPrefix(method, "List") {
			where = nil
		}
		if strings.Contains(method, "Image") {
			where = []string{"image"}
		}
		return PointInfo{Point: CRI(method), Description: description, Where: where, Kinds: kinds, Codes: codeGRPC, Rows: []int{22, 25, 27}, Causes: causes}
	}
	return []PointInfo{
		row("RunPodSandbox", "a pod's sandbox is made", waits, "STK-22"),
		row("StopPodSandbox", "a sandbox is stopped, its network torn down", lies, "STK-14"),
		row("RemovePodSandbox", "a sandbox is removed", lies),
		row("PodSandboxStatus", "a sandbox is looked at", waits, "STK-10"),
		row("ListPodSandbox", "the sandboxes are listed", waits, "STK-09", "STK-10"),
		row("CreateContainer", "a container is made", waits, "STK-22"),
		row("StartContainer", "a container is started", waits, "STK-22"),
		row("StopContainer", "a container is stopped; a lie says that it is, and it runs on", lies, "STK-11", "STK-13"),
		row("RemoveContainer", "a container is removed", lies),
		row("ContainerStatus", "a container is looked at", waits, "STK-10"),
		row("ListContainers", "the containers are listed", waits, "STK-09", "STK-10"),
		row("ExecSync", "a command runs inside a container: exec hooks and probes", waits, "STK-20", "STK-22"),
		row("Reach", "a container is asked over its network: HTTP hooks and probes", waits, "STK-20", "STK-22"),
		row("ContainerLogs", "a container's log is read", waits),
		row("ImageStatus", "it is asked whether an image is there", waits),
		row("PullImage", "an image is pulled", waits, "STK-22"),
	}
}

// nodePointInfos returns the points of other actions on a node.
func nodePointInfos() []PointInfo {
	pod := []string{"namespace", "pod"}
	volume := append(slices.Clone(pod), "volume")
	fails := []Kind{Error, Hang, Delay, Crash}
	return []PointInfo{
		{
			Point: EngineSignal, Description: "a container's processes are sent a signal (verb: SIGTERM, SIGKILL); to drop SIGKILL is uninterruptible sleep",
			Where: append(slices.Clone(pod), "container", "verb"), Kinds: []Kind{Drop, Delay, Crash},
			Rows: []int{1, 22, 24}, Causes: []string{"STK-12", "STK-20"},
		},
		{
			Point: ImagePull, Description: "an image is pulled", Where: append(slices.Clone(pod), "container", "image"), Kinds: fails,
			Causes: []string{"STK-22"},
		},
		{
			Point: NodePressure, Description: "a node reports a pressure, and evicts", Kinds: []Kind{Value}, Values: []string{"memory", "disk", "pid"},
			Rows: []int{35},
		},
		{
			Point: NodeShutdown, Description: "a node is about to be shut down, and ends its pods by priority", Kinds: []Kind{Value}, Values: []string{"imminent"},
			Rows: []int{3},
		},
		{
			Point: NodeAllocate, Description: "a node gives a pod what it has of its own, such as devices, before it takes it", Where: pod, Kinds: []Kind{Error},
			Causes: []string{"STK-34"},
		},
		{
			Point: VolumeMount, Description: "a volume is mounted before a pod's containers start; a duplicate mounts it again after a kubelet's restart",
			Where: volume, Kinds: append(slices.Clone(fails), Duplicate), Rows: []int{23}, Causes: []string{"STK-16", "STK-22"},
		},
		{
			Point: VolumeUnmount, Description: "a volume is unmounted after a pod's containers have ended", Where: volume, Kinds: fails,
			Rows: []int{23}, Causes: []string{"STK-15", "STK-32", "HAZ-03", "HAZ-10"},
		},
		{
			Point: VolumeRemoveDir, Description: "a pod's volume directories are removed", Where: pod, Kinds: fails,
			Rows: []int{23}, Causes: []string{"STK-17", "STK-32"},
		},
		{
			Point: CgroupDestroy, Description: "a pod's cgroup is removed", Where: pod, Kinds: fails,
			Rows: []int{22}, Causes: []string{"STK-18"},
		},
		{
			Point: ClaimUnprepare, Description: "a driver takes back what a pod's resource claims hold of a node", Where: pod, Kinds: fails,
			Rows: []int{22}, Causes: []string{"STK-19"},
		},
	}
}

// apiPointInfos returns the points of the apiserver and its clients.
func apiPointInfos() []PointInfo {
	object := []string{"namespace", "name", "client", "verb", "resource", "subresource"}
	return []PointInfo{
		{
			Point: APIRequest, Description: "a process asks the apiserver; to drop loses the answer of what was done",
			Where: object, Kinds: []Kind{Error, Hang, Delay, Drop, Duplicate, Crash}, Codes: codeHTTP,
			Rows:   []int{1, 5, 9, 29, 31, 33},
			Causes: []string{"STK-02", "STK-03", "STK-04", "STK-07", "STK-23", "STK-24", "STK-25", "HAZ-14"},
		},
		{
			Point: WatchDeliver, Description: "a watch delivers an event (verb: ADDED, MODIFIED, DELETED)",
			Where: object, Kinds: []Kind{Hang, Delay, Drop, Duplicate, Expire},
			Rows: []int{9, 13, 29, 33, 34}, Causes: []string{"STK-06", "STK-33"},
		},
		{
			Point: StoreCommit, Description: "the apiserver is about to write a change: an error is a store without quorum, whose reads go on",
			Where: []string{"namespace", "name", "resource"}, Kinds: []Kind{Error, Hang, Delay, Crash},
			Rows: []int{1, 18}, Causes: []string{"STK-27"},
		},
		{
			Point: StoreSync, Description: "the apiserver's file is about to be synced: an error is a disk that is full or broken, and ends the apiserver",
			Kinds: []Kind{Error, Hang, Delay, Crash}, Rows: []int{1, 16, 17, 18}, Causes: []string{"STK-27"},
		},
		{
			Point: StoreSynced, Description: "a change is on disk, and nobody has been told",
			Kinds: []Kind{Hang, Delay, Crash}, Rows: []int{1, 18},
		},
		{
			Point: VolumeAttach, Description: "a driver attaches a persistent volume to a node", Where: []string{"volume"}, Kinds: []Kind{Error, Hang, Delay, Crash},
			Rows: []int{23}, Causes: []string{"STK-22"},
		},
		{
			Point: VolumeDetach, Description: "a driver detaches a persistent volume from a node", Where: []string{"volume"}, Kinds: []Kind{Error, Hang, Delay, Crash},
			Rows: []int{23}, Causes: []string{"HAZ-03"},
		},
		{
			Point: VolumeDelete, Description: "the files of a persistent volume are removed, whose claim is gone", Where: []string{"volume"}, Kinds: []Kind{Error, Hang, Delay, Crash},
			Rows: []int{23},
		},
		{
			Point: ProcessLimit, Description: "a process may have no more open files (nofile=64) or memory (memory=300Mi) from now on; real processes alone",
			Kinds: []Kind{Value}, Values: []string{anyLimit}, Rows: []int{35},
		},
		{
			Point: ClockSkew, Description: "a process's clock is ahead of the cluster's, or behind it (1h, -90s), or runs faster from now on, or slower (5%, -5%)",
			Kinds: []Kind{Value}, Values: []string{anyDuration, anyPercentage},
			Rows: []int{15}, Causes: []string{"STK-29"},
		},
	}
}

// anyPercentage stands for every percentage from -50% to 100%, anyLimit for every [Limit].
const (
	anyPercentage = "percentage"
	anyLimit      = "limit"
)

// anyDuration stands for every duration, including negative ones.
const anyDuration = "duration"
