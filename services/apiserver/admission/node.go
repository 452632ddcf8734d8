package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Admit refuses what the sender may not do with these objects: obj as it would be
// stored, nil for a read or a delete, and old as it is stored, nil for a create. The
// error is a 403. It is what a Kubernetes API server runs as NodeRestriction.
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

// admitPod keeps a node to the pods that are bound to it.
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
	case proto.VerbUpdate, proto.VerbPatch:
		if !own(old) {
			return fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node)
		}
		if !equality.Semantic.DeepEqual(pod.Labels, old.Labels) {
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

// admitNode keeps a node to its own Node, and from lifting its own taints.
func admitNode(a Attributes, node string, obj, old kinds.Object) error {
	for _, o := range []kinds.Object{obj, old} {
		if o != nil && o.GetName() != node {
			return notItsNode(a.Verb, node, o.GetName())
		}
	}
	updated, isNode := obj.(*corev1.Node)
	stored, isStored := old.(*corev1.Node)
	if isNode && isStored && !equality.Semantic.DeepEqual(updated.Spec.Taints, stored.Spec.Taints) {
		return fmt.Errorf("node %q is not allowed to modify taints", node)
	}
	return nil
}

// podOf is nil for nil: verbs without a new or an old object pass none.
func podOf(obj kinds.Object) *corev1.Pod {
	pod, _ := obj.(*corev1.Pod)
	return pod
}
