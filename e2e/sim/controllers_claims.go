package sim

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/statefulset"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// ownerChanged has the owners looked at that a change of a pod is about, and takes what was
// expected of them off the ledger.
func (c *controllers) ownerChanged(old, now *corev1.Pod) {
	c.ofReplicaSets().PodChanged(old, now)
	owners(c, lookStatefulSet, c.stateful, func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector }).PodChanged(old, now)
	pod := either(old, now)
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "DaemonSet" {
		c.daemonPodChanged(name{pod.Namespace, owner.Name}, old, now)
	}
}

func (c *controllers) ofReplicaSets() control.Owners[*appsv1.ReplicaSet] {
	return owners(c, lookReplicaSet, c.replicas, func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector })
}

// owners are the owners of a kind, as the product has them.
func owners[T kinds.Object](c *controllers, look string, of *copyOf[T], selector func(T) *metav1.LabelSelector) control.Owners[T] {
	expected := c.expected
	if look != lookReplicaSet {
		expected = workload.NewExpectations() // the others expect nothing
	}
	return control.Owners[T]{
		Kind: kindOfSet(look), Selector: selector, Expected: expected,
		Get: func(key view.Key) (T, bool) { return of.get(name{key.Namespace, key.Name}) },
		In: func(namespace string) (all []T) {
			for _, set := range of.all() {
				if set.GetNamespace() == namespace {
					all = append(all, set)
				}
			}
			return all
		},
		Look: func(key view.Key, after time.Duration) { c.lookAfter(look, name{key.Namespace, key.Name}, after) },
	}
}

// kindOfSet is the kind of what a look looks at.
func kindOfSet(look string) schema.GroupVersionKind {
	if look == lookStatefulSet {
		return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	}
	return appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
}

// claims is who takes pods into possession.
type claims struct {
	controller, resource string
	owner                kinds.Object
	kind                 schema.GroupVersionKind
	selector             *metav1.LabelSelector
	// fits says which of those that are nobody's may be adopted.
	fits func(*corev1.Pod) bool
}

func claimsOfReplicaSet(set *appsv1.ReplicaSet) claims {
	return claims{
		controller: "replicaset-controller", resource: "replicasets.apps", owner: set, kind: kindOfSet(lookReplicaSet),
		selector: set.Spec.Selector, fits: func(pod *corev1.Pod) bool { return !workload.Finished(pod) },
	}
}

func claimsOfStatefulSet(set *appsv1.StatefulSet) claims {
	return claims{
		controller: "statefulset-controller", resource: "statefulsets.apps", owner: set, kind: kindOfSet(lookStatefulSet),
		selector: set.Spec.Selector, fits: func(pod *corev1.Pod) bool { return statefulset.Ordinal(pod, set) >= 0 },
	}
}

// claim finds an owner's pods, after those that it may adopt were adopted (control.Claimer).
// The labels of a pod never change here: none is released.
func (c *controllers) claim(by claims, then func([]*corev1.Pod, error)) {
	selector, err := metav1.LabelSelectorAsSelector(by.selector)
	if err != nil {
		then(nil, err)
		return
	}
	var mine, orphans []*corev1.Pod
	for _, pod := range c.pods.all() {
		switch workload.Claim(by.owner, pod, func() bool { return selector.Matches(labels.Set(pod.Labels)) }) {
		case workload.Mine:
			mine = append(mine, pod)
		case workload.Adopt:
			if by.fits(pod) {
				orphans = append(orphans, pod)
			}
		case workload.NotMine, workload.Release:
		}
	}
	if len(orphans) == 0 {
		then(mine, nil)
		return
	}
	c.write(by.controller, Ask{Verb: proto.VerbGet, Target: targetOf(by.resource, by.owner, "")}, nil, func(got Got) {
		if fresh, is := got.Object.(kinds.Object); is && got.Err == nil {
			got.Err = control.MayAdopt(by.owner, fresh)
		}
		if got.Err != nil {
			then(mine, lest(apierrors.IsNotFound, got.Err))
			return
		}
		one := all(len(orphans), func(failed error) { then(mine, failed) })
		for _, pod := range orphans {
			c.adopt(by, pod, func(got Got) {
				if adopted, is := got.Object.(*corev1.Pod); is && got.Err == nil {
					mine = append(mine, adopted)
				}
				one(lest(apierrors.IsNotFound, got.Err))
			})
		}
	})
}

// lest is an error that does not say what is no failure.
func lest(fine func(error) bool, err error) error {
	if fine(err) {
		return nil
	}
	return err
}

// adopt makes an owner a pod's controller.
func (c *controllers) adopt(by claims, pod *corev1.Pod, then func(Got)) {
	patch, err := json.Marshal(control.Adoption(by.owner, by.kind, pod, nil))
	if err != nil {
		panic("sim: " + err.Error()) // plain values
	}
	c.write(by.controller, Ask{
		Verb: proto.VerbPatch, Target: targetOf("pods", pod, ""), PatchType: types.StrategicMergePatchType, Patch: patch,
	}, pod, then)
}
