package sim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// isStale reports whether the view still lacks the writes for an owner. If so, the owner is
// requeued for when the expectations expire.
func (c *controllers) isStale(what string, expected *workload.Expectations, owner kinds.Object) bool {
	if expected.Satisfied(view.KeyOf(owner), c.now) {
		return false
	}
	c.enqueueAfter(what, nameOf(owner), expected.Remaining(view.KeyOf(owner), c.now)+unsyncedDelay)
	return true
}

// podOwner is a controller that creates and deletes pods for an owner.
type podOwner struct {
	controller string
	expected   *workload.Expectations
	owner      metav1.Object
}

// createAndDelete creates and deletes pods, and returns how many were created.
func (c *controllers) createAndDelete(by podOwner, create, remove []*corev1.Pod, then func(made int, failed error)) {
	key, made := view.KeyOf(by.owner), 0
	if len(create)+len(remove) > 0 {
		uids := make([]types.UID, 0, len(remove))
		for _, pod := range remove {
			uids = append(uids, pod.UID)
		}
		by.expected.Expect(key, len(create), uids, c.now)
	}
	one := afterAll(len(create)+len(remove), func(failed error) { then(made, failed) })
	target := podapi.Target{Kind: kindOfResource("pods"), Namespace: by.owner.GetNamespace()}
	for _, pod := range create {
		c.write(by.controller, Ask{Verb: proto.VerbCreate, Target: target, Object: pod}, nil, func(got Outcome) {
			if got.Err != nil {
				by.expected.CreationObserved(key)
			} else {
				made++
			}
			one(ignoreIf(control.IsNamespaceTerminating, got.Err))
		})
	}
	for _, pod := range remove {
		c.deletePod(by.controller, pod, func(err error) {
			if err != nil {
				by.expected.DeletionObserved(key, pod.UID)
			}
			one(err)
		})
	}
}

// deletePod deletes a pod of a set gracefully and by UID; a missing pod is no error.
func (c *controllers) deletePod(controller string, pod *corev1.Pod, then func(error)) {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	c.write(controller, Ask{Verb: proto.VerbDelete, Target: targetOf("pods", pod, ""), Options: options}, pod, func(got Outcome) {
		then(ignoreIf(control.IsGone, got.Err))
	})
}

// updateOf returns the request that stores an object.
func updateOf(resource string, obj kinds.Object, subresource string) Ask {
	return Ask{Verb: proto.VerbUpdate, Target: targetOf(resource, obj, subresource), Object: obj}
}
