package admission

import (
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Admit refuses what the identity may not do with these objects: obj is the object to be stored,
// nil for a read or a delete; old is the stored one, nil for a create. The error is a 403. It is
// what a Kubernetes API server runs as NodeRestriction.
func Admit(a Attributes, obj, old kinds.Object) error {
	node, ok := a.Identity.NodeName()
	if !ok {
		return nil
	}
	var err error
	switch a.Kind.GroupResource().String() {
	case "pods":
		err = admitPod(a, node, podOf(obj), podOf(old))
	case "nodes":
		err = admitNode(a, node, obj, old)
	case "leases.coordination.k8s.io":
		if obj != nil && obj.GetName() != node {
			err = errLeaseName
		}
	}
	if err != nil {
		return forbid(a, err)
	}
	return nil
}

// admitPod restricts a node to the pods that are bound to it.
func admitPod(a Attributes, node string, pod, old *corev1.Pod) error {
	own := func(p *corev1.Pod) bool { return p != nil && p.Spec.NodeName == node }
	switch a.Verb {
	case proto.VerbCreate:
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
			return fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods",
				corev1.MirrorPodAnnotationKey, node)
		}
		if !own(pod) {
			return fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node)
		}
		for _, ref := range podrefs.List(pod) {
			if ref.Resource != podrefs.ServiceAccounts { // which are defaulted, and give a mirror pod nothing
				return fmt.Errorf("node %q can not create pods that reference %s", node, ref.Resource)
			}
		}
	case proto.VerbUpdate, proto.VerbPatch:
		if !own(old) {
			return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node)
		}
		if !kinds.Equal(pod.Labels, old.Labels) {
			return fmt.Errorf("node %q cannot update labels through pod status", node)
		}
	case proto.VerbDelete, proto.VerbDeleteCollection:
		if !own(old) {
			return fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", node)
		}
	case proto.VerbGet, proto.VerbList, proto.VerbWatch:
		if !own(old) {
			return fmt.Errorf("node %q can only get pods with spec.nodeName set to itself", node)
		}
	}
	return nil
}

// admitNode restricts a node to its own Node, and forbids it to change its taints.
func admitNode(a Attributes, node string, obj, old kinds.Object) error {
	for _, o := range []kinds.Object{obj, old} {
		if o != nil && o.GetName() != node {
			return otherNodeError(a.Verb, node, o.GetName())
		}
	}
	updated, isNode := obj.(*corev1.Node)
	stored, isStored := old.(*corev1.Node)
	if isNode && isStored && !kinds.Equal(updated.Spec.Taints, stored.Spec.Taints) {
		return fmt.Errorf("node %q is not allowed to modify taints", node)
	}
	return nil
}

var (
	errUnboundToken    = errors.New("node requested token not bound to a pod")
	errTokenWithoutUID = errors.New("node requested token with a pod binding without a uid")
	errForeignToken    = errors.New("node requested token bound to a pod scheduled on a different node")
)

// AdmitToken restricts a node to tokens that are bound to its own pods. pod is the stored pod that
// the request names; nil if there is none. The error is a 403, 404 or 409.
func AdmitToken(a Attributes, wanted *authenticationv1.TokenRequest, pod *corev1.Pod) error {
	node, is := a.Identity.NodeName()
	if !is {
		return nil
	}
	ref := wanted.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return forbid(a, errUnboundToken)
	case ref.UID == "":
		return forbid(a, errTokenWithoutUID)
	case pod == nil:
		return apierrors.NewNotFound(corev1.Resource("pods"), ref.Name)
	case pod.UID != ref.UID:
		return apierrors.NewConflict(corev1.Resource("pods"), ref.Name, fmt.Errorf(
			"the UID in the bound object reference (%s) does not match the UID in record. "+
				"The object might have been deleted and then recreated", ref.UID))
	case pod.Spec.NodeName != node:
		return forbid(a, errForeignToken)
	}
	return nil
}

// podOf returns nil for nil: verbs without a new or an old object pass none.
func podOf(obj kinds.Object) *corev1.Pod {
	pod, _ := obj.(*corev1.Pod)
	return pod
}
