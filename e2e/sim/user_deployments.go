package sim

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/internal/podapi"
)

// What users do with Deployments.
const (
	CreateDeployment What = "create deployment"
	DeleteDeployment What = "delete deployment"
	ScaleDeployment  What = "scale deployment"
	// RollOut gives a Deployment another template, RollBack the one that it had before.
	RollOut       What = "roll out deployment"
	RollBack      What = "roll back deployment"
	PauseRollout  What = "pause deployment"
	ResumeRollout What = "resume deployment"
)

// Rollout is how a Deployment goes from one template to another; the zero one says nothing.
type Rollout struct {
	// Recreate has all old pods go first; otherwise Surge and Unavailable are maxSurge and
	// maxUnavailable, unless they are empty.
	Recreate    bool   `json:"recreate,omitempty"`
	Surge       string `json:"surge,omitempty"`
	Unavailable string `json:"unavailable,omitempty"`
	// Ready, Deadline and History are minReadySeconds, progressDeadlineSeconds and
	// revisionHistoryLimit.
	Ready    int32  `json:"ready,omitempty"`
	Deadline *int32 `json:"deadline,omitempty"`
	History  *int32 `json:"history,omitempty"`
	// Version is the template's.
	Version int `json:"version,omitempty"`
}

// versionAnnotation is on a template, and says which it is.
const versionAnnotation = "example.com/version"

// versionFor is the template of a Deployment's version.
func versionFor(deed Deed) corev1.PodTemplateSpec {
	template := templateFor(deed)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, versionAnnotation, strconv.Itoa(deed.Shape.Rollout.Version))
	return template
}

func deploymentFor(deed Deed) *appsv1.Deployment {
	how := deed.Shape.Rollout
	its := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &deed.Count, Selector: selector(deed.Name), Template: versionFor(deed),
			MinReadySeconds: how.Ready, ProgressDeadlineSeconds: how.Deadline, RevisionHistoryLimit: how.History,
		},
	}
	if how.Recreate {
		its.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		return its
	}
	its.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: partOf(how.Surge), MaxUnavailable: partOf(how.Unavailable)},
	}
	return its
}

// partOf is a number of pods or a percentage; none for nothing.
func partOf(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	return new(intstr.Parse(text))
}

// rolling is what a deed is about a Deployment.
func rolling(deed Deed, within string) Ask {
	if deed.Do == CreateDeployment {
		return creation(deploymentsResource, within, deploymentFor(deed))
	}
	if deed.Do == DeleteDeployment {
		return removal(deploymentsResource, within, deed)
	}
	its := podapi.Target{Kind: kindOfResource(deploymentsResource), Namespace: within, Name: deed.Name}
	if deed.Do == RollBack {
		return merge(its, map[string]any{"metadata": map[string]any{"annotations": map[string]string{appsv1.DeprecatedRollbackTo: "0"}}})
	}
	spec := map[string]any{"paused": deed.Do == PauseRollout}
	if deed.Do == RollOut {
		spec = map[string]any{"template": versionFor(deed)}
	}
	if deed.Do == ScaleDeployment {
		spec = map[string]any{"replicas": deed.Count}
	}
	return merge(its, map[string]any{"spec": spec})
}
