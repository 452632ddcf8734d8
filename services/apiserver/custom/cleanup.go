package custom

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// Instances describes the objects of a definition that is being deleted.
type Instances struct {
	// Left is how many objects remain.
	Left int
	// Failed says why not all of them could be deleted, if that was tried.
	Failed error
}

// Step is what a definition needs next.
type Step struct {
	// Definition is to be stored, unless it is nil.
	Definition *apiextensionsv1.CustomResourceDefinition
	// DeleteInstances asks for every object of the definition to be deleted.
	DeleteInstances bool
}

// NextStep returns what a definition needs next: its names, and, if it is being deleted, first the
// deletion of its objects and then the removal of its finalizer. It is pure. The zero Step means
// nothing, until something changes.
func NextStep(
	crd *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition,
	have Instances, now metav1.Time,
) Step {
	next := crd.DeepCopy()
	if crd.DeletionTimestamp == nil {
		next.Status = AcceptNames(crd, all, now)
		return storeIfChanged(crd, next)
	}
	if !slices.Contains(crd.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		return Step{} // others hold it
	}
	_, builtIn := kinds.ByResource(crd.Name)
	switch {
	case builtIn:
		return finishCleanup(crd, "OverlappingBuiltInResource", "instances overlap with built-in resources in storage", now)
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established):
		return finishCleanup(crd, "NeverEstablished", "resource was never established", now)
	case have.Left == 0:
		return finishCleanup(crd, "InstanceDeletionCompleted", "removed all instances", now)
	case have.Failed != nil:
		setTerminating(next, "InstanceDeletionFailed", fmt.Sprintf("could not issue all deletes: %v", have.Failed), now)
	default:
		setTerminating(next, "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)
	}
	step := storeIfChanged(crd, next)
	step.DeleteInstances = true
	return step
}

func setTerminating(crd *apiextensionsv1.CustomResourceDefinition, reason, message string, now metav1.Time) {
	setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: reason, Message: message,
	}, now)
}

// finishCleanup removes the finalizer of a definition.
func finishCleanup(crd *apiextensionsv1.CustomResourceDefinition, reason, message string, now metav1.Time) Step {
	next := crd.DeepCopy()
	setCondition(next, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionFalse, Reason: reason, Message: message,
	}, now)
	apihelpers.CRDRemoveFinalizer(next, apiextensionsv1.CustomResourceCleanupFinalizer)
	return Step{Definition: next}
}

// storeIfChanged returns a Step that stores next if its status differs.
func storeIfChanged(crd, next *apiextensionsv1.CustomResourceDefinition) Step {
	step := Step{}
	if !kinds.Equal(crd.Status, next.Status) {
		step.Definition = next
	}
	return step
}
