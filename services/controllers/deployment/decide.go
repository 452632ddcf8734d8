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

// View is what is known of one Deployment.
type View struct {
	Deployment *appsv1.Deployment
	// Stored is the Deployment before changes of this look that are not stored yet; nil
	// when there are none.
	Stored *appsv1.Deployment
	// Sets are its ReplicaSets.
	Sets []*appsv1.ReplicaSet
	// Pods are their pods, by the set's UID.
	Pods map[types.UID][]*corev1.Pod
}

// Plan is the next step. What it creates belongs into the view before the step after it.
type Plan struct {
	// Create is the ReplicaSet of the template; nothing else is done in this step.
	Create *appsv1.ReplicaSet
	// Scale are sets as they are to be, Delete those that history does not need.
	Scale  []Scaling
	Delete []*appsv1.ReplicaSet
	// Rewrite is the Deployment with another spec: it was rolled back.
	Rewrite *appsv1.Deployment
	// Store is the Deployment with another status, or other annotations; nil when both
	// are as they were.
	Store *appsv1.Deployment
	// Tell are events.
	Tell []Event
	// Again is how long to wait before the next look; 0 is until something changes.
	Again time.Duration
}

// Scaling is one change of a ReplicaSet.
type Scaling struct {
	Set *appsv1.ReplicaSet
	// Event is told when the change is stored; empty for a change of annotations only.
	Event string
}

// Event is one event about the Deployment.
type Event struct{ Type, Reason, Message string }

// step is a plan in the making: the Deployment is a copy, on which the new status grows.
type step struct {
	View
	Plan
	before *appsv1.Deployment
	now    time.Time
	fresh  *appsv1.ReplicaSet   // of the template as it is; nil when there is none
	old    []*appsv1.ReplicaSet // all others
}

// Decide says what the next step is at now (syncDeployment).
func Decide(v View, now time.Time) Plan {
	s := &step{View: v, before: v.Deployment, now: now}
	if v.Stored != nil {
		s.before = v.Stored
	}
	s.Deployment = v.Deployment.DeepCopy()
	s.defaults()
	s.sort()
	if all := (metav1.LabelSelector{}); kinds.Equal(s.Deployment.Spec.Selector, &all) {
		s.Tell = append(s.Tell, Event{corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required."})
		s.Deployment.Status.ObservedGeneration = s.Deployment.Generation
		return s.finish()
	}
	if s.Deployment.DeletionTimestamp != nil {
		s.tellStatus()
		return s.finish()
	}
	s.pause()
	switch {
	case s.Deployment.Annotations[appsv1.DeprecatedRollbackTo] != "" && !s.Deployment.Spec.Paused:
		s.rollBack()
		return s.Plan
	case s.Deployment.Spec.Paused, s.scaled():
		s.recount()
		s.scale()
		if s.Deployment.Spec.Paused {
			s.cleanUp()
		}
		s.tellStatus()
	case s.Deployment.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		s.recreate()
	default:
		s.roll()
	}
	return s.finish()
}

// defaults fills in what upstream's defaulting does, for an object that was stored
// without.
func (s *step) defaults() {
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

// finish is the plan, with the Deployment in it if it has become another.
func (s *step) finish() Plan {
	if s.Create == nil && (!kinds.Equal(s.before.Status, s.Deployment.Status) ||
		!kinds.Equal(s.before.Annotations, s.Deployment.Annotations)) {
		s.Store = s.Deployment
	}
	return s.Plan
}

// replicas is how many pods the Deployment asks for.
func (s *step) replicas() int32 { return *s.Deployment.Spec.Replicas }

// replicasOf is how many pods a set asks for; none for no set.
func replicasOf(set *appsv1.ReplicaSet) int32 {
	switch {
	case set == nil:
		return 0
	case set.Spec.Replicas == nil:
		return 1
	}
	return *set.Spec.Replicas
}

// all is every set, the one of the template last.
func (s *step) all() []*appsv1.ReplicaSet {
	all := append([]*appsv1.ReplicaSet{}, s.old...)
	if s.fresh != nil {
		all = append(all, s.fresh)
	}
	return all
}

// active are the sets that ask for pods.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var found []*appsv1.ReplicaSet
	for _, set := range sets {
		if replicasOf(set) > 0 {
			found = append(found, set)
		}
	}
	return found
}

// sum adds up what count says of each set.
func sum(sets []*appsv1.ReplicaSet, count func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, set := range sets {
		total += count(set)
	}
	return total
}

func available(set *appsv1.ReplicaSet) int32 { return set.Status.AvailableReplicas }
func existing(set *appsv1.ReplicaSet) int32  { return set.Status.Replicas }
