// Package statefulset keeps pods with stable names, at most one of each name (CTL-32). decide.go
// decides one sync, identity.go sets a pod's name and labels, and claims.go plans volumes; all
// three are pure. controller.go watches, claims pods, keeps revisions, and writes.
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

// View is the input of a decision about one StatefulSet.
type View struct {
	Set  *appsv1.StatefulSet
	Pods []*corev1.Pod
	// Claims are the namespace's claims, by name.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Current is the revision that the set rolls from, Update the revision that it rolls to.
	Current, Update Revision
	Collisions      *int32
}

// Revision is a pod template with its name.
type Revision struct {
	Name     string
	Template *corev1.PodTemplateSpec
}

// Plan is what one sync does, in this order: claims, pods, status.
type Plan struct {
	// CreateClaims are missing claims. UpdateClaims are claims with changed owners.
	CreateClaims, UpdateClaims []*corev1.PersistentVolumeClaim
	// Create, Repair and Delete are pods. Repair has the repaired versions.
	Create, Repair, Delete []*corev1.Pod
	Status                 appsv1.StatefulSetStatus
	Events                 []Event
	// RequeueAfter is when to sync again; 0 means when something changes.
	RequeueAfter time.Duration
}

// Event is one event about the set.
type Event struct{ Type, Reason, Message string }

// planning is a plan that is being made.
type planning struct {
	View
	Plan
	now time.Time
	// slots are the pods of the wanted ordinals, nil if one is missing. condemned are the others,
	// the highest ordinal first.
	slots, condemned []*corev1.Pod
}

// Decide plans one sync at now (updateStatefulSet).
func Decide(v View, now time.Time) Plan {
	r := &planning{View: v, now: now}
	r.sortPods()
	r.initStatus()
	if r.Set.DeletionTimestamp == nil {
		if !r.planSlots() && !r.deleteCondemned() && r.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
			r.rollUpdate()
		}
	}
	r.completeUpdate()
	return r.Plan
}

// sortPods puts the pods into their slots.
func (r *planning) sortPods() {
	r.slots = make([]*corev1.Pod, Replicas(r.Set))
	for _, pod := range r.Pods {
		ordinal := Ordinal(pod, r.Set)
		switch slot := ordinal - firstOrdinal(r.Set); {
		case ordinal < 0:
		case slot >= 0 && slot < len(r.slots):
			r.slots[slot] = pod
		default:
			r.condemned = append(r.condemned, pod)
		}
	}
	slices.SortFunc(r.condemned, func(a, b *corev1.Pod) int { return Ordinal(b, r.Set) - Ordinal(a, r.Set) })
}

// initStatus counts the pods for the status (updateStatus).
func (r *planning) initStatus() {
	r.Status = *r.Set.Status.DeepCopy()
	s := &r.Status
	s.ObservedGeneration, s.CollisionCount = r.Set.Generation, r.Collisions
	s.CurrentRevision, s.UpdateRevision = r.Current.Name, r.Update.Name
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.CurrentReplicas, s.UpdatedReplicas = 0, 0, 0, 0, 0
	for _, pod := range r.Pods {
		s.Replicas++
		if isRunning(pod) && workload.IsReady(pod) {
			s.ReadyReplicas++
			if r.isAvailable(pod) {
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

// completeUpdate ends an update when all pods are new and ready. The new revision becomes the
// current one, whatever the strategy (completeUpdate).
func (r *planning) completeUpdate() {
	s, n := &r.Status, int32(len(r.slots))
	if s.UpdatedReplicas == n && s.ReadyReplicas == n && s.Replicas == n {
		s.CurrentReplicas = s.UpdatedReplicas
		s.CurrentRevision = s.UpdateRevision
	}
	r.RequeueAfter = shorterDelay(r.RequeueAfter, workload.NextAvailable(r.Pods, r.Set.Spec.MinReadySeconds, r.now))
}

// isOrdered reports whether each pod waits for those before it.
func (r *planning) isOrdered() bool {
	return r.Set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

// planSlots creates missing pods and repairs existing ones, in order. It reports whether the sync
// ends here.
func (r *planning) planSlots() bool {
	ends := false
	for i := range r.slots {
		if r.planSlot(i) {
			ends = true
			if r.isOrdered() {
				return true
			}
		}
	}
	for _, pod := range r.condemned {
		r.planClaimOwners(pod, leaving)
	}
	return ends && r.isOrdered()
}

// planSlot plans one slot. It reports whether later slots wait.
func (r *planning) planSlot(i int) bool {
	pod := r.slots[i]
	switch {
	case pod == nil:
		made := r.newPod(firstOrdinal(r.Set) + i)
		if r.hasStaleClaim(made) {
			r.RequeueAfter = shorterDelay(r.RequeueAfter, time.Second)
			return true
		}
		r.planMissingClaims(made)
		r.Create = append(r.Create, made)
		return true
	case workload.IsFinished(pod):
		r.replaceFinished(pod)
		return true
	case pod.Status.Phase == corev1.PodPending:
		r.planMissingClaims(pod)
	}
	if pod.DeletionTimestamp != nil || !isRunning(pod) || !r.isAvailable(pod) {
		if r.isOrdered() {
			return true
		}
	}
	r.repair(pod)
	return false
}

// replaceFinished deletes a terminal pod. The next sync creates its successor when the name is
// free.
func (r *planning) replaceFinished(pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil {
		return
	}
	about := r.Set.Namespace + "/" + r.Set.Name
	if pod.Status.Phase == corev1.PodFailed {
		r.Events = append(r.Events, Event{corev1.EventTypeWarning, "RecreatingFailedPod", fmt.Sprintf("StatefulSet %s is recreating failed Pod %s", about, pod.Name)})
	} else {
		r.Events = append(r.Events, Event{corev1.EventTypeNormal, "RecreatingTerminatedPod", fmt.Sprintf("StatefulSet %s is recreating terminated Pod %s", about, pod.Name)})
	}
	r.Delete = append(r.Delete, pod)
}

// repair restores a pod's identity and volumes, and the owners of its claims.
func (r *planning) repair(pod *corev1.Pod) {
	if !r.hasIdentity(pod) {
		fixed := pod.DeepCopy()
		r.setIdentity(fixed, Ordinal(pod, r.Set))
		r.planMissingClaims(fixed)
		r.Repair = append(r.Repair, fixed)
	}
	r.planClaimOwners(pod, staying)
}

// deleteCondemned deletes surplus pods, one after the other if the set is ordered. It reports
// whether the sync ends here.
func (r *planning) deleteCondemned() bool {
	sick := r.firstUnavailable()
	for _, pod := range r.condemned {
		switch {
		case pod.DeletionTimestamp != nil:
			if r.isOrdered() {
				return true
			}
			continue
		case r.isOrdered() && pod != sick && (!isRunning(pod) || !r.isAvailable(pod)):
			return true
		}
		r.Delete = append(r.Delete, pod)
		if r.isOrdered() {
			return true
		}
	}
	return false
}

// firstUnavailable is the unavailable pod with the lowest ordinal.
func (r *planning) firstUnavailable() *corev1.Pod {
	var first *corev1.Pod
	for _, pod := range slices.Concat(r.slots, r.condemned) {
		if pod != nil && r.isUnavailable(pod) && (first == nil || Ordinal(pod, r.Set) < Ordinal(first, r.Set)) {
			first = pod
		}
	}
	return first
}

// rollUpdate deletes pods of old revisions, the highest ordinal first, down to the partition
// (updateStatefulSetAfterInvariantEstablished).
func (r *planning) rollUpdate() {
	least, budget := r.updateLimits()
	for _, pod := range r.slots {
		if pod == nil || r.isUnavailable(pod) {
			budget--
		}
	}
	var sick, well []*corev1.Pod
	for i := len(r.slots) - 1; i >= least; i-- {
		pod := r.slots[i]
		switch {
		case pod == nil, pod.DeletionTimestamp != nil, revisionOf(pod) == r.Update.Name:
		case r.isOrdered() || r.isAvailable(pod):
			well = append(well, pod)
		default:
			sick = append(sick, pod)
		}
	}
	// Pods of a parallel set that are unavailable anyway go first, and spend no budget.
	r.deleteOutdated(sick)
	r.deleteOutdated(well[:min(max(budget, 0), len(well))])
}

// deleteOutdated deletes pods of an old revision.
func (r *planning) deleteOutdated(pods []*corev1.Pod) {
	r.Delete = append(r.Delete, pods...)
	r.Status.CurrentReplicas -= int32(len(pods))
}

// updateLimits returns the lowest slot of a rolling update, and how many pods may be unavailable. A
// percentage is rounded down, to 1 at least (getStatefulSetMaxUnavailable).
func (r *planning) updateLimits() (least, unavailable int) {
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

// isUnavailable reports whether a pod has not been ready for long enough, or is terminating
// (isUnavailable).
func (r *planning) isUnavailable(pod *corev1.Pod) bool {
	return !r.isAvailable(pod) || pod.DeletionTimestamp != nil
}

func (r *planning) isAvailable(pod *corev1.Pod) bool {
	return workload.IsAvailable(pod, r.Set.Spec.MinReadySeconds, r.now)
}

func isRunning(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning }

// Replicas is how many pods the set wants; 1 by default.
func Replicas(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// shorterDelay returns the shorter delay; 0 means none.
func shorterDelay(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
