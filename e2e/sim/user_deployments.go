package sim

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/internal/podapi"
)

// User actions on Deployments.
const (
	CreateDeployment ActionKind = "create deployment"
	DeleteDeployment ActionKind = "delete deployment"
	ScaleDeployment  ActionKind = "scale deployment"
	// RollOut gives a Deployment another template, RollBack the one that it had before.
	RollOut       ActionKind = "roll out deployment"
	RollBack      ActionKind = "roll back deployment"
	PauseRollout  ActionKind = "pause deployment"
	ResumeRollout ActionKind = "resume deployment"
)

// RolloutOptions holds a Deployment's strategy and template version.
type RolloutOptions struct {
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

// versionFor returns the template of a Deployment's version.
func versionFor(action Action) corev1.PodTemplateSpec {
	template := templateFor(action)
	metav1.SetMetaDataAnnotation(&template.ObjectMeta, versionAnnotation, strconv.Itoa(action.Shape.Rollout.Version))
	return template
}

func deploymentFor(action Action) *appsv1.Deployment {
	how := action.Shape.Rollout
	its := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: action.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &action.Count, Selector: selector(action.Name), Template: versionFor(action),
			MinReadySeconds: how.Ready, ProgressDeadlineSeconds: how.Deadline, RevisionHistoryLimit: how.History,
		},
	}
	if how.Recreate {
		its.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
		return its
	}
	its.Spec.Strategy = appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: parseIntOrPercent(how.Surge), MaxUnavailable: parseIntOrPercent(how.Unavailable)},
	}
	return its
}

// parseIntOrPercent parses a number of pods or a percentage; nil for an empty text.
func parseIntOrPercent(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	return new(intstr.Parse(text))
}

// deploymentRequest returns the request of an action on a Deployment.
func deploymentRequest(action Action, within string) Ask {
	if action.Kind == CreateDeployment {
		return createRequest(deploymentsResource, within, deploymentFor(action))
	}
	if action.Kind == DeleteDeployment {
		return deleteRequest(deploymentsResource, within, action)
	}
	its := podapi.Target{Kind: kindOfResource(deploymentsResource), Namespace: within, Name: action.Name}
	if action.Kind == RollBack {
		return mergeRequest(its, map[string]any{"metadata": map[string]any{"annotations": map[string]string{appsv1.DeprecatedRollbackTo: "0"}}})
	}
	spec := map[string]any{"paused": action.Kind == PauseRollout}
	if action.Kind == RollOut {
		spec = map[string]any{"template": versionFor(action)}
	}
	if action.Kind == ScaleDeployment {
		spec = map[string]any{"replicas": action.Count}
	}
	return mergeRequest(its, map[string]any{"spec": spec})
}
