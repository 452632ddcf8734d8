package admission

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// FirstNamespaces returns the namespaces that exist from the first start of a cluster.
func FirstNamespaces() []string {
	return []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, nodeLeases}
}

// CheckNamespace refuses to create obj in a namespace that does not exist (404; namespace is nil)
// or is being deleted (403).
func CheckNamespace(a Attributes, obj kinds.Object, namespace *corev1.Namespace) error {
	if namespace == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), a.Namespace)
	}
	if namespace.Status.Phase != corev1.NamespaceTerminating && namespace.DeletionTimestamp == nil {
		return nil
	}
	refused := apierrors.NewForbidden(a.Kind.GroupResource(), obj.GetName(), fmt.Errorf(
		"unable to create new content in namespace %s because it is being terminated", a.Namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", a.Namespace),
		Field:   "metadata.namespace",
	})
	return refused
}

// DenySystemNamespaceDeletion refuses to delete a namespace that every cluster has.
func DenySystemNamespaceDeletion(a Attributes) error {
	immortal := []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
	if a.Verb != proto.VerbDelete || a.Kind.GroupResource() != corev1.Resource("namespaces") || !slices.Contains(immortal, a.Name) {
		return nil
	}
	return forbid(a, errSystemNamespace)
}

var errSystemNamespace = errors.New("this namespace may not be deleted")
