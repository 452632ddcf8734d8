// Package deployment rolls a Deployment's template out through ReplicaSets. decide.go says
// what the next step is: which ReplicaSet to make, which to scale, what the status says;
// rollout.go, scale.go, revision.go and status.go are its parts and as pure as it is; watch.go
// says whom a change of something else is about; controller.go watches, claims, asks them, and
// acts.
package deployment

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
)

// View is the state of one Deployment.
type View struct {
	Deployment *appsv1.Deployment
	// Stored is the Deployment before the changes of this sync that are not stored yet; nil if
	// there are none.
	Stored *appsv1.Deployment
	// Sets are the ReplicaSets of the Deployment.
	Sets []*appsv1.ReplicaSet
	// Pods are the pods of the sets, by the set's UID.
	Pods map[types.UID][]*corev1.Pod
}

// Plan is the next step. A ReplicaSet that it creates belongs into the view before the step after
// it.
type Plan struct {
	// Create is the ReplicaSet of the current template. A step that creates does nothing else.
	Create *appsv1.ReplicaSet
	// Scale are the sets to be updated. Delete are the sets beyond the history limit.
	Scale  []Scaling
	Delete []*appsv1.ReplicaSet
	// RolledBack is the Deployment with the spec of an earlier revision; nil if there is no
	// rollback.
	RolledBack *appsv1.Deployment
	// Store is the Deployment with a new status or new annotations; nil if both are unchanged.
	Store  *appsv1.Deployment
	Events []Event
	// RequeueAfter is when to sync again; 0 means when something changes.
	RequeueAfter time.Duration
}

// Scaling is one update of a ReplicaSet.
type Scaling struct {
	Set *appsv1.ReplicaSet
	// Event is the message to emit once the update is stored; empty if only annotations change.
	Event string
}

// Event is one event about the Deployment.
type Event struct{ Type, Reason, Message string }

// planning is a plan that is being made. The Deployment is a copy that gets the new status.
type planning struct {
	View
	Plan
	before  *appsv1.Deployment
	now     time.Time
	newSet  *appsv1.ReplicaSet   // the set of the current template; nil if there is none
	oldSets []*appsv1.ReplicaSet // all other sets
}

// Decide returns the next step at now (syncDeployment).
func Decide(v View, now time.Time) Plan {
	s := &planning{View: v, before: v.Deployment, now: now}
	if v.Stored != nil {
		s.before = v.Stored
	}
	s.Deployment = v.Deployment.DeepCopy()
	s.setDefaults()
	s.sortSets()
	if all := (metav1.LabelSelector{}); kinds.Equal(s.Deployment.Spec.Selector, &all) {
		s.Events = append(s.Events, Event{corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required."})
		s.Deployment.Status.ObservedGeneration = s.Deployment.Generation
		return s.finish()
	}
	if s.Deployment.DeletionTimestamp != nil {
		s.updateStatus()
		return s.finish()
	}
	s.updatePaused()
	switch {
	case s.Deployment.Annotations[appsv1.DeprecatedRollbackTo] != "" && !s.Deployment.Spec.Paused:
		s.rollBack()
		return s.Plan
	case s.Deployment.Spec.Paused, s.isScalingEvent():
		s.syncRevision()
		s.scale()
		if s.Deployment.Spec.Paused {
			s.cleanUp()
		}
		s.updateStatus()
	case s.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		s.recreate()
	default:
		s.rollingUpdate()
	}
	return s.finish()
}

// setDefaults sets what upstream's defaulting sets, for an object that was stored without it.
func (s *planning) setDefaults() {
	spec := &s.Deployment.Spec
	if spec.Replicas == nil {
		spec.Replicas = new(int32(1))
	}
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(10))
	}
	if spec.ProgressDeadlineSeconds == nil {
		spec.ProgressDeadlineSeconds = new(int32(600))
	}
	if spec.Strategy.Type == "" {
		spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
}

// finish returns the plan, with the Deployment in it if that has changed.
func (s *planning) finish() Plan {
	if s.Create == nil && (!kinds.Equal(s.before.Status, s.Deployment.Status) ||
		!kinds.Equal(s.before.Annotations, s.Deployment.Annotations)) {
		s.Store = s.Deployment
	}
	return s.Plan
}

// replicas returns how many pods the Deployment wants.
func (s *planning) replicas() int32 { return *s.Deployment.Spec.Replicas }

// replicasOf returns how many pods a set wants; 0 for no set.
func replicasOf(set *appsv1.ReplicaSet) int32 {
	switch {
	case set == nil:
		return 0
	case set.Spec.Replicas == nil:
		return 1
	}
	return *set.Spec.Replicas
}

// allSets returns every set, the one of the current template last.
func (s *planning) allSets() []*appsv1.ReplicaSet {
	all := append([]*appsv1.ReplicaSet{}, s.oldSets...)
	if s.newSet != nil {
		all = append(all, s.newSet)
	}
	return all
}

// activeSets returns the sets that want pods.
func activeSets(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var found []*appsv1.ReplicaSet
	for _, set := range sets {
		if replicasOf(set) > 0 {
			found = append(found, set)
		}
	}
	return found
}

// sum adds up a count over sets.
func sum(sets []*appsv1.ReplicaSet, count func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, set := range sets {
		total += count(set)
	}
	return total
}

func available(set *appsv1.ReplicaSet) int32 { return set.Status.AvailableReplicas }
func existing(set *appsv1.ReplicaSet) int32  { return set.Status.Replicas }
