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

// The longest pauses of a controller between two tries: after failures only, and after some of
// which nothing is known, such as messages that are lost now and then.
const (
	slowest = 1000 * time.Second
	usual   = 5 * time.Minute
)

// observed is how long ago what is said may have been seen: one asks for several things, and waits for
// processes that do not answer.
const observed = 10 * time.Second

// holds reports whether a version of the pod that what is said may be about is such a one.
func (b blocked) holds(is func(*commit) bool) bool {
	return slices.ContainsFunc(b.seen(b.pod.commits), is)
}

// seen are the versions of an object that are there when something is said, or were a moment before.
func (b blocked) seen(versions []*commit) (there []*commit) {
	for i, c := range versions {
		over := i+1 < len(versions) && versions[i+1].Ended < b.Began-int64(observed)
		if c.Op != deleted && c.Began <= b.Ended && !over {
			there = append(there, c)
		}
	}
	return there
}

// collected reports whether the garbage collector has to let go of an object.
func collected(c *commit) bool {
	return slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) || slices.Contains(c.Finalizers, metav1.FinalizerOrphanDependents)
}

// tracked reports whether a Job has to count a pod.
func tracked(c *commit) bool { return slices.Contains(c.Finalizers, batchv1.JobTrackingFinalizer) }

// strange reports whether somebody else has to let go of a pod: also who counts it for a Job that
// the job controller leaves alone, for all that a history tells.
func (b blocked) strange(c *commit) bool {
	own := []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, batchv1.JobTrackingFinalizer}
	if slices.ContainsFunc(c.Finalizers, func(name string) bool { return !slices.Contains(own, name) }) {
		return true
	}
	its := b.jobOf(c)
	return tracked(c) && its != nil && !b.manages(its)
}

// kept reports whether a Job that stays has to count a pod that has not succeeded.
func (b blocked) kept(c *commit) bool {
	its := b.jobOf(c)
	return its != nil && tracked(c) && c.Phase != "Succeeded"
}

// jobOf is the version of a pod's Job that is there when something is said, or was there a moment
// before, and is not being deleted; nil for none.
func (b blocked) jobOf(pod *commit) *commit {
	versions := b.seen(b.byUID[pod.Owner])
	at := slices.IndexFunc(versions, func(c *commit) bool { return c.Resource == jobResource && c.Deadline == nil })
	if at < 0 {
		return nil
	}
	return versions[at]
}

// manages reports whether the job controller has decided something about a Job.
func (b blocked) manages(its *commit) bool {
	made := b.byUID[its.UID][0]
	for e, fact := range factsOf[history.Decide](b.past) {
		if fact.Controller == jobController && fact.Resource == jobResource && fact.Key == its.Key && e.Ended >= made.Began && e.Ended <= b.Began {
			return true
		}
	}
	return false
}

// hampered reports whether the controllers could not do their work, or not long before: they, or
// what is on their way to the store, were broken, or they were refused something about the pod or
// its owner, or they had just begun. What has failed is tried again after a pause that is no longer
// than all tries before it took.
func (b blocked) hampered() bool {
	for _, o := range b.troubles {
		if o.hampers() && o.touches(b.Began-int64(settling+o.pause()), b.Ended) {
			return true
		}
	}
	return b.refusedControllers() || slices.ContainsFunc(b.starts(controllers), func(first *history.Event) bool {
		return first.Began <= b.Ended && first.Began >= b.Began-int64(settling)
	})
}

// pause is how long a controller may wait with its next try when a trouble is over.
func (o *ordeal) pause() time.Duration {
	longest := slowest
	switch {
	case o.end == nil:
		return 0
	case o.Kind == history.TroubleFault && o.fault.Spec.Point == "":
		longest = usual
	}
	return min(time.Duration(o.until()-o.since()), longest)
}

// hampers reports whether it keeps controllers from their work, or has them look at a wrong time.
func (o *ordeal) hampers() bool {
	switch o.Kind {
	case history.TroubleClock:
		return true
	case history.TroubleFault:
		where := o.fault.Spec.Where
		nodes := where.Node != "" || nodeOf(where.Client) != "" || nodeOf(where.Process) != ""
		return !nodes && o.at(fault.APIRequest, fault.WatchDeliver, "store.", fault.ClockSkew, fault.ProcessLimit)
	case history.TroubleDown, history.TroublePaused, history.TroubleCut:
	}
	return slices.ContainsFunc([]string{controllers, "apiserver", "bus"}, func(name string) bool {
		return o.What == name || slices.Contains(o.Off, name)
	})
}

// refusedControllers reports whether the controllers were refused something about the pod or its
// owner, such as by a webhook, so late that they may not have tried again.
func (b blocked) refusedControllers() bool {
	about := map[string]bool{b.name: true}
	for _, c := range b.pod.commits {
		if c.Owner == "" {
			continue
		}
		for _, its := range b.byUID[c.Owner] {
			about[its.Key] = true
		}
	}
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		return o.Who == controllers && about[o.Key] && o.answered(b.Began-int64(slowest+settling), b.Ended, turndown)
	})
}

// keepsItsFinalizers reports whether somebody was refused a change of the pod, but its node.
func (b blocked) keepsItsFinalizers() bool {
	return slices.ContainsFunc(b.operations, func(o *operation) bool {
		changes := o.Resource == podResource && o.Key == b.name && (o.Verb == "update" || o.Verb == "patch")
		return changes && o.node == "" && o.answered(math.MinInt64, b.Ended, refusal)
	})
}

// failed reports whether the API answered the pod's kubelet with an error of its own: one that
// was written down, or one that something broken may be the reason of.
func (b blocked) failed() bool {
	return b.near(func(*ordeal) bool { return true }) || slices.ContainsFunc(b.operations, func(o *operation) bool {
		return o.node == b.node() && o.answered(b.Began-int64(remembered), b.Ended, func(code int32) bool { return code >= 500 })
	})
}
