package kubelet

import (
	"context"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// recordedAPI records the kubelet's requests in the history: leases, the node's readiness, the
// pods' statuses and their final deletes, as the API accepted them.
type recordedAPI struct {
	API
	*observer
}

// Create implements API.
func (r recordedAPI) Create(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.CreateOptions) (kinds.Object, error) {
	began, answered := r.history.Now(), r.BeginRequest(proto.VerbCreate, target, "")
	made, err := r.API.Create(ctx, target, obj, opts)
	if answered(err); err == nil {
		r.recordAccepted(began, target, obj)
	}
	return made, err
}

// Get implements API.
func (r recordedAPI) Get(ctx context.Context, target podapi.Target, opts metav1.GetOptions) (kinds.Object, error) {
	answered := r.BeginRequest(proto.VerbGet, target, "")
	obj, err := r.API.Get(ctx, target, opts)
	answered(err)
	return obj, err
}

// Update implements API.
func (r recordedAPI) Update(ctx context.Context, target podapi.Target, obj kinds.Object, opts metav1.UpdateOptions) (kinds.Object, error) {
	began, answered := r.history.Now(), r.BeginRequest(proto.VerbUpdate, target, string(obj.GetUID()))
	stored, err := r.API.Update(ctx, target, obj, opts)
	if answered(err); err == nil {
		r.recordAccepted(began, target, obj)
	}
	return stored, err
}

// Delete implements API. Of a pod the kubelet only ever asks for the final delete.
func (r recordedAPI) Delete(ctx context.Context, target podapi.Target, opts metav1.DeleteOptions) (kruntime.Object, error) {
	uid := ""
	if opts.Preconditions != nil && opts.Preconditions.UID != nil {
		uid = string(*opts.Preconditions.UID)
	}
	began, answered := r.history.Now(), r.BeginRequest(proto.VerbDelete, target, uid)
	answer, err := r.API.Delete(ctx, target, opts)
	answered(err)
	if target.Kind.Resource == "pods" {
		final := history.KubeletFinal{Pod: target.Namespace + "/" + target.Name, UID: uid}
		if r.lastSeen != nil {
			left, listed := r.lastSeen(types.UID(uid))
			final.Listed, final.Left = &listed, len(left.Running())
		}
		if err != nil {
			final.Err = err.Error()
		}
		r.history.RecordSince(began, "", final)
	}
	return answer, err
}

// recordAccepted records an object that the API has accepted.
func (r recordedAPI) recordAccepted(began history.MonoTime, target podapi.Target, obj kinds.Object) {
	switch obj := obj.(type) {
	case *corev1.Pod:
		r.history.RecordSince(began, "", history.KubeletStatus{
			Pod: obj.Namespace + "/" + obj.Name, UID: string(obj.UID), Phase: string(obj.Status.Phase), Containers: ContainerStates(&obj.Status),
		})
	case *corev1.Node:
		for _, condition := range obj.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				r.history.RecordSince(began, "", history.Ready{Node: r.node, Value: string(condition.Status)})
			}
		}
	default:
		if target.Kind.Resource == "leases" {
			r.history.RecordSince(began, "", history.Lease{Node: r.node})
		}
	}
}

// recordedVolumes records mounts and unmounts in the history.
type recordedVolumes struct {
	*volumes.Manager
	history *history.Recorder
}

// Mount implements podworker.Volumes.
func (m recordedVolumes) Mount(ctx context.Context, pod *corev1.Pod) error {
	began := m.history.Now()
	err := m.Manager.Mount(ctx, pod)
	if err != nil || m.history == nil {
		return err
	}
	for name, place := range m.volumePaths(pod) {
		m.history.RecordSince(began, "", history.Mount{UID: string(pod.UID), Volume: name, Path: place, Device: string(m.Device(pod.UID, name))})
	}
	return nil
}

// Unmount implements podworker.Volumes.
func (m recordedVolumes) Unmount(ctx context.Context, pod *corev1.Pod) error {
	if m.history == nil {
		return m.Manager.Unmount(ctx, pod)
	}
	began := m.history.Now()
	var done []history.Entry
	for name, place := range m.volumePaths(pod) {
		done = append(done, history.Entry{Fact: history.Unmount{UID: string(pod.UID), Volume: name, Path: place}})
	}
	err := m.Manager.Unmount(ctx, pod)
	if err == nil {
		m.history.RecordAll(began, done...)
	}
	return err
}

// RemovePod is [volumes.Manager.RemovePod].
func (m recordedVolumes) RemovePod(ctx context.Context, uid types.UID) error {
	if m.history == nil {
		return m.Manager.RemovePod(ctx, uid)
	}
	began, mounted := m.history.Now(), m.Mounted(uid)
	places := map[string]string{}
	for _, name := range mounted {
		places[name] = m.RelativePath(uid, name)
	}
	err := m.Manager.RemovePod(ctx, uid)
	left := m.Mounted(uid) // the others are not tried again
	var done []history.Entry
	for _, name := range mounted {
		if !slices.Contains(left, name) {
			done = append(done, history.Entry{Fact: history.Unmount{UID: string(uid), Volume: name, Path: places[name]}})
		}
	}
	m.history.RecordAll(began, done...)
	return err
}

// volumePaths returns the pod's volumes, in their order, and the path of each.
func (m recordedVolumes) volumePaths(pod *corev1.Pod) iter.Seq2[string, string] {
	return func(yield func(volume, place string) bool) {
		for i := range pod.Spec.Volumes {
			if name := pod.Spec.Volumes[i].Name; !yield(name, m.RelativePath(pod.UID, name)) {
				return
			}
		}
	}
}

// ContainerStates returns the container states of a status as the history has them.
func ContainerStates(status *corev1.PodStatus) (told []history.ContainerState) {
	for _, all := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range all {
			_, id, made := strings.Cut(all[i].ContainerID, "://")
			if !made {
				continue
			}
			one := history.ContainerState{Container: id, State: "waiting"}
			switch state := all[i].State; {
			case state.Running != nil:
				one.State = "running"
			case state.Terminated != nil:
				one.State, one.Code = "terminated", state.Terminated.ExitCode
			}
			told = append(told, one)
		}
	}
	return told
}
