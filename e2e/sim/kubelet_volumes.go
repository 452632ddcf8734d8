package sim

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// emptyDirs is where a pod's emptyDirs are, as package volumes lays them out.
const emptyDirs = "volumes/kubernetes.io~empty-dir"

// volumeFault is the effect of a fault on a step of a volume: an error, or a time until which the
// step takes.
type volumeFault struct {
	err   error
	until time.Time
}

// faultAt asks the node's faults about a step.
func (k *kubeletProcess) faultAt(point fault.Point, pod, volume string) (b volumeFault) {
	if k.of.kernel.catchUp != nil && len(k.of.kernel.faults.Faults()) > 0 {
		k.of.kernel.catchUp()
	}
	about := fault.Attributes{Node: k.of.node, Pod: pod, Volume: volume}
	f, is := k.of.kernel.faults.FindFault(point, about, fault.Hang, fault.Error)
	if !is {
		return volumeFault{}
	}
	said, err := json.Marshal(about)
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
	k.out.Note("", history.FaultTrigger{Fault: f.Name, Point: string(point), About: said})
	b.until = f.Until
	if f.Spec.Effect.Kind == fault.Error {
		b.err = &fault.Injected{Fault: f.Name, Code: f.Spec.Effect.Code, Message: f.Spec.Effect.Message}
	}
	return b
}

// isMounted reports whether a volume of a pod is mounted.
func (k *kubeletProcess) isMounted(uid types.UID, volume string) bool {
	return slices.ContainsFunc(k.of.kernel.mounts[uid], func(m mount) bool { return m.volume == volume })
}

// kernelVolumes mounts volumes into the node's kernel: volumes.Manager without its files. It
// implements podworker.Volumes.
type kernelVolumes struct {
	k    *kubeletProcess
	pods map[types.UID]*volumesOfPod
}

// volumesOfPod is this kubelet incarnation's state of a pod's volumes.
type volumesOfPod struct {
	// attempts are of the volumes that could not be mounted.
	attempts map[string]volumes.Attempt
	// stays is why the pod's directories are not removed yet.
	stays error
}

func (v *kernelVolumes) of(uid types.UID) *volumesOfPod {
	if v.pods[uid] == nil {
		v.pods[uid] = &volumesOfPod{attempts: map[string]volumes.Attempt{}}
	}
	return v.pods[uid]
}

// stays is volumes.Manager.Stays.
func (v *kernelVolumes) stays(uid types.UID) error {
	if known := v.pods[uid]; known != nil {
		return known.stays
	}
	return nil
}

// Mount tries once to mount each volume that is not, all at the same time, and none before
// its turn after a failure.
func (v *kernelVolumes) Mount(ctx context.Context, pod *corev1.Pod) error {
	missing := 0
	for i := range pod.Spec.Volumes {
		if !v.k.isMounted(pod.UID, pod.Spec.Volumes[i].Name) {
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	ctx, cancel := taskClock{v.k}.Timeout(ctx, v.k.of.timing.Volumes.MountWait)
	defer cancel()
	errs := make([]error, len(pod.Spec.Volumes))
	all := v.k.tasks.Group()
	for i := range pod.Spec.Volumes {
		if volume := &pod.Spec.Volumes[i]; !v.k.isMounted(pod.UID, volume.Name) {
			all.Go(func() { errs[i] = v.mount(ctx, pod, volume) })
		}
	}
	all.Wait()
	if lacking := volumes.FindMissing(pod, errs, v.of(pod.UID).attempts, v.k.incarnation.now); lacking != nil {
		return lacking
	}
	return nil
}

// mount mounts one volume, unless it failed a short time ago.
func (v *kernelVolumes) mount(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	attempts := v.of(pod.UID).attempts
	last := attempts[volume.Name]
	if v.k.incarnation.now.Before(last.Next) {
		return last.Err
	}
	err := v.setUp(ctx, pod, volume)
	if err != nil {
		attempts[volume.Name] = last.AfterFailure(err, v.k.incarnation.now, v.k.of.timing.Volumes)
		return err
	}
	delete(attempts, volume.Name)
	return nil
}

func (v *kernelVolumes) setUp(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	made := mount{pod: pod.Name, volume: volume.Name, path: path.Join("pods", string(pod.UID), emptyDirs, volume.Name)}
	if claim := podrefs.ClaimName(pod, volume); claim != "" {
		device, err := v.attach(ctx, pod, volume, claim)
		if err != nil {
			return err
		}
		made.device, made.path = device, "" // it is elsewhere
	}
	b := v.k.faultAt(fault.VolumeMount, pod.Name, volume.Name)
	if b.err != nil {
		return b.err
	}
	if err := v.sleepUntil(ctx, b.until); err != nil {
		return err
	}
	v.k.of.kernel.mounts[pod.UID] = append(v.k.of.kernel.mounts[pod.UID], made)
	v.k.out.Note("", history.Mount{UID: string(pod.UID), Volume: volume.Name, Path: made.path, Device: string(made.device)})
	return nil
}

// sleepUntil waits for a time; the zero time is over.
func (v *kernelVolumes) sleepUntil(ctx context.Context, until time.Time) error {
	return taskClock{v.k}.Sleep(ctx, until.Sub(v.k.incarnation.now))
}

// Unmount unmounts a pod's volumes, and tries again until all are unmounted or the wait is
// over. It skips tries that would fail: a volume that is broken until a time stays mounted
// until then (KBL-60).
func (v *kernelVolumes) Unmount(ctx context.Context, pod *corev1.Pod) error {
	limit, poll := v.k.incarnation.now.Add(v.k.of.timing.Volumes.UnmountWait), v.k.of.timing.Volumes.UnmountPoll
	for {
		left, until, last := v.k.unmount(pod.UID)
		now := v.k.incarnation.now
		switch {
		case len(left) == 0:
			return nil
		case !now.Before(limit):
			return volumes.LeftError(left, last)
		}
		next := now.Add(max(until.Sub(now).Truncate(poll), 0) + poll)
		if next.After(limit) {
			next = limit
		}
		if err := v.sleepUntil(ctx, next); err != nil {
			return err
		}
	}
}

// unmount tries once to unmount a pod's volumes; until says when those that are left can be.
func (k *kubeletProcess) unmount(uid types.UID) (left []string, until time.Time, last error) {
	var kept []mount
	for _, m := range k.of.kernel.mounts[uid] {
		b := k.faultAt(fault.VolumeUnmount, m.pod, m.volume)
		if b.until.IsZero() {
			k.out.Note("", history.Unmount{UID: string(uid), Volume: m.volume, Path: m.path})
			k.devices.Remove(uid, m.volume)
			continue
		}
		if last = b.err; last == nil { // it hangs
			last = context.DeadlineExceeded
		}
		kept, left, until = append(kept, m), append(left, m.volume), latestOf(until, b.until)
	}
	if k.of.kernel.mounts[uid] = kept; len(kept) == 0 {
		delete(k.of.kernel.mounts, uid)
		k.devices.Remove(uid) // those too that were never mounted
	}
	return left, until, last
}

// RemoveDirs removes a pod's directories, and tries until they are gone. It skips tries that
// would fail.
func (v *kernelVolumes) RemoveDirs(ctx context.Context, pod *corev1.Pod) error {
	poll := v.k.of.timing.Volumes.DirPoll
	for len(pod.Spec.Volumes) > 0 {
		b := v.k.faultAt(fault.VolumeRemoveDir, pod.Name, "")
		if b.until.IsZero() {
			break
		}
		if b.err != nil {
			v.of(pod.UID).stays = b.err
		}
		now := v.k.incarnation.now
		if err := v.sleepUntil(ctx, now.Add(max(b.until.Sub(now).Truncate(poll), 0)+poll)); err != nil {
			return err
		}
	}
	delete(v.pods, pod.UID)
	return nil
}

// Mounts returns none: programs of the simulated runtime see no files.
func (v *kernelVolumes) Mounts(context.Context, *corev1.Pod, *corev1.Container, []string) ([]*proto.Mount, error) {
	return nil, nil
}

// EnvFile returns nothing, as there are no files.
func (v *kernelVolumes) EnvFile(*corev1.Pod, *corev1.FileKeySelector) (string, error) { return "", nil }

// unmountOrphans unmounts the volumes of unknown pods that do not run. Failures are tried again at
// the next round.
func (k *kubeletProcess) unmountOrphans() {
	for _, uid := range slices.Sorted(maps.Keys(k.of.kernel.mounts)) {
		seen, listed := k.runtime.views.Last(uid)
		if k.pods[uid] != nil || k.hasWorker(uid) || !listed || !seen.IsIdle() {
			continue
		}
		if left, _, _ := k.unmount(uid); len(left) > 0 {
			k.untidied = true
		}
	}
}
