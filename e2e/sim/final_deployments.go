package sim

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/controllers/deployment"
)

// checkRollouts checks that every Deployment is rolled out, and says so. A paused Deployment must
// have as many pods as it asks for, of any template, unless it has no set at all: it creates none.
func checkRollouts(snapshot *store.Snapshot) (wrong []error) {
	for _, its := range objectsOf[*appsv1.Deployment](snapshot, deploymentsResource) {
		var sets []*appsv1.ReplicaSet
		for _, set := range objectsOf[*appsv1.ReplicaSet](snapshot, setsResource) {
			if metav1.IsControlledBy(set, its) {
				sets = append(sets, set)
			}
		}
		if what := rolloutProblem(its, sets); what != "" {
			wrong = append(wrong, fmt.Errorf("%w: deployment %s %s: it asks for %d pods with %d sets, and of its status it is %s",
				ErrRollouts, its.Name, what, *its.Spec.Replicas, len(sets), formatStatus(its.Status)))
		}
	}
	return wrong
}

// rolloutProblem describes what is wrong with a Deployment that has these sets; empty for nothing.
func rolloutProblem(its *appsv1.Deployment, sets []*appsv1.ReplicaSet) string {
	var all, newest int32
	old := 0
	for _, set := range sets {
		all += *set.Spec.Replicas
		if deployment.SameTemplate(&set.Spec.Template, &its.Spec.Template) {
			newest += *set.Spec.Replicas
		} else {
			old++
		}
	}
	wants, status := *its.Spec.Replicas, its.Status
	if its.Spec.Paused && len(sets) == 0 {
		wants = 0
	}
	switch {
	case status.ObservedGeneration != its.Generation:
		return "says nothing of its newest spec"
	case all != wants:
		return "has sets for another number of pods"
	case status.Replicas != wants, status.ReadyReplicas != wants, status.AvailableReplicas != wants, status.UnavailableReplicas != 0:
		return "counts its pods wrong"
	case its.Spec.Paused:
		return ""
	case newest != wants, status.UpdatedReplicas != wants:
		return "is not rolled out"
	case old > int(*its.Spec.RevisionHistoryLimit):
		return "keeps more old sets than it should"
	}
	return ""
}
