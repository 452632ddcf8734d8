// Package podstate holds what a runtime has of one pod, as plain data. The relister fills it; the
// decisions of worker and status read it. Small questions about the API's object that all of them
// ask are here too.
package podstate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
)

// The labels that tie a sandbox or a container to its pod (CRI-14).
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
)

// Pod is what the runtime has of one pod. Its slices are never written once the value has been
// passed on.
type Pod struct {
	UID       types.UID
	Namespace string
	Name      string
	// Sandboxes are ordered newest first.
	Sandboxes []*proto.Sandbox
	// Containers are ordered by name, and newest first within a name.
	Containers []*proto.Container
}

// New sorts what a runtime listed.
func New(uid types.UID, sandboxes []*proto.Sandbox, containers []*proto.Container) Pod {
	pod := Pod{UID: uid, Sandboxes: slices.Clone(sandboxes), Containers: slices.Clone(containers)}
	slices.SortFunc(pod.Sandboxes, func(a, b *proto.Sandbox) int {
		return cmp.Or(cmp.Compare(b.GetAttempt(), a.GetAttempt()), cmp.Compare(a.GetId(), b.GetId()))
	})
	slices.SortFunc(pod.Containers, func(a, b *proto.Container) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(b.GetAttempt(), a.GetAttempt()),
			cmp.Compare(a.GetId(), b.GetId()))
	})
	switch {
	case len(pod.Sandboxes) > 0:
		pod.Namespace, pod.Name = pod.Sandboxes[0].GetPodNamespace(), pod.Sandboxes[0].GetPodName()
	case len(pod.Containers) > 0:
		labels := pod.Containers[0].GetLabels()
		pod.Namespace, pod.Name = labels[LabelPodNamespace], labels[LabelPodName]
	}
	return pod
}

// Latest returns the newest container of the name, or nil.
func (p Pod) Latest(name string) *proto.Container { return p.nth(name, 0) }

// Previous returns the container before the newest of the name, or nil.
func (p Pod) Previous(name string) *proto.Container { return p.nth(name, 1) }

func (p Pod) nth(name string, n int) *proto.Container {
	for _, c := range p.Containers {
		if c.GetName() != name {
			continue
		}
		if n == 0 {
			return c
		}
		n--
	}
	return nil
}

// Running returns the containers that may have a live process: RUNNING, and UNKNOWN, whose end was
// not seen.
func (p Pod) Running() []*proto.Container {
	var running []*proto.Container
	for _, c := range p.Containers {
		if Alive(c) {
			running = append(running, c)
		}
	}
	return running
}

// Alive reports whether c may have a live process.
func Alive(c *proto.Container) bool {
	switch c.GetState() {
	case proto.ContainerState_CONTAINER_STATE_RUNNING, proto.ContainerState_CONTAINER_STATE_UNKNOWN:
		return true
	case proto.ContainerState_CONTAINER_STATE_CREATED, proto.ContainerState_CONTAINER_STATE_EXITED:
		return false
	}
	return false
}

// Sandbox returns the newest sandbox if it is ready, else nil.
func (p Pod) Sandbox() *proto.Sandbox {
	if len(p.Sandboxes) == 0 || p.Sandboxes[0].GetState() != proto.SandboxState_SANDBOX_STATE_READY {
		return nil
	}
	return p.Sandboxes[0]
}

// Messages that say why a pod needs a new sandbox.
const (
	MessageNoSandbox        = "no pod sandbox exists"
	MessageManySandboxes    = "multiple pod sandboxes are ready and need to be reconciled"
	MessageSandboxNotReady  = "pod sandbox is not ready"
	ReasonPodSandboxUnready = "PodSandboxNotReady"
)

// NeedsSandbox reports whether the pod needs a new sandbox, with which attempt, and why
// (upstream's PodSandboxChanged).
func (p Pod) NeedsSandbox() (needs bool, attempt uint32, why string) {
	if len(p.Sandboxes) == 0 {
		return true, 0, MessageNoSandbox
	}
	ready := 0
	for _, s := range p.Sandboxes {
		if s.GetState() == proto.SandboxState_SANDBOX_STATE_READY {
			ready++
		}
	}
	next := p.Sandboxes[0].GetAttempt() + 1
	switch {
	case ready > 1:
		return true, next, MessageManySandboxes
	case p.Sandbox() == nil:
		return true, next, MessageSandboxNotReady
	}
	return false, p.Sandboxes[0].GetAttempt(), ""
}

// Active returns the newest container of the name in the ready sandbox, or nil.
func (p Pod) Active(name string) *proto.Container {
	sandbox := p.Sandbox()
	if sandbox == nil {
		return nil
	}
	for _, c := range p.Containers {
		if c.GetName() == name && c.GetSandboxId() == sandbox.GetId() {
			return c
		}
	}
	return nil
}

// HasStartedRegular reports whether a regular container was created in the ready sandbox, which
// proves that the pod was initialized (upstream's HasAnyActiveRegularContainerStarted).
func (p Pod) HasStartedRegular(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return p.Active(c.Name) != nil })
}

// IsIdle reports whether the runtime has nothing alive of the pod: no container that may run and no
// ready sandbox.
func (p Pod) IsIdle() bool {
	return len(p.Running()) == 0 && !slices.ContainsFunc(p.Sandboxes, func(s *proto.Sandbox) bool {
		return s.GetState() == proto.SandboxState_SANDBOX_STATE_READY
	})
}

// Key returns the pod's name in logs and errors, "namespace/name".
func Key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// IsTerminal reports whether the API's object says that the pod has ended for good.
func IsTerminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
