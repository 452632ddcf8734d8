package kubelet

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
)

// housekeep repairs what no event reports, in this order (KBL-72). It does nothing before a
// complete list of pods has been seen (KBL-05).
func (l *loop) housekeep(ctx context.Context) {
	if !l.ready {
		return
	}
	l.cleanUpWorkers(ctx)
	for _, uid := range l.parts.reporter.Known() {
		if l.pods[uid] == nil {
			l.parts.reporter.Forget(uid)
		}
	}
	l.removeOrphanedDirs(ctx)
	l.sendMirrorView()
	l.startMissingWorkers(ctx)
	l.killOrphans(ctx)
	l.removeOrphanedCgroups(ctx)
}

// cleanUpWorkers forgets finished workers whose UID has left the API or starts anew, and repeats
// the removal to the other workers whose UID has left (KBL-15, KBL-21).
func (l *loop) cleanUpWorkers(ctx context.Context) {
	workers := l.parts.workers
	views := workers.All()
	for _, v := range views {
		if v.State == podworker.Confirming {
			l.static.names.Release(v.UID)
		}
	}
	forget, again := podworker.Housekeep(views, l.pods)
	for _, uid := range forget {
		workers.Forget(ctx, uid)
	}
	for _, uid := range again {
		workers.Step(ctx, uid, podworker.Removed{})
		workers.Step(ctx, uid, podworker.Due{})
	}
}

// removeOrphanedDirs removes the directories of unknown pods without running containers. An orphan
// keeps its volumes until it has been killed.
func (l *loop) removeOrphanedDirs(ctx context.Context) {
	for _, uid := range l.parts.volumes.Pods() {
		if seen, listed := l.parts.relister.Last(uid); l.isKnown(uid) || !listed || !seen.IsIdle() {
			continue
		}
		l.parts.removals.start(ctx, "volumes "+string(uid), func(ctx context.Context) {
			if err := (recordedVolumes{l.parts.volumes, l.parts.cfg.History}).RemovePod(ctx, uid); err != nil && ctx.Err() == nil {
				l.parts.cfg.Log.ErrorContext(ctx, "there are orphaned volumes", "uid", uid, "err", err) // (KBL-76)
			}
		})
	}
}

// startMissingWorkers admits pods without a worker, and finishes rejected pods that are being
// deleted.
func (l *loop) startMissingWorkers(ctx context.Context) {
	for _, uid := range slices.Sorted(maps.Keys(l.pods)) {
		if _, ok := l.parts.workers.Get(uid); ok {
			continue
		}
		pod := l.pods[uid]
		if !l.rejected[uid] {
			l.admit(ctx, pod)
			continue
		}
		if seen, listed := l.parts.relister.Last(uid); pod.DeletionTimestamp != nil && podstate.IsTerminal(pod) && listed && seen.IsIdle() {
			delete(l.rejected, uid)
			l.sendSeen(ctx, pod)
		}
	}
}

// killOrphans kills running pods without a worker (KBL-73).
func (l *loop) killOrphans(ctx context.Context) {
	worked := func(uid types.UID) bool {
		_, ok := l.parts.workers.Get(uid)
		return ok
	}
	expected := func(uid types.UID) bool { return l.pods[uid] != nil && !l.rejected[uid] }
	for _, seen := range podworker.FindOrphans(l.parts.relister.All(), worked, expected) {
		l.parts.cfg.Log.InfoContext(ctx, "kill a pod that only the runtime has", "pod", seen.Namespace+"/"+seen.Name, "uid", seen.UID)
		l.parts.workers.Step(ctx, seen.UID, podworker.Orphan{Pod: podworker.PodFromRuntime(seen)})
	}
}

// removeOrphanedCgroups destroys the cgroups of unknown pods, once their volumes are gone.
func (l *loop) removeOrphanedCgroups(ctx context.Context) {
	uids, err := l.parts.cgroups.Pods()
	if err != nil {
		l.parts.cfg.Log.ErrorContext(ctx, "look for orphaned cgroups", "err", err)
	}
	dirs := l.parts.volumes.Pods()
	for _, uid := range uids {
		if l.isKnown(uid) || slices.Contains(dirs, uid) {
			continue
		}
		l.parts.removals.start(ctx, "cgroup "+string(uid), func(ctx context.Context) {
			if err := l.parts.cgroups.Destroy(ctx, uid); err != nil && ctx.Err() == nil {
				l.parts.cfg.Log.ErrorContext(ctx, "destroy an orphaned cgroup", "uid", uid, "err", err)
			}
		})
	}
}

func (l *loop) isKnown(uid types.UID) bool {
	if l.pods[uid] != nil {
		return true
	}
	_, ok := l.parts.workers.Get(uid)
	return ok
}

// collectGarbage removes dead containers and sandboxes from the runtime: all of a pod that is gone,
// and of an existing pod all but each container's last two (KBL-61).
func (p *parts) collectGarbage(ctx context.Context) error {
	ticker := p.cfg.Clock.Ticker(p.cfg.Timing.Loop.Collect)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		for _, seen := range p.relister.All() {
			p.collectPodGarbage(ctx, seen)
		}
	}
}

func (p *parts) collectPodGarbage(ctx context.Context, seen podstate.Pod) {
	_, worked := p.workers.Get(seen.UID)
	known, ready := p.hasPod(seen.UID)
	gone := ready && !known && !worked && seen.IsIdle()
	for _, c := range seen.Containers {
		old := c != seen.Latest(c.GetName()) && c != seen.Previous(c.GetName())
		if podstate.Alive(c) || (!gone && !old) {
			continue
		}
		if err := p.runtime.RemoveContainer(ctx, c.GetId()); err != nil {
			p.cfg.Log.WarnContext(ctx, "remove a dead container", "uid", seen.UID, "container", c.GetName(), "err", err)
			return
		}
	}
	for i, s := range seen.Sandboxes {
		used := slices.ContainsFunc(seen.Containers, func(c *proto.Container) bool { return c.GetSandboxId() == s.GetId() })
		if !gone && (i == 0 || used) {
			continue
		}
		if err := p.runtime.RemovePodSandbox(ctx, s.GetId()); err != nil {
			p.cfg.Log.WarnContext(ctx, "remove a dead sandbox", "uid", seen.UID, "err", err)
			return
		}
	}
}
