package history

import "time"

// Of names the container that an event is about.
type Of struct {
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"ctr"`
	// Called is the container's name in its pod.
	Called string `json:"name,omitempty"`
}

// The kubelet.
type (
	// KubeletBoot is a kubelet that begins.
	KubeletBoot struct {
		Node string `json:"node"`
	}

	// KubeletStop is a kubelet that leaves; its pods run on.
	KubeletStop struct {
		Node string `json:"node"`
	}

	// KubeletSee is a change of a pod that the kubelet takes up.
	KubeletSee struct {
		// Pod is namespace/name, here and below.
		Pod string `json:"pod"`
		UID string `json:"uid"`
		// Op is what the kubelet makes of it: ADD, UPDATE, DELETE, RECONCILE or REMOVE.
		Op string `json:"op"`
		// Revision is the pod's resource version.
		Revision string `json:"rv"`
		// Grace is the deletionGracePeriodSeconds; none while the pod is not being deleted.
		Grace *int64 `json:"delGrace,omitempty"`
	}

	// KubeletTerm is the beginning of an attempt to stop a pod.
	KubeletTerm struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
		// Grace is in seconds.
		Grace int64 `json:"g"`
	}

	// KubeletStuck is a step of a pod's end that failed and will be tried again.
	KubeletStuck struct {
		Pod   string `json:"pod"`
		UID   string `json:"uid"`
		Doing string `json:"doing"`
		Err   string `json:"err"`
	}

	// KubeletStatus is a status that the API has taken.
	KubeletStatus struct {
		Pod   string `json:"pod"`
		UID   string `json:"uid"`
		Phase string `json:"phase"`
		// Containers are what it says of each.
		Containers []Told `json:"containers,omitempty"`
	}

	// Told is what a status says of one container.
	Told struct {
		Container string `json:"ctr"`
		// State is waiting, running or terminated.
		State string `json:"state"`
		// Code is the exit code of one that has terminated.
		Code int32 `json:"code,omitempty"`
	}

	// KubeletFinal is the kubelet's last delete of a pod, which nothing on the node is left of.
	KubeletFinal struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
		// Listed says that this kubelet had asked its runtime for what it has, and Left is how
		// many containers of the pod ran by the last answer; Listed is nil in histories that do
		// not tell.
		Listed *bool `json:"listed,omitempty"`
		Left   int   `json:"left,omitempty"`
		// Err is why it was refused; empty when it was taken.
		Err string `json:"err,omitempty"`
	}

	// KubeletForget is a pod that the kubelet lets go.
	KubeletForget struct {
		UID string `json:"uid"`
	}
)

// The runtime, and what the kubelet does on the node besides.
type (
	// Create is a container that was made.
	Create struct {
		Of

		// Log is where its log is, below the directory of logs.
		Log string `json:"log,omitempty"`
		// Script is how a scripted container behaves, if its pod says so.
		Script string `json:"script,omitempty"`
	}

	// Start is a container whose process was started.
	Start struct {
		Of

		// Scripted means that it follows a script, and has no process.
		Scripted bool `json:"scripted,omitempty"`
	}

	// TakeUp is a container that had been started, and of whose end nothing was on record,
	// when its runtime began again. Its Start is not told of where the runtime was killed
	// between the two.
	TakeUp struct {
		Of

		// Started is the cluster's time at which its start was put on record.
		Started time.Time `json:"started"`
		// Scripted is as in Start.
		Scripted bool `json:"scripted,omitempty"`
	}

	// Process is the process of a container that runs, once it is known; a runtime that
	// begins again says so again.
	Process struct {
		Of

		// PID is the process's on the machine, more than 0.
		PID int `json:"pid"`
	}

	// PostStartBegin is a postStart hook that begins: until it has ended, whoever deletes the pod
	// waits (KBL-19).
	PostStartBegin struct{ Of }

	// PostStartEnd is one that has ended.
	PostStartEnd struct{ Of }

	// PreStopBegin is a preStop hook that begins.
	PreStopBegin struct{ Of }

	// PreStopEnd is one that has ended, or whose time was up.
	PreStopEnd struct{ Of }

	// Signaling is written before a signal is sent, so that a crash between the two hides none.
	Signaling struct {
		Of

		// Signal is a name: SIGTERM.
		Signal string `json:"sig"`
	}

	// Signal is a signal that was sent: the event began before kill(2) and ended after it.
	Signal struct {
		Of

		// Signal is a name: SIGTERM.
		Signal string `json:"sig"`
	}

	// Exit is a container that has ended.
	Exit struct {
		Of

		// Code is 0 to 255.
		Code int32 `json:"code"`
		// Unstarted says that it could not be started, or was killed before it had been.
		Unstarted bool `json:"unstarted,omitempty"`
	}

	// Remove is a container that was removed.
	Remove struct{ Of }

	// SandboxStop is a sandbox that was stopped.
	SandboxStop struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
	}

	// SandboxRemove is a sandbox that was removed.
	SandboxRemove struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
	}

	// Mount is a volume that was mounted.
	Mount struct {
		UID    string `json:"uid"`
		Volume string `json:"vol"`
		// Path is where, below the kubelet's directory; empty for what is elsewhere, such as a
		// hostPath, and belongs to no pod.
		Path string `json:"path,omitempty"`
		// Device is what was attached to the node for it; empty for nothing, and in histories
		// that do not tell.
		Device string `json:"device,omitempty"`
	}

	// Unmount is a volume that was unmounted.
	Unmount struct {
		UID    string `json:"uid"`
		Volume string `json:"vol"`
		// Path is where it was, below the kubelet's directory.
		Path string `json:"path,omitempty"`
	}
)

// Name implements Fact.
func (KubeletBoot) Name() Name { return NameKubeletBoot }

// Name implements Fact.
func (KubeletStop) Name() Name { return NameKubeletStop }

// Name implements Fact.
func (KubeletSee) Name() Name { return NameKubeletSee }

// Name implements Fact.
func (KubeletTerm) Name() Name { return NameKubeletTerm }

// Name implements Fact.
func (KubeletStuck) Name() Name { return NameKubeletStuck }

// Name implements Fact.
func (KubeletStatus) Name() Name { return NameKubeletStatus }

// Name implements Fact.
func (KubeletFinal) Name() Name { return NameKubeletFinal }

// Name implements Fact.
func (KubeletForget) Name() Name { return NameKubeletForget }

// Name implements Fact.
func (Create) Name() Name { return NameCreate }

// Name implements Fact.
func (Start) Name() Name { return NameStart }

// Name implements Fact.
func (TakeUp) Name() Name { return NameTakeUp }

// Name implements Fact.
func (Process) Name() Name { return NameProcess }

// Name implements Fact.
func (PostStartBegin) Name() Name { return NamePostStartBegin }

// Name implements Fact.
func (PostStartEnd) Name() Name { return NamePostStartEnd }

// Name implements Fact.
func (PreStopBegin) Name() Name { return NamePreStopBegin }

// Name implements Fact.
func (PreStopEnd) Name() Name { return NamePreStopEnd }

// Name implements Fact.
func (Signaling) Name() Name { return NameSignaling }

// Name implements Fact.
func (Signal) Name() Name { return NameSignal }

// Name implements Fact.
func (Exit) Name() Name { return NameExit }

// Name implements Fact.
func (Remove) Name() Name { return NameRemove }

// Name implements Fact.
func (SandboxStop) Name() Name { return NameSandboxStop }

// Name implements Fact.
func (SandboxRemove) Name() Name { return NameSandboxRemove }

// Name implements Fact.
func (Mount) Name() Name { return NameMount }

// Name implements Fact.
func (Unmount) Name() Name { return NameUnmount }
