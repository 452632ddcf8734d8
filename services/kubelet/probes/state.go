package probes

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// State is the state of one container's probes.
type State struct {
	// Started and Ready are true if there is no probe of the kind.
	Started, Ready bool
	// Failed is the probe for which the container must be killed, or nil.
	Failed *Kind
}

// StateOf returns the state of a container's probes for its run with that id. Find reports false
// for a kind without a tracker.
func StateOf(id string, find func(Kind) (Tracker, bool)) State {
	result := func(kind Kind) Result {
		tracker, there := find(kind)
		switch {
		case !there:
			return Success
		case tracker.Container() != id:
			return kind.initialResult()
		}
		return tracker.Result()
	}
	state := State{Started: result(Startup) == Success}
	state.Ready = state.Started && result(Readiness) == Success
	for _, kind := range []Kind{Startup, Liveness} {
		if result(kind) == Failure && state.Failed == nil {
			state.Failed = new(kind)
		}
	}
	return state
}

// TargetOf returns a container as the target of a probe. Latest is its newest run in the runtime,
// or nil. Known returns the state of the probes of a run.
func TargetOf(pod *corev1.Pod, spec *corev1.Container, latest *proto.Container, known func(id string) State) Target {
	if latest == nil {
		return Target{}
	}
	return Target{
		ID: latest.GetId(), Running: podstate.Alive(latest), Started: time.Unix(0, latest.GetStartedAtUnixNano()),
		Up: ProbeOf(spec, Startup) == nil || known(latest.GetId()).Started, Deleted: pod.DeletionTimestamp != nil,
	}
}

// Kinds returns all kinds, in the order in which they begin.
func Kinds() []Kind { return []Kind{Startup, Readiness, Liveness} }

// HasAny reports whether a pod has a probe.
func HasAny(pod *corev1.Pod) bool {
	for _, spec := range Containers(pod) {
		for _, kind := range Kinds() {
			if ProbeOf(spec, kind) != nil {
				return true
			}
		}
	}
	return false
}

// Containers returns the containers of a pod that may have probes: the sidecars and the regular
// ones.
func Containers(pod *corev1.Pod) []*corev1.Container {
	var found []*corev1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podstate.IsSidecar(c) {
			found = append(found, c)
		}
	}
	for i := range pod.Spec.Containers {
		found = append(found, &pod.Spec.Containers[i])
	}
	return found
}

// containerOf returns the container of that name, or nil.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, c := range Containers(pod) {
		if c.Name == name {
			return c
		}
	}
	return nil
}
