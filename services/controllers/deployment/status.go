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

// updateStatus computes the status (syncRolloutStatus, syncDeploymentStatus).
func (s *planning) updateStatus() {
	status := &s.Deployment.Status
	before := status.DeepCopy()
	s.setCounts(status)
	short := status.AvailableReplicas < s.replicas()-s.maxUnavailable()
	if short {
		s.setCondition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	} else {
		s.setCondition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	}
	if s.Deployment.DeletionTimestamp != nil || s.Deployment.Spec.Paused {
		return
	}
	s.updateProgressing(*before)
	s.removeCondition(appsv1.DeploymentReplicaFailure)
	if failure := s.replicaFailure(); failure != nil {
		s.setCondition(appsv1.DeploymentReplicaFailure, failure.Status, failure.Reason, failure.Message)
	}
	s.RequeueAfter = s.untilTimeout()
}

// setCounts sets the numbers (calculateStatus).
func (s *planning) setCounts(status *appsv1.DeploymentStatus) {
	all := s.allSets()
	status.ObservedGeneration = s.Deployment.Generation
	status.Replicas = sum(all, existing)
	status.UpdatedReplicas = 0
	if s.newSet != nil {
		status.UpdatedReplicas = existing(s.newSet)
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

// updateProgressing sets the condition Progressing: complete, progressing, or timed out.
func (s *planning) updateProgressing(before appsv1.DeploymentStatus) {
	status := &s.Deployment.Status
	if !s.hasTimeout() {
		s.removeCondition(appsv1.DeploymentProgressing)
		return
	}
	known := s.progressingCondition()
	if status.Replicas == status.UpdatedReplicas && known != nil && known.Reason == "NewReplicaSetAvailable" {
		return
	}
	what := fmt.Sprintf("Deployment %q", s.Deployment.Name)
	if s.newSet != nil {
		what = fmt.Sprintf("ReplicaSet %q", s.newSet.Name)
	}
	switch {
	case s.isComplete(*status):
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", what+" has successfully progressed.")
	case hasProgressed(before, *status):
		s.removeCondition(appsv1.DeploymentProgressing)
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", what+" is progressing.")
		if known != nil && known.Status == corev1.ConditionTrue {
			s.progressingCondition().LastTransitionTime = known.LastTransitionTime
		}
	case s.timedOut():
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", what+" has timed out progressing.")
	}
}

// isComplete reports whether the rollout is complete (DeploymentComplete).
func (s *planning) isComplete(status appsv1.DeploymentStatus) bool {
	return status.UpdatedReplicas == s.replicas() && status.Replicas == s.replicas() &&
		status.AvailableReplicas == s.replicas() && status.ObservedGeneration >= s.Deployment.Generation
}

// hasProgressed reports whether the new status is closer to completion than the old one
// (DeploymentProgressing).
func hasProgressed(old, now appsv1.DeploymentStatus) bool {
	return now.UpdatedReplicas > old.UpdatedReplicas ||
		now.Replicas-now.UpdatedReplicas < old.Replicas-old.UpdatedReplicas ||
		now.ReadyReplicas > old.ReadyReplicas || now.AvailableReplicas > old.AvailableReplicas
}

// timedOut reports whether there was no progress for the whole deadline (DeploymentTimedOut).
func (s *planning) timedOut() bool {
	known := s.progressingCondition()
	switch {
	case known == nil, known.Reason == "NewReplicaSetAvailable":
		return false
	case known.Reason == "ProgressDeadlineExceeded":
		return true
	}
	return s.progressDeadline(known).Before(s.now)
}

func (s *planning) progressDeadline(known *appsv1.DeploymentCondition) time.Time {
	return known.LastUpdateTime.Add(s.progressTimeout())
}

// progressTimeout returns how long a rollout may make no progress.
func (s *planning) progressTimeout() time.Duration {
	return time.Duration(*s.Deployment.Spec.ProgressDeadlineSeconds) * time.Second
}

// untilTimeout returns how long it takes until the rollout times out; 0 if it does not
// (requeueStuckDeployment).
func (s *planning) untilTimeout() time.Duration {
	known := s.progressingCondition()
	if !s.hasTimeout() || known == nil || s.isComplete(s.Deployment.Status) || known.Reason == "ProgressDeadlineExceeded" {
		return 0
	}
	return workload.Remaining(known.LastUpdateTime.Time, s.progressTimeout(), s.now) + time.Second
}

// hasTimeout reports whether the rollout can time out.
func (s *planning) hasTimeout() bool {
	return *s.Deployment.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// replicaFailure returns the condition ReplicaFailure of a set, that of the current template first;
// nil if no set has it.
func (s *planning) replicaFailure() *appsv1.ReplicaSetCondition {
	sets := s.allSets()
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

// updatePaused says in the condition Progressing that the rollout is paused or resumed. A paused
// rollout does not time out (checkPausedConditions).
func (s *planning) updatePaused() {
	if !s.hasTimeout() {
		return
	}
	known := s.progressingCondition()
	if known != nil && known.Reason == "ProgressDeadlineExceeded" {
		return
	}
	paused := known != nil && known.Reason == "DeploymentPaused"
	switch {
	case s.Deployment.Spec.Paused && !paused:
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
	case !s.Deployment.Spec.Paused && paused:
		s.setCondition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
}

func (s *planning) progressingCondition() *appsv1.DeploymentCondition {
	for i := range s.Deployment.Status.Conditions {
		if s.Deployment.Status.Conditions[i].Type == appsv1.DeploymentProgressing {
			return &s.Deployment.Status.Conditions[i]
		}
	}
	return nil
}

// setCondition sets a condition, unless it has that status and reason already
// (SetDeploymentCondition).
func (s *planning) setCondition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string) {
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
	s.removeCondition(kind)
	s.Deployment.Status.Conditions = append(s.Deployment.Status.Conditions, made)
}

func (s *planning) removeCondition(kind appsv1.DeploymentConditionType) {
	s.Deployment.Status.Conditions = slices.DeleteFunc(slices.Clone(s.Deployment.Status.Conditions), func(known appsv1.DeploymentCondition) bool { return known.Type == kind })
}
