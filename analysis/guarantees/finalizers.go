package guarantees

import (
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// The longest pauses of a controller between two tries. maxRetryPause holds if all tries failed,
// usualRetryPause after troubles of unknown effect, for example lost messages.
const (
	maxRetryPause   = 1000 * time.Second
	usualRetryPause = 5 * time.Minute
)

// observationAge is how old the observations behind an explanation may be: several sources are
// asked, and those that do not answer are waited for.
const observationAge = 10 * time.Second

// anyVersion reports whether a version of the pod that the explanation may be about satisfies a
// condition.
func (b blockedPod) anyVersion(is func(*commit) bool) bool {
	return slices.ContainsFunc(b.versionsNear(b.podHistory.commits), is)
}

// versionsNear returns the versions of an object that existed when the explanation was made, or a
// moment before.
func (b blockedPod) versionsNear(versions []*commit) (there []*commit) {
	for i, c := range versions {
		over := i+1 < len(versions) && versions[i+1].Ended < b.Began-int64(observationAge)
		if c.Op != deleted && c.Began <= b.Ended && !over {
			there = append(there, c)
		}
	}
	return there
}

// awaitsCollector reports whether the garbage collector has to release an object.
func awaitsCollector(c *commit) bool {
	return slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) || slices.Contains(c.Finalizers, metav1.FinalizerOrphanDependents)
}

// awaitsJobController reports whether a Job has to count a pod.
func awaitsJobController(c *commit) bool {
	return slices.Contains(c.Finalizers, batchv1.JobTrackingFinalizer)
}

// awaitsOthers reports whether a finalizer's owner outside podfall has to release a pod. This
// includes the finalizer of a Job that the job controller leaves alone, as far as a history shows.
func (b blockedPod) awaitsOthers(c *commit) bool {
	own := []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, batchv1.JobTrackingFinalizer}
	if slices.ContainsFunc(c.Finalizers, func(name string) bool { return !slices.Contains(own, name) }) {
		return true
	}
	job := b.jobOf(c)
	return awaitsJobController(c) && job != nil && !b.managesJob(job)
}

// awaitsJob reports whether a Job that stays has to count a pod that has not succeeded.
func (b blockedPod) awaitsJob(c *commit) bool {
	job := b.jobOf(c)
	return job != nil && awaitsJobController(c) && c.Phase != "Succeeded"
}

// jobOf returns the version of a pod's Job that existed at the time, or a moment before, and was
// not being deleted; nil for none.
func (b blockedPod) jobOf(pod *commit) *commit {
	versions := b.versionsNear(b.byUID[pod.Owner])
	at := slices.IndexFunc(versions, func(c *commit) bool { return c.Resource == jobResource && c.Deadline == nil })
	if at < 0 {
		return nil
	}
	return versions[at]
}

// managesJob reports whether the job controller had decided anything about a Job.
func (b blockedPod) managesJob(job *commit) bool {
	created := b.byUID[job.UID][0]
	for e, fact := range factsOf[history.Decide](b.clusterHistory) {
		if fact.Controller == jobController && fact.Resource == jobResource && fact.Key == job.Key && e.Ended >= created.Began && e.Ended <= b.Began {
			return true
		}
	}
	return false
}

// controllersWereHampered reports whether the controllers could not work, then or shortly before.
// They or their way to the store were in trouble, they were refused something about the pod or its
// owner, or they had just started. A failed attempt is repeated after a pause no longer than all
// attempts before it took.
func (b blockedPod) controllersWereHampered() bool {
	for _, tr := range b.troubles {
		if tr.hampersControllers() && tr.mayOverlap(b.Began-int64(reconnectTime+tr.retryPause()), b.Ended) {
			return true
		}
	}
	return b.controllersWereRefused() || slices.ContainsFunc(b.bootStarts(controllers), func(first *history.Event) bool {
		return first.Began <= b.Ended && first.Began >= b.Began-int64(reconnectTime)
	})
}

// retryPause returns how long a controller may wait with its next attempt after the trouble.
func (tr *trouble) retryPause() time.Duration {
	longest := maxRetryPause
	switch {
	case tr.end == nil:
		return 0
	case tr.Kind == history.TroubleFault && tr.fault.Spec.Point == "":
		longest = usualRetryPause
	}
	return min(time.Duration(tr.until()-tr.since()), longest)
}

// hampersControllers reports whether the trouble keeps controllers from their work, or shows them a
// wrong time.
func (tr *trouble) hampersControllers() bool {
	switch tr.Kind {
	case history.TroubleClock:
		return true
	case history.TroubleFault:
		where := tr.fault.Spec.Where
		nodes := where.Node != "" || nodeOf(where.Client) != "" || nodeOf(where.Process) != ""
		return !nodes && tr.isFaultAt(fault.APIRequest, fault.WatchDeliver, "store.", fault.ClockSkew, fault.ProcessLimit)
	case history.TroubleDown, history.TroublePaused, history.TroubleCut:
	}
	return slices.ContainsFunc([]string{controllers, "apiserver", "bus"}, func(name string) bool {
		return tr.What == name || slices.Contains(tr.CutOff, name)
	})
}

// controllersWereRefused reports whether the controllers were refused something about the pod or
// its owner, for example by a webhook, so late that they may not have retried.
func (b blockedPod) controllersWereRefused() bool {
	keys := map[string]bool{b.name: true}
	for _, c := range b.podHistory.commits {
		if c.Owner == "" {
			continue
		}
		for _, version := range b.byUID[c.Owner] {
			keys[version.Key] = true
		}
	}
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		return o.Identity == controllers && keys[o.Key] && o.wasAnswered(b.Began-int64(maxRetryPause+reconnectTime), b.Ended, isRejection)
	})
}

// finalizerRemovalWasRefused reports whether a client other than the pod's node was refused a
// change of the pod.
func (b blockedPod) finalizerRemovalWasRefused() bool {
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		changes := o.Resource == podResource && o.Key == b.name && (o.Verb == "update" || o.Verb == "patch")
		return changes && o.node == "" && o.wasAnswered(math.MinInt64, b.Ended, isError)
	})
}

// apiserverFailed reports whether the API answered the pod's kubelet with a 5xx code, either
// recorded or possible because of a trouble.
func (b blockedPod) apiserverFailed() bool {
	return b.hadTrouble(func(*trouble) bool { return true }) || slices.ContainsFunc(b.operations, func(o *operation) bool {
		return o.node == b.nodeName() && o.wasAnswered(b.Began-int64(refusalMemory), b.Ended, func(code int32) bool { return code >= 500 })
	})
}
