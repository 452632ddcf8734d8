package custom

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// Instances are the resources of a definition that is on its way out.
type Instances struct {
	// Left is how many there still are.
	Left int
	// Failed is why they could not all be asked to go, when that was tried.
	Failed error
}

// Step is what a definition needs next.
type Step struct {
	// Definition is to be stored when it is not nil.
	Definition *apiextensionsv1.CustomResourceDefinition
	// DeleteInstances asks for every resource of it to go.
	DeleteInstances bool
}

// NextStep says what a definition needs: its names as they are now, and, when it is on its
// way out, first that its resources go and then that its finalizer does. It is pure. The
// zero Step is nothing, until something changes.
func NextStep(
	crd *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition,
	have Instances, now metav1.Time,
) Step {
	next := crd.DeepCopy()
	if crd.DeletionTimestamp == nil {
		next.Status = SettleNames(crd, all, now)
		return changed(crd, next)
	}
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return Step{} // others hold it
	}
	_, builtIn := kinds.ByResource(crd.Name)
	switch {
	case builtIn:
		return finished(crd, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage", now)
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		return finished(crd, "NeverEstablished", "resource was never established", now)
	case have.Left == 0:
		return finished(crd, "InstanceDeletionCompleted", "removed all instances", now)
	case have.Failed != nil:
		terminating(next, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", have.Failed), now)
	default:
		terminating(next, "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)
	}
	step := changed(crd, next)
	step.DeleteInstances = true
	return step
}

func terminating(crd *apiextensionsv1.CustomResourceDefinition, reason, message string, now metav1.Time) {
	setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: reason, Message: message,
	}, now)
}

// finished lets a definition go.
func finished(crd *apiextensionsv1.CustomResourceDefinition, reason, message string, now metav1.Time) Step {
	next := crd.DeepCopy()
	setCondition(next, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: reason, Message: message,
	}, now)
	apihelpers.CRDRemoveFinalizer(next, apiextensionsv1.CustomResourceCleanupFinalizer)
	return Step{Definition: next}
}

// changed stores next, if it says anything new.
func changed(crd, next *apiextensionsv1.CustomResourceDefinition) Step {
	step := Step{}
	if !kinds.Equal(crd.Status, next.Status) {
		step.Definition = next
	}
	return step
}
