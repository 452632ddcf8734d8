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
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// emptyDirs is where a pod's emptyDirs are, as package volumes lays them out.
const emptyDirs = "volumes/kubernetes.io~empty-dir"

// broken is what a fault does to a step of a volume: it fails, or takes until a time.
type broken struct {
	err   error
	until time.Time
}

// struck asks the node's faults about a step.
func (k *kubeletProcess) struck(point fault.Point, pod, volume string, out Out) (b broken) {
	if k.of.kernel.catchUp != nil && len(k.of.kernel.faults.Faults()) > 0 {
		k.of.kernel.catchUp()
	}
	about := fault.Attributes{Node: k.of.node, Pod: pod, Volume: volume}
	f, is := k.of.kernel.faults.FindFault(point, about, fault.Hang, fault.Error)
	if !is {
		return broken{}
	}
	said, err := json.Marshal(about)
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in the simulator
	}
	out.Note("", history.FaultTrigger{Fault: f.Name, Point: string(point), About: said})
	b.until = f.Until
	if f.Spec.Effect.Kind == fault.Error {
		b.err = &fault.Injected{Fault: f.Name, Code: f.Spec.Effect.Code, Message: f.Spec.Effect.Message}
	}
	return b
}

// mounted reports whether a volume of a pod is.
func (k *kubeletProcess) mounted(uid types.UID, volume string) bool {
	return slices.ContainsFunc(k.of.kernel.mounts[uid], func(m mount) bool { return m.volume == volume })
}

// mounting is one attempt to mount all volumes of a pod, as volumes.Manager.Mount does:
// each once, all at the same time, and none before its turn after a failure.
type mounting struct {
	k    *kubeletProcess
	w    *podWorker
	pod  *corev1.Pod
	errs []error
	// hangs are the volumes that hang, by their place in the spec, and until when; asks those
	// of which is asked whether they are attached.
	hangs map[int]time.Time
	asks  map[int]bool
	// devices are what is attached to the node for them.
	devices map[int]corev1.UniqueVolumeName
	limit   time.Time
	timer   string
	then    func(now time.Time, missing *volumes.NotReadyError, out Out)
}

// prepare mounts what a pod lacks.
func (k *kubeletProcess) prepare(
	now time.Time, w *podWorker, pod *corev1.Pod, out Out, then func(time.Time, *volumes.NotReadyError, Out),
) {
	if len(pod.Spec.Volumes) == 0 {
		then(now, nil, out)
		return
	}
	m := &mounting{
		k: k, w: w, pod: pod, errs: make([]error, len(pod.Spec.Volumes)), hangs: map[int]time.Time{},
		asks: map[int]bool{}, devices: map[int]corev1.UniqueVolumeName{}, limit: now.Add(k.of.timing.Volumes.MountWait), then: then,
	}
	for i := range pod.Spec.Volumes {
		volume := pod.Spec.Volumes[i].Name
		if last := w.attempts[volume]; k.mounted(pod.UID, volume) {
			continue
		} else if now.Before(last.Next) {
			m.errs[i] = last.Err
			continue
		}
		if !m.attach(now, i, out) {
			m.begin(now, i, out)
		}
	}
	w.interrupt = m.interrupted
	if len(m.hangs)+len(m.asks) > 0 && w.machine.State() != podworker.Syncing { // it is being stopped already
		m.interrupted(now, out)
		return
	}
	m.wait(now, out)
}

// begin mounts one volume, unless that is broken.
func (m *mounting) begin(now time.Time, i int, out Out) {
	switch b := m.k.struck(fault.VolumeMount, m.pod.Name, m.pod.Spec.Volumes[i].Name, out); {
	case b.err != nil:
		m.failed(now, i, b.err)
	case now.Before(b.until):
		m.hangs[i] = b.until
	default:
		m.mount(i, out)
	}
}

func (m *mounting) failed(now time.Time, i int, err error) {
	volume := m.pod.Spec.Volumes[i].Name
	m.errs[i] = err
	m.w.attempts[volume] = m.w.attempts[volume].Failed(err, now, m.k.of.timing.Volumes)
}

func (m *mounting) mount(i int, out Out) {
	uid, volume := m.pod.UID, m.pod.Spec.Volumes[i].Name
	made := mount{pod: m.pod.Name, volume: volume, path: path.Join("pods", string(uid), emptyDirs, volume)}
	if made.device = m.devices[i]; made.device != "" {
		made.path = "" // it is elsewhere
	}
	m.k.of.kernel.mounts[uid] = append(m.k.of.kernel.mounts[uid], made)
	delete(m.w.attempts, volume)
	out.Note("", history.Mount{UID: string(uid), Volume: volume, Path: made.path, Device: string(made.device)})
}

// wait goes on when the next volume that hangs does not any more, or the time is up.
func (m *mounting) wait(now time.Time, out Out) {
	if len(m.hangs)+len(m.asks) == 0 {
		m.w.interrupt = nil
		m.then(now, volumes.Lacking(m.pod, m.errs, m.w.attempts, now), out)
		return
	}
	next := m.limit
	for _, until := range m.hangs { // the earliest does not depend on the order
		if until.Before(next) {
			next = until
		}
	}
	m.timer = m.k.after(next, out, func(now time.Time, out Out) {
		for _, i := range slices.Sorted(maps.Keys(m.hangs)) {
			if !now.Before(m.hangs[i]) {
				m.mount(i, out)
				delete(m.hangs, i)
			} else if !now.Before(m.limit) {
				m.failed(now, i, context.DeadlineExceeded)
				delete(m.hangs, i)
			}
		}
		if !now.Before(m.limit) {
			m.breakOff(now, context.DeadlineExceeded)
		}
		m.wait(now, out)
	})
}

// interrupted breaks off what hangs (KBL-18).
func (m *mounting) interrupted(now time.Time, out Out) {
	m.k.timers.stop(m.timer, out)
	for _, i := range slices.Sorted(maps.Keys(m.hangs)) {
		m.failed(now, i, context.Canceled)
	}
	m.hangs = nil
	m.breakOff(now, context.Canceled)
	m.wait(now, out)
}

// breakOff waits for no answer any more.
func (m *mounting) breakOff(now time.Time, err error) {
	for _, i := range slices.Sorted(maps.Keys(m.asks)) {
		m.failed(now, i, err)
	}
	clear(m.asks)
}

// release unmounts a pod's volumes and removes their directories (KBL-60).
func (k *kubeletProcess) release(now time.Time, w *podWorker, out Out, then func(time.Time, error, Out)) {
	w.at(inspect.StepUnmount, out.Shows(now))
	k.unmountAll(now, w.uid, now.Add(k.of.timing.Volumes.UnmountWait), out, func(now time.Time, err error, out Out) {
		if err != nil {
			then(now, err, out)
			return
		}
		w.at(inspect.StepRemoveDirs, out.Shows(now))
		k.removeDirs(now, w, out, func(now time.Time, out Out) { then(now, nil, out) })
	})
}

// unmountAll unmounts a pod's volumes, trying again until all are, or the limit.
func (k *kubeletProcess) unmountAll(now time.Time, uid types.UID, limit time.Time, out Out, then func(time.Time, error, Out)) {
	left, until, last := k.unmount(uid, out)
	poll := k.of.timing.Volumes.UnmountPoll
	switch {
	case len(left) == 0:
		then(now, nil, out)
	case !now.Before(limit):
		then(now, volumes.LeftError(left, last), out)
	default:
		// It fails until then, whenever it is tried.
		next := now.Add(max(until.Sub(now).Truncate(poll), 0) + poll)
		if next.After(limit) {
			next = limit
		}
		k.after(next, out, func(now time.Time, out Out) { k.unmountAll(now, uid, limit, out, then) })
	}
}

// unmount tries once to unmount a pod's volumes; until says when those that are left can be.
func (k *kubeletProcess) unmount(uid types.UID, out Out) (left []string, until time.Time, last error) {
	var kept []mount
	for _, m := range k.of.kernel.mounts[uid] {
		b := k.struck(fault.VolumeUnmount, m.pod, m.volume, out)
		if b.until.IsZero() {
			out.Note("", history.Unmount{UID: string(uid), Volume: m.volume, Path: m.path})
			k.speaker.devices.Remove(uid, m.volume)
			continue
		}
		if last = b.err; last == nil { // it hangs
			last = context.DeadlineExceeded
		}
		kept, left, until = append(kept, m), append(left, m.volume), latestOf(until, b.until)
	}
	if k.of.kernel.mounts[uid] = kept; len(kept) == 0 {
		delete(k.of.kernel.mounts, uid)
		k.speaker.devices.Remove(uid) // those too that were never mounted
	}
	return left, until, last
}

// removeDirs removes a pod's directories, trying until they are gone.
func (k *kubeletProcess) removeDirs(now time.Time, w *podWorker, out Out, then func(time.Time, Out)) {
	pod := w.machine.Pod()
	if len(pod.Spec.Volumes) == 0 {
		then(now, out)
		return
	}
	b := k.struck(fault.VolumeRemoveDir, pod.Name, "", out)
	if b.until.IsZero() {
		then(now, out)
		return
	}
	if b.err != nil {
		w.stays = b.err
	}
	poll := k.of.timing.Volumes.DirPoll
	next := now.Add(max(b.until.Sub(now).Truncate(poll), 0) + poll)
	k.after(next, out, func(now time.Time, out Out) {
		w.stays = nil
		k.removeDirs(now, w, out, then)
	})
}

// sweep unmounts what belongs to no pod that anybody knows, and of which nothing runs. What
// cannot be is tried again at the next round.
func (k *kubeletProcess) sweep(_ time.Time, out Out) {
	for _, uid := range slices.Sorted(maps.Keys(k.of.kernel.mounts)) {
		seen, listed := k.runtime.views.Last(uid)
		if k.pods[uid] != nil || k.workers[uid] != nil || !listed || !seen.Idle() {
			continue
		}
		if left, _, _ := k.unmount(uid, out); len(left) > 0 {
			k.untidied = true
		}
	}
}
