package verbs

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
)

var errNoNamespaces = errors.New("the table of kinds has no namespaces")

// EnsureNamespaces creates the namespaces that every cluster has, where they are missing.
func (a *API) EnsureNamespaces(ctx context.Context) error {
	kind, ok := kinds.ByResource("namespaces")
	if !ok {
		return errNoNamespaces
	}
	for _, name := range admission.FirstNamespaces() {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		namespace.SetGroupVersionKind(kind.GroupVersionKind)
		req := Request{
			Attributes: admission.Attributes{Identity: proto.APIServer, Verb: proto.VerbCreate, Kind: kind, Name: name},
			Envelope:   &proto.Request{Operation: "first-namespaces"},
			Now:        a.Clock.Now(),
		}
		if !a.missing(req) {
			continue
		}
		if _, err := a.add(ctx, req, namespace, addition{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}
