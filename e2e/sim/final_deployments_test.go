package sim

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// TestWrongRollout judges final states of Deployments.
func TestWrongRollout(t *testing.T) {
	const newest, older = 2, 1
	type set struct {
		version  int
		replicas int32
	}
	for _, c := range []struct {
		name   string
		sets   []set
		change func(*appsv1.Deployment)
		want   string
	}{
		{"rolled out", []set{{newest, 3}, {older, 0}}, nil, ""},
		{"an old spec is told of", []set{{newest, 3}}, func(its *appsv1.Deployment) { its.Generation = 8 }, "says nothing of its newest spec"},
		{"a pod too many", []set{{newest, 3}, {older, 1}}, nil, "has sets for another number of pods"},
		{"no set", nil, nil, "has sets for another number of pods"},
		{"one is not ready", []set{{newest, 3}}, func(its *appsv1.Deployment) { its.Status.ReadyReplicas = 2 }, "counts its pods wrong"},
		{"of the template before", []set{{newest, 0}, {older, 3}}, nil, "is not rolled out"},
		{"half rolled out", []set{{newest, 2}, {older, 1}}, nil, "is not rolled out"},
		{"too much history", []set{{newest, 3}, {older, 0}, {older, 0}}, nil, "keeps more old sets than it should"},
		{"paused, of the template before", []set{{older, 3}}, func(its *appsv1.Deployment) { its.Spec.Paused = true }, ""},
		{"paused, a pod too few", []set{{older, 2}}, func(its *appsv1.Deployment) { its.Spec.Paused = true }, "has sets for another number of pods"},
		{"paused, no set", nil, func(its *appsv1.Deployment) {
			its.Spec.Paused, its.Status = true, appsv1.DeploymentStatus{ObservedGeneration: 7}
		}, ""},
	} {
		action := Action{Kind: CreateDeployment, Name: deploymentName, Count: 3, Shape: Shape{Purpose: Purpose{Rollout: RolloutOptions{Version: newest, History: new(int32(1))}}}}
		its := deploymentFor(action)
		its.Generation = 7
		its.Status = appsv1.DeploymentStatus{ObservedGeneration: 7, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}
		if c.change != nil {
			c.change(its)
		}
		var sets []*appsv1.ReplicaSet
		for _, s := range c.sets {
			action.Shape.Rollout.Version = s.version
			sets = append(sets, &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(s.replicas), Template: versionFor(action)}})
		}
		if got := rolloutProblem(its, sets); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
