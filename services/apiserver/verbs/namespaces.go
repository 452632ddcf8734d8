package verbs

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/apiserver/admission"
)

// EnsureNamespaces creates the namespaces that every cluster has, if they are missing.
func (a *API) EnsureNamespaces(ctx context.Context) error {
	for _, name := range admission.FirstNamespaces() {
		if err := a.ensure(ctx, "namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}
