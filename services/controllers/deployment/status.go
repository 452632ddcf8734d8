package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/controllers/workload"
)

// tellStatus puts the status together (syncRolloutStatus, syncDeploymentStatus).
func (s *step) tellStatus() {
	status := &s.Deployment.Status
	before := status.DeepCopy()
	s.count(status)
	short := status.AvailableReplicas < s.replicas()-s.unavailable()
	if short {
		s.set(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	} else {
		s.set(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	}
	if s.Deployment.DeletionTimestamp != nil || s.Deployment.Spec.Paused {
		return
	}
	s.progress(*before)
	s.unset(appsv1.DeploymentReplicaFailure)
	if failure := s.failure(); failure != nil {
		s.set(appsv1.DeploymentReplicaFailure, failure.Status, failure.Reason, failure.Message)
	}
	s.Again = s.deadline()
}

// count fills in the numbers (calculateStatus).
func (s *step) count(status *appsv1.DeploymentStatus) {
	all := s.all()
	status.ObservedGeneration = s.Deployment.Generation
	status.Replicas = sum(all, existing)
	status.UpdatedReplicas = 0
	if s.fresh != nil {
		status.UpdatedReplicas = existing(s.fresh)
	}
	status.ReadyReplicas = sum(all, func(set *appsv1.ReplicaSet) int32 { return set.Status.ReadyReplicas })
	status.AvailableReplicas = sum(all, available)
	status.UnavailableReplicas = max(sum(all, replicasOf)-status.AvailableReplicas, 0)
	status.TerminatingReplicas = new(int32(0))
	for _, set := range all {
		if set.Status.TerminatingReplicas == nil {
			status.TerminatingReplicas = nil
			break
		}
		*status.TerminatingReplicas += *set.Status.TerminatingReplicas
	}
}

// progress sets the condition Progressing: done, on its way, or too slow.
func (s *step) progress(before appsv1.DeploymentStatus) {
	status := &s.Deployment.Status
	if !s.limited() {
		s.unset(appsv1.DeploymentProgressing)
		return
	}
	known := s.progressing()
	if status.Replicas == status.UpdatedReplicas && known != nil && known.Reason == "NewReplicaSetAvailable" {
		return
	}
	what := fmt.Sprintf("Deployment %q", s.Deployment.Name)
	if s.fresh != nil {
		what = fmt.Sprintf("ReplicaSet %q", s.fresh.Name)
	}
	switch {
	case s.complete(*status):
		s.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", what+" has successfully progressed.")
	case progressed(before, *status):
		s.unset(appsv1.DeploymentProgressing)
		s.set(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", what+" is progressing.")
		if known != nil && known.Status == corev1.ConditionTrue {
			s.progressing().LastTransitionTime = known.LastTransitionTime
		}
	case s.timedOut():
		s.set(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", what+" has timed out progressing.")
	}
}

// complete reports whether the rollout is over (DeploymentComplete).
func (s *step) complete(status appsv1.DeploymentStatus) bool {
	return status.UpdatedReplicas == s.replicas() && status.Replicas == s.replicas() &&
		status.AvailableReplicas == s.replicas() && status.ObservedGeneration >= s.Deployment.Generation
}

// progressed reports whether the new status is nearer to the end than the old one
// (DeploymentProgressing).
func progressed(old, now appsv1.DeploymentStatus) bool {
	return now.UpdatedReplicas > old.UpdatedReplicas ||
		now.Replicas-now.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		now.ReadyReplicas > old.ReadyReplicas || now.AvailableReplicas > old.AvailableReplicas
}

// timedOut reports whether nothing has progressed for the deadline (DeploymentTimedOut).
func (s *step) timedOut() bool {
	known := s.progressing()
	switch {
	case known == nil, known.Reason == "NewReplicaSetAvailable":
		return false
	case known.Reason == "ProgressDeadlineExceeded":
		return true
	}
	return s.due(known).Before(s.now)
}

func (s *step) due(known *appsv1.DeploymentCondition) time.Time {
	return known.LastUpdateTime.Add(s.limit())
}

// limit is how long a rollout may make no progress.
func (s *step) limit() time.Duration {
	return time.Duration(*s.Deployment.Spec.ProgressDeadlineSeconds) * time.Second
}

// deadline is how long it takes until the rollout is too slow (requeueStuckDeployment).
func (s *step) deadline() time.Duration {
	known := s.progressing()
	if !s.limited() || known == nil || s.complete(s.Deployment.Status) || known.Reason == "ProgressDeadlineExceeded" {
		return 0
	}
	return workload.Remaining(known.LastUpdateTime.Time, s.limit(), s.now) + time.Second
}

// limited reports whether the rollout has a deadline.
func (s *step) limited() bool { return *s.Deployment.Spec.ProgressDeadlineSeconds != math.MaxInt32 }

// failure is what a set could not do, that of the template first.
func (s *step) failure() *appsv1.ReplicaSetCondition {
	sets := s.all()
	slices.Reverse(sets)
	for _, set := range sets {
		for i := range set.Status.Conditions {
			if condition := &set.Status.Conditions[i]; condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue {
				return condition
			}
		}
	}
	return nil
}

// pause says in the condition Progressing that the rollout is paused, or goes on: its time
// does not run while it is (checkPausedConditions).
func (s *step) pause() {
	if !s.limited() {
		return
	}
	known := s.progressing()
	if known != nil && known.Reason == "ProgressDeadlineExceeded" {
		return
	}
	said := known != nil && known.Reason == "DeploymentPaused"
	switch {
	case s.Deployment.Spec.Paused && !said:
		s.set(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
	case !s.Deployment.Spec.Paused && said:
		s.set(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
}

func (s *step) progressing() *appsv1.DeploymentCondition {
	for i := range s.Deployment.Status.Conditions {
		if s.Deployment.Status.Conditions[i].Type == appsv1.DeploymentProgressing {
			return &s.Deployment.Status.Conditions[i]
		}
	}
	return nil
}

// set sets a condition, unless it has that status and reason already
// (SetDeploymentCondition).
func (s *step) set(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
	stamp := workload.Stamp(s.now)
	made := appsv1.DeploymentCondition{
		Type: kind, Status: status, LastUpdateTime: stamp, LastTransitionTime: stamp, Reason: reason, Message: message,
	}
	for _, known := range s.Deployment.Status.Conditions {
		if known.Type != kind {
			continue
		}
		if known.Status == status && known.Reason == reason {
			return
		}
		if known.Status == status {
			made.LastTransitionTime = known.LastTransitionTime
		}
	}
	s.unset(kind)
	s.Deployment.Status.Conditions = append(s.Deployment.Status.Conditions, made)
}

func (s *step) unset(kind appsv1.DeploymentConditionType) {
	s.Deployment.Status.Conditions = slices.DeleteFunc(slices.Clone(s.Deployment.Status.Conditions), func(known appsv1.DeploymentCondition) bool { return known.Type == kind })
}
