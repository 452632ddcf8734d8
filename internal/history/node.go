package history

import "time"

// ContainerRef identifies the container that an event concerns.
type ContainerRef struct {
	Pod       string `json:"pod"`
	UID       string `json:"uid"`
	Container string `json:"ctr"`
	// ContainerName is the container's name in its pod.
	ContainerName string `json:"name,omitempty"`
}

// The kubelet.
type (
	// KubeletBoot is the start of a kubelet.
	KubeletBoot struct {
		Node string `json:"node"`
	}

	// KubeletStop is the shutdown of a kubelet. Its pods keep running.
	KubeletStop struct {
		Node string `json:"node"`
	}

	// KubeletSee is a pod update that the kubelet accepts.
	KubeletSee struct {
		// Pod is namespace/name, here and below.
		Pod string `json:"pod"`
		UID string `json:"uid"`
		// Op is the kubelet's operation for the update: ADD, UPDATE, DELETE, RECONCILE or REMOVE.
		Op string `json:"op"`
		// Revision is the pod's resource version.
		Revision string `json:"rv"`
		// Grace is the deletionGracePeriodSeconds; nil while the pod is not being deleted.
		Grace *int64 `json:"delGrace,omitempty"`
	}

	// KubeletTerm is the beginning of an attempt to stop a pod.
	KubeletTerm struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
		// Grace is in seconds.
		Grace int64 `json:"g"`
	}

	// KubeletStuck is a failed step of stopping a pod; the kubelet will retry it.
	KubeletStuck struct {
		Pod   string `json:"pod"`
		UID   string `json:"uid"`
		Doing string `json:"doing"`
		Err   string `json:"err"`
	}

	// KubeletStatus is a status update that the API has accepted.
	KubeletStatus struct {
		Pod   string `json:"pod"`
		UID   string `json:"uid"`
		Phase string `json:"phase"`
		// Containers are the states in that status.
		Containers []ContainerState `json:"containers,omitempty"`
	}

	// ContainerState is the state of one container in a pod's status.
	ContainerState struct {
		Container string `json:"ctr"`
		// State is waiting, running or terminated.
		State string `json:"state"`
		// Code is the exit code of a terminated container.
		Code int32 `json:"code,omitempty"`
	}

	// KubeletFinal is the kubelet's last delete of a pod, sent when the node holds nothing of the
	// pod any more.
	KubeletFinal struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
		// Listed reports whether this kubelet had listed its runtime's containers. Left is how many
		// containers of the pod ran by the last list. Listed is nil in histories that do not record
		// it.
		Listed *bool `json:"listed,omitempty"`
		Left   int   `json:"left,omitempty"`
		// Err is why the API refused the delete; empty if it succeeded.
		Err string `json:"err,omitempty"`
	}

	// KubeletForget is a pod that the kubelet drops from its records.
	KubeletForget struct {
		UID string `json:"uid"`
	}
)

// The runtime, and other actions of the kubelet on the node.
type (
	// Create is the creation of a container.
	Create struct {
		ContainerRef

		// Log is the path of the container's log, relative to the log directory.
		Log string `json:"log,omitempty"`
		// Script is the script of a scripted container, if its pod has one.
		Script string `json:"script,omitempty"`
	}

	// Start is the start of a container's process.
	Start struct {
		ContainerRef

		// Scripted containers follow a script and have no process.
		Scripted bool `json:"scripted,omitempty"`
	}

	// Recover is a container that a restarted runtime finds started and without a recorded end. If
	// the runtime was killed between starting the container and recording it, there is no Start
	// event.
	Recover struct {
		ContainerRef

		// Started is the cluster time of the recorded start.
		Started time.Time `json:"started"`
		// Scripted is as in Start.
		Scripted bool `json:"scripted,omitempty"`
	}

	// Process is the process of a running container, once known. A restarted runtime records it
	// again.
	Process struct {
		ContainerRef

		// PID is the process id on the machine, positive.
		PID int `json:"pid"`
	}

	// PostStartBegin is the start of a postStart hook. Deleting the pod waits for the end of the
	// hook (KBL-19).
	PostStartBegin struct{ ContainerRef }

	// PostStartEnd is the end of a postStart hook.
	PostStartEnd struct{ ContainerRef }

	// PreStopBegin is the start of a preStop hook.
	PreStopBegin struct{ ContainerRef }

	// PreStopEnd is the end of a preStop hook, or its timeout.
	PreStopEnd struct{ ContainerRef }

	// Signaling is recorded before a signal is sent, so that a crash between the two hides no
	// signal.
	Signaling struct {
		ContainerRef

		// Signal is a name: SIGTERM.
		Signal string `json:"sig"`
	}

	// Signal is a signal sent to a container. The event began before kill(2) and ended after it.
	Signal struct {
		ContainerRef

		// Signal is a name: SIGTERM.
		Signal string `json:"sig"`
	}

	// Exit is the end of a container.
	Exit struct {
		ContainerRef

		// Code ranges from 0 to 255.
		Code int32 `json:"code"`
		// Unstarted is set if the container could not be started, or was killed before its start.
		Unstarted bool `json:"unstarted,omitempty"`
	}

	// Remove is the removal of a container.
	Remove struct{ ContainerRef }

	// SandboxStop is the stop of a sandbox.
	SandboxStop struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
	}

	// SandboxRemove is the removal of a sandbox.
	SandboxRemove struct {
		Pod string `json:"pod"`
		UID string `json:"uid"`
	}

	// Mount is the mount of a volume.
	Mount struct {
		UID    string `json:"uid"`
		Volume string `json:"vol"`
		// Path is relative to the kubelet's directory. It is empty for volumes elsewhere that
		// belong to no pod, for example a hostPath.
		Path string `json:"path,omitempty"`
		// Device is the device that was attached to the node for the volume; empty without one, and
		// in histories that do not record it.
		Device string `json:"device,omitempty"`
	}

	// Unmount is the unmount of a volume.
	Unmount struct {
		UID    string `json:"uid"`
		Volume string `json:"vol"`
		// Path is the former mount path, relative to the kubelet's directory.
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
func (Recover) Name() Name { return NameRecover }

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
