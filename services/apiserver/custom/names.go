package custom

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AcceptNames returns crd's status with its accepted names: the requested ones, unless another
// definition of its group has one of them. It is pure; all may contain crd itself, which is
// skipped. A definition whose names were accepted once is established and stays so (upstream's
// NamingConditionController and EstablishingController, in one step).
func AcceptNames(
	crd *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition, now metav1.Time,
) apiextensionsv1.CustomResourceDefinitionStatus {
	updated := crd.DeepCopy()
	conflict := acceptNames(updated, usedByOthers(crd, all))
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
		Reason: "NoConflicts", Message: "no conflicts found",
	}
	if conflict != nil {
		accepted.Status, accepted.Reason, accepted.Message = apiextensionsv1.ConditionFalse, conflict.reason, conflict.message
	}
	setCondition(updated, accepted, now)
	switch {
	case apihelpers.IsCRDConditionTrue(updated, apiextensionsv1.Established):
	case conflict == nil:
		setCondition(updated, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		}, now)
	default:
		setCondition(updated, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		}, now)
	}
	if state, reason := apihelpers.GetAPIApprovalState(crd.Annotations); apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		setCondition(updated, approvalCondition(state, reason), now)
	}
	return updated.Status
}

// approvalCondition returns the condition of a definition in one of Kubernetes' own groups.
func approvalCondition(state apihelpers.APIApprovalState, reason string) apiextensionsv1.CustomResourceDefinitionCondition {
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse, Message: reason,
	}
	switch state {
	case apihelpers.APIApproved:
		condition.Status, condition.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		condition.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		condition.Reason = "MissingAnnotation"
	case apihelpers.APIApprovalInvalid:
		condition.Reason = "InvalidAnnotation"
	}
	return condition
}

// setCondition sets a condition. Its transition time is now if its status changes.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition, now metav1.Time) {
	c.LastTransitionTime = now
	old := apihelpers.FindCRDCondition(crd, c.Type)
	if old == nil {
		crd.Status.Conditions = append(crd.Status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}

// usedNames are the accepted names of the other definitions of a group.
type usedNames struct{ resources, kinds []string }

func usedByOthers(crd *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition) usedNames {
	var taken usedNames
	for _, other := range all {
		if other.Name == crd.Name || other.Spec.Group != crd.Spec.Group {
			continue
		}
		names := other.Status.AcceptedNames
		taken.resources = append(append(taken.resources, names.Plural, names.Singular), names.ShortNames...)
		taken.kinds = append(taken.kinds, names.Kind, names.ListKind)
	}
	return taken
}

type nameConflict struct{ reason, message string }

// acceptNames accepts each requested name that no other definition has. It returns the last
// conflict; nil if there is none.
func acceptNames(crd *apiextensionsv1.CustomResourceDefinition, taken usedNames) *nameConflict {
	var last *nameConflict
	wanted, given := crd.Spec.Names, &crd.Status.AcceptedNames
	give := func(reason, name string, into *string, taken []string) {
		if name != *into && slices.Contains(taken, name) {
			last = &nameConflict{reason, fmt.Sprintf("%q is already in use", name)}
			return
		}
		*into = name
	}
	give("PluralConflict", wanted.Plural, &given.Plural, taken.resources)
	give("SingularConflict", wanted.Singular, &given.Singular, taken.resources)
	free := true
	for _, short := range wanted.ShortNames {
		if !slices.Contains(given.ShortNames, short) && slices.Contains(taken.resources, short) {
			free, last = false, &nameConflict{"ShortNamesConflict", fmt.Sprintf("%q is already in use", short)}
		}
	}
	if free {
		given.ShortNames = wanted.ShortNames
	}
	give("KindConflict", wanted.Kind, &given.Kind, taken.kinds)
	give("ListKindConflict", wanted.ListKind, &given.ListKind, taken.kinds)
	given.Categories = wanted.Categories
	return last
}
