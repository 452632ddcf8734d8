package registry

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// namespaceStrategy is the strategy of Namespaces. A namespace has a second list of finalizers, in
// its spec, which only the finalize subresource changes. While it contains "kubernetes", the
// namespace may still have content.
type namespaceStrategy struct{ generic }

func (namespaceStrategy) PrepareForCreate(obj kinds.Object, _ time.Time) {
	ns := as[*corev1.Namespace](obj)
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	labelWithName(ns)
}

// labelWithName sets the label by which a namespace can be selected by name.
func labelWithName(ns *corev1.Namespace) {
	if ns.Name == "" {
		return
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}

func (s namespaceStrategy) Validate(obj kinds.Object) field.ErrorList {
	ns := as[*corev1.Namespace](obj)
	return append(ValidateMeta(s.kind, ns), validateNamespaceFinalizers(ns)...)
}

func (s namespaceStrategy) PrepareForUpdate(obj, old kinds.Object, subresource string) {
	ns, before := as[*corev1.Namespace](obj), as[*corev1.Namespace](old)
	labelWithName(ns)
	switch subresource {
	case "status":
		keepAllButStatus(ns, before)
		fill(&ns.Status.Phase, corev1.NamespaceActive)
	case "finalize":
		ns.Status = before.Status
	default:
		ns.Spec.Finalizers = before.Spec.Finalizers
		ns.Status = before.Status
	}
}

func (s namespaceStrategy) ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList {
	ns := as[*corev1.Namespace](obj)
	f := &findings{errs: validateKindMetaUpdate(obj, old)}
	f.add(validateNamespaceFinalizers(ns)...)
	if subresource == "status" {
		at := field.NewPath("status", "Phase")
		switch deleting := !ns.DeletionTimestamp.IsZero(); {
		case !deleting && ns.Status.Phase != corev1.NamespaceActive:
			f.invalid(at, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")
		case deleting && ns.Status.Phase != corev1.NamespaceTerminating:
			f.invalid(at, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
		}
	}
	return f.errs
}

func validateNamespaceFinalizers(ns *corev1.Namespace) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec", "finalizers")
	for _, finalizer := range ns.Spec.Finalizers {
		name := string(finalizer)
		f.checkQualifiedName(at, name)
		if !strings.Contains(name, "/") && finalizer != corev1.FinalizerKubernetes {
			f.invalid(at, name, "name is neither a standard finalizer name nor is it fully qualified")
		}
	}
	return f.errs
}

func (s namespaceStrategy) Fields(obj kinds.Object) fields.Set {
	set := s.generic.Fields(obj)
	set["status.phase"] = string(as[*corev1.Namespace](obj).Status.Phase)
	return set
}
