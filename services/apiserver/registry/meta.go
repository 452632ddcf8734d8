package registry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// The longest name that metadata.generateName makes, and its random part.
const (
	// maxGeneratedName is the length of the longest name that metadata.generateName makes.
	maxGeneratedName = 63
	// NameSuffixLength is the number of random characters that [GenerateName] needs.
	NameSuffixLength = 5
)

// GenerateName returns the name for a metadata.generateName and a random suffix of
// [NameSuffixLength] lower-case letters and digits.
func GenerateName(base, suffix string) string {
	return base[:min(len(base), maxGeneratedName-NameSuffixLength)] + suffix
}

// PrepareMetaForCreate sets the metadata that only the server may set, and drops the client's
// values (API-56, API-57). Times are whole seconds. Package fieldmanager handles managedFields.
func PrepareMetaForCreate(obj kinds.Object, now time.Time, uid types.UID) {
	obj.SetCreationTimestamp(metav1.Unix(now.Unix(), 0))
	obj.SetUID(uid)
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// PrepareMetaForUpdate restores the metadata that no update changes: creationTimestamp and the
// deletion's deadline and grace (API-56). A missing UID becomes old's; a different one stays, to be
// refused.
func PrepareMetaForUpdate(obj, old kinds.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if deadline := old.GetDeletionTimestamp(); deadline != nil {
		obj.SetDeletionTimestamp(deadline.DeepCopy())
	}
	if grace := old.GetDeletionGracePeriodSeconds(); grace != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(new(*grace))
	}
	obj.SetSelfLink("")
}

// ValidateMeta returns everything that is wrong with the metadata of a new object. The rules for
// names depend on the kind.
func ValidateMeta(kind kinds.Kind, obj kinds.Object) field.ErrorList {
	at := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, kind.Namespaced, nameValidator(kind), at)
	return append(sortPerField(errs), validateFinalizerNames(obj, at)...)
}

// ValidateMetaUpdate returns why the metadata of obj may not replace that of old. Identity,
// deadline and grace are fixed, and an object that is being deleted takes no new finalizers
// (API-55, API-56).
func ValidateMetaUpdate(obj, old kinds.Object) field.ErrorList {
	return sortPerField(validation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata")))
}

// validateKindMetaUpdate repeats ValidateMetaUpdate for each built-in kind, as upstream does, and
// checks the finalizers' names.
func validateKindMetaUpdate(obj, old kinds.Object) field.ErrorList {
	return append(ValidateMetaUpdate(obj, old), validateFinalizerNames(obj, field.NewPath("metadata"))...)
}

// sortPerField sorts neighbouring errors about the same field, because the library reports errors
// in the keys of a map in random order.
func sortPerField(errs field.ErrorList) field.ErrorList {
	for from := 0; from < len(errs); {
		to := from + 1
		for to < len(errs) && errs[to].Field == errs[from].Field {
			to++
		}
		slices.SortStableFunc(errs[from:to], func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
		from = to
	}
	return errs
}

// validateFinalizerNames allows three names without a domain (API-48).
func validateFinalizerNames(obj kinds.Object, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range obj.GetFinalizers() {
		switch name {
		case "kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
			continue
		}
		if !strings.Contains(name, "/") {
			errs = append(errs, field.Invalid(at.Child("finalizers").Index(i), name,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// validatePathSegment allows every name that is one element of a path and one token of a subject.
func validatePathSegment(name string, _ bool) []string {
	if name == "." || name == ".." {
		return []string{fmt.Sprintf("may not be '%s'", name)}
	}
	var wrong []string
	for _, c := range []string{"/", "%"} {
		if strings.Contains(name, c) {
			wrong = append(wrong, fmt.Sprintf("may not contain '%s'", c))
		}
	}
	return wrong
}

// nameValidator returns the validation of a kind's names. No name of any kind has a slash or a
// percent sign, or is "." or "..".
func nameValidator(kind kinds.Kind) validation.ValidateNameFunc {
	switch kind.GroupResource().String() {
	case "namespaces":
		return validation.ValidateNamespaceName
	case "services":
		return validation.NameIsDNS1035Label
	case "events", "events.events.k8s.io", "controllerrevisions.apps", "leasecandidates.coordination.k8s.io",
		"componentstatuses", "certificatesigningrequests.certificates.k8s.io",
		"clustertrustbundles.certificates.k8s.io", "ipaddresses.networking.k8s.io":
		return validatePathSegment
	}
	if kind.Group == "rbac.authorization.k8s.io" {
		return validatePathSegment
	}
	return validation.NameIsDNSSubdomain
}
