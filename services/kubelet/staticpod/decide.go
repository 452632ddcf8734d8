package staticpod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// View is the state of the node's static pods and their mirrors.
type View struct {
	// Running are the static pods that are to run, by [podstate.Key].
	Running map[string]*corev1.Pod
	// Ending are the names of static pods that are being ended. Their mirrors stay until then.
	Ending map[string]bool
	// Mirrors are the mirror pods in the API, by name.
	Mirrors map[string]*corev1.Pod
	// Node is the node's object, which owns the mirrors. Without it no mirror is created.
	Node *corev1.Node
}

// Step is one request to the API: Delete removes a mirror, Create creates one.
type Step struct{ Delete, Create *corev1.Pod }

// Decide returns the steps after which each running static pod has a mirror, and no mirror is
// without a pod (KBL-82). A mirror that is being deleted, or that belongs to an earlier version of
// its pod, is removed and created anew.
func Decide(view View) []Step {
	var steps []Step
	for _, name := range slices.Sorted(maps.Keys(view.Mirrors)) {
		mirror := view.Mirrors[name]
		static := view.Running[name]
		switch {
		case static != nil && mirror.DeletionTimestamp == nil && podstate.IsMirrorOf(mirror, static):
		case static == nil && view.Ending[name] && mirror.DeletionTimestamp == nil:
		default:
			steps = append(steps, Step{Delete: mirror})
		}
	}
	if view.Node == nil || view.Node.DeletionTimestamp != nil {
		return steps
	}
	for _, name := range slices.Sorted(maps.Keys(view.Running)) {
		mirror := view.Mirrors[name]
		if mirror == nil || mirror.DeletionTimestamp != nil || !podstate.IsMirrorOf(mirror, view.Running[name]) {
			steps = append(steps, Step{Create: mirrorFor(view.Running[name], view.Node)})
		}
	}
	return steps
}

// mirrorFor returns the mirror of a static pod. The node owns it.
func mirrorFor(static *corev1.Pod, node *corev1.Node) *corev1.Pod {
	mirror := static.DeepCopy()
	hash := static.Annotations[podstate.AnnotationHash]
	mirror.Annotations[corev1.MirrorPodAnnotationKey] = hash
	mirror.ObjectMeta = metav1.ObjectMeta{
		Namespace: static.Namespace, Name: static.Name, Labels: mirror.Labels, Annotations: mirror.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true),
		}},
	}
	mirror.Status = corev1.PodStatus{}
	return mirror
}
