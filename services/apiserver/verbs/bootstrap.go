package verbs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Bootstrap creates what every cluster has, if it is missing: the first namespaces, the
// Service of the API server, the priority classes of the system, and a runtime class for each handler of
// podfall's runtime.
func (a *API) Bootstrap(ctx context.Context) error {
	if err := a.EnsureNamespaces(ctx); err != nil {
		return err
	}
	if err := a.ensure(ctx, serviceResource, kubernetesService()); err != nil {
		return err
	}
	for _, class := range registry.SystemPriorityClasses() {
		if err := a.ensure(ctx, "priorityclasses.scheduling.k8s.io", class); err != nil {
			return err
		}
	}
	for _, handler := range []string{"process", "scripted"} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: handler}, Handler: handler}
		if err := a.ensure(ctx, "runtimeclasses.node.k8s.io", class); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates obj unless an object has its name.
func (a *API) ensure(ctx context.Context, resource string, obj kinds.Object) error {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		return fmt.Errorf("create %s: the table of kinds has none", resource)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	req := Request{
		Attributes: admission.Attributes{
			Identity: proto.APIServer, Verb: proto.VerbCreate, Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName(),
		},
		Envelope: &proto.Request{Operation: "bootstrap"},
		Now:      a.Clock.Now(),
	}
	if !a.isMissing(req) {
		return nil
	}
	if _, err := a.createObject(ctx, req, obj, createOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s: %w", req.key(), err)
	}
	return nil
}

// kubernetesService returns the Service by which programs in the cluster find the API server.
func kubernetesService() *corev1.Service {
	const httpsPort, ownPort = 443, 6443
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubernetes", Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: registry.KubernetesServiceIP,
			Ports: []corev1.ServicePort{{
				Name: "https", Port: httpsPort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(ownPort),
			}},
		},
	}
}

// accompanyingWrites returns the writes that belong to the creation of an object: a namespace gets
// the default service account of its Pods.
func (a *API) accompanyingWrites(w *write) []store.Write {
	if w.Kind.GroupResource() != corev1.Resource("namespaces") {
		return nil
	}
	key := store.Key{Resource: "serviceaccounts", Namespace: w.obj.GetName(), Name: "default"}
	if w.snapshot.Get(key) != nil {
		return nil
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}
	registry.PrepareMetaForCreate(account, w.Now, a.NewUID())
	return []store.Write{{Key: key, Expect: store.Any, Object: account}}
}
