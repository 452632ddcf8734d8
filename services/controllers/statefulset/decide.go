// Package statefulset keeps pods that have names of their own, one of each at most (CTL-32).
// decide.go says what one round does; identity.go is what makes a pod web-0, claims.go is its
// volumes, and both are as pure as it is; controller.go watches, claims, keeps revisions, asks
// and acts.
package statefulset

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/services/controllers/workload"
)

// View is what is known of one StatefulSet.
type View struct {
	Set  *appsv1.StatefulSet
	Pods []*corev1.Pod
	// Claims are the namespace's, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Current is the revision that the set rolls from, Update the one that it rolls to.
	Current, Update Revision
	Collisions      *int32
}

// Revision is a template by its name.
type Revision struct {
	Name     string
	Template *corev1.PodTemplateSpec
}

// Plan is what one round does, in this order: claims, pods, status.
type Plan struct {
	// Make and Own are claims that are missing, and those that are to have other owners.
	Make, Own []*corev1.PersistentVolumeClaim
	// Create, Repair and Delete are pods; Repair has them as they are to be.
	Create, Repair, Delete []*corev1.Pod
	Status                 appsv1.StatefulSetStatus
	Tell                   []Event
	// Again is how long to wait before the next look; 0 is until something changes.
	Again time.Duration
}

// Event is one event about the set.
type Event struct{ Type, Reason, Message string }

// round is a plan in the making.
type round struct {
	View
	Plan
	now time.Time
	// slots are the pods of the ordinals that there should be, nil where one is missing;
	// condemned are the others, the highest ordinal first.
	slots, condemned []*corev1.Pod
}

// Decide says what the round at now does (updateStatefulSet).
func Decide(v View, now time.Time) Plan {
	r := &round{View: v, now: now}
	r.arrange()
	r.count()
	if r.Set.DeletionTimestamp == nil {
		if !r.fill() && !r.shrink() && r.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			r.roll()
		}
	}
	r.complete()
	return r.Plan
}

// arrange puts the pods into their slots.
func (r *round) arrange() {
	r.slots = make([]*corev1.Pod, Replicas(r.Set))
	for _, pod := range r.Pods {
		ordinal := Ordinal(pod, r.Set)
		switch slot := ordinal - start(r.Set); {
		case ordinal < 0:
		case slot >= 0 && slot < len(r.slots):
			r.slots[slot] = pod
		default:
			r.condemned = append(r.condemned, pod)
		}
	}
	slices.SortFunc(r.condemned, func(a, b *corev1.Pod) int { return Ordinal(b, r.Set) - Ordinal(a, r.Set) })
}

// count begins the status (updateStatus).
func (r *round) count() {
	r.Status = *r.Set.Status.DeepCopy()
	s := &r.Status
	s.ObservedGeneration, s.CollisionCount = r.Set.Generation, r.Collisions
	s.CurrentRevision, s.UpdateRevision = r.Current.Name, r.Update.Name
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas = 0, 0, 0, 0, 0
	for _, pod := range r.Pods {
		s.Replicas++
		if running(pod) && workload.IsReady(pod) {
			s.ReadyReplicas++
			if r.available(pod) {
				s.AvailableReplicas++
			}
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		if revisionOf(pod) == r.Current.Name {
			s.CurrentReplicas++
		}
		if revisionOf(pod) == r.Update.Name {
			s.UpdatedReplicas++
		}
	}
}

// complete ends an update whose pods are all new and ready: from now on the new revision is the current
// one, whatever the strategy (completeUpdate).
func (r *round) complete() {
	s, n := &r.Status, int32(len(r.slots))
	if s.UpdatedReplicas == n && s.ReadyReplicas == n && s.Replicas == n {
		s.CurrentReplicas = s.UpdatedReplicas
		s.CurrentRevision = s.UpdateRevision
	}
	r.Again = shorter(r.Again, workload.NextAvailable(r.Pods, r.Set.Spec.MinReadySeconds, r.now))
}

// ordered reports whether a pod waits for those before it.
func (r *round) ordered() bool { return r.Set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement }

// fill makes the pods that are missing and mends those that are there, in their order; it
// reports whether the round ends here.
func (r *round) fill() bool {
	ends := false
	for i := range r.slots {
		if r.slot(i) {
			ends = true
			if r.ordered() {
				return true
			}
		}
	}
	for _, pod := range r.condemned {
		r.own(pod, leaving)
	}
	return ends && r.ordered()
}

// slot is what becomes of one slot; it reports whether those after it wait.
func (r *round) slot(i int) bool {
	pod := r.slots[i]
	switch {
	case pod == nil:
		made := r.pod(start(r.Set) + i)
		if r.staleClaims(made) {
			r.Again = shorter(r.Again, time.Second)
			return true
		}
		r.claims(made)
		r.Create = append(r.Create, made)
		return true
	case workload.IsFinished(pod):
		r.replace(pod)
		return true
	case pod.Status.Phase == corev1.PodPending:
		r.claims(pod)
	}
	if pod.DeletionTimestamp != nil || !running(pod) || !r.available(pod) {
		if r.ordered() {
			return true
		}
	}
	r.mend(pod)
	return false
}

// replace deletes a pod that has ended; the next one comes when its name is free.
func (r *round) replace(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	about := r.Set.Namespace + "/" + r.Set.Name
	if pod.Status.Phase == corev1.PodFailed {
		r.Tell = append(r.Tell, Event{corev1.EventTypeWarning, "RecreatingFailedPod", fmt.Sprintf("StatefulSet %s is recreating failed Pod %s", about, pod.Name)})
	} else {
		r.Tell = append(r.Tell, Event{corev1.EventTypeNormal, "RecreatingTerminatedPod", fmt.Sprintf("StatefulSet %s is recreating terminated Pod %s", about, pod.Name)})
	}
	r.Delete = append(r.Delete, pod)
}

// mend gives a pod its identity and its volumes back, and its claims their owners.
func (r *round) mend(pod *corev1.Pod) {
	if !r.fits(pod) {
		fixed := pod.DeepCopy()
		r.identify(fixed, Ordinal(pod, r.Set))
		r.claims(fixed)
		r.Repair = append(r.Repair, fixed)
	}
	r.own(pod, staying)
}

// shrink deletes pods that are too many, one after the other if the set is ordered; it
// reports whether the round ends here.
func (r *round) shrink() bool {
	sick := r.firstSick()
	for _, pod := range r.condemned {
		switch {
		case pod.DeletionTimestamp != nil:
			if r.ordered() {
				return true
			}
			continue
		case r.ordered() && pod != sick && (!running(pod) || !r.available(pod)):
			return true
		}
		r.Delete = append(r.Delete, pod)
		if r.ordered() {
			return true
		}
	}
	return false
}

// firstSick is the pod of the lowest ordinal that is unavailable.
func (r *round) firstSick() *corev1.Pod {
	var first *corev1.Pod
	for _, pod := range slices.Concat(r.slots, r.condemned) {
		if pod != nil && r.unavailable(pod) && (first == nil || Ordinal(pod, r.Set) < Ordinal(first, r.Set)) {
			first = pod
		}
	}
	return first
}

// roll deletes pods of another revision than the one to roll to, the highest ordinal first, down to the
// partition (updateStatefulSetAfterInvariantEstablished).
func (r *round) roll() {
	least, budget := r.limits()
	for _, pod := range r.slots {
		if pod == nil || r.unavailable(pod) {
			budget--
		}
	}
	var sick, well []*corev1.Pod
	for i := len(r.slots) - 1; i >= least; i-- {
		pod := r.slots[i]
		switch {
		case pod == nil, pod.DeletionTimestamp != nil, revisionOf(pod) == r.Update.Name:
		case r.ordered() || r.available(pod):
			well = append(well, pod)
		default:
			sick = append(sick, pod)
		}
	}
	// Pods of a parallel set that are unavailable anyway go first, and spend no budget.
	r.retire(sick)
	r.retire(well[:min(max(budget, 0), len(well))])
}

// retire deletes pods of an old revision.
func (r *round) retire(pods []*corev1.Pod) {
	r.Delete = append(r.Delete, pods...)
	r.Status.CurrentReplicas -= int32(len(pods))
}

// limits returns the lowest slot of a rolling update, and how many pods may be unavailable. A percentage
// is rounded down, to 1 at least (getStatefulSetMaxUnavailable).
func (r *round) limits() (least, unavailable int) {
	unavailable = 1
	rolling := r.Set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return 0, unavailable
	}
	if rolling.Partition != nil {
		least = max(int(*rolling.Partition), 0)
	}
	if rolling.MaxUnavailable != nil {
		if n, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, len(r.slots), false); err == nil {
			unavailable = max(n, 1)
		}
	}
	return least, unavailable
}

// unavailable reports whether a pod is not ready for long enough, or is being deleted (isUnavailable).
func (r *round) unavailable(pod *corev1.Pod) bool {
	return !r.available(pod) || pod.DeletionTimestamp != nil
}

func (r *round) available(pod *corev1.Pod) bool {
	return workload.IsAvailable(pod, r.Set.Spec.MinReadySeconds, r.now)
}

func running(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// Replicas is how many pods are asked for; 1 when nothing is said.
func Replicas(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// shorter is the shorter of two waits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
