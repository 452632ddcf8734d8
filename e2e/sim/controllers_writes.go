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

// stale reports whether what was asked for an owner last is not in the view yet; the owner is
// looked at again when the view is to be trusted all the same.
func (c *controllers) stale(what string, expected *workload.Expectations, owner kinds.Object) bool {
	if expected.Satisfied(view.KeyOf(owner), c.now) {
		return false
	}
	c.lookAfter(what, nameOf(owner), expected.Remaining(view.KeyOf(owner), c.now)+notYet)
	return true
}

// maker is a controller that makes and deletes pods for an owner.
type maker struct {
	controller string
	expected   *workload.Expectations
	owner      metav1.Object
}

// act makes and deletes pods, and says how many were made.
func (c *controllers) act(by maker, create, remove []*corev1.Pod, then func(made int, failed error)) {
	key, made := view.KeyOf(by.owner), 0
	if len(create)+len(remove) > 0 {
		uids := make([]types.UID, 0, len(remove))
		for _, pod := range remove {
			uids = append(uids, pod.UID)
		}
		by.expected.Expect(key, len(create), uids, c.now)
	}
	one := all(len(create)+len(remove), func(failed error) { then(made, failed) })
	target := podapi.Target{Kind: kindOfResource("pods"), Namespace: by.owner.GetNamespace()}
	for _, pod := range create {
		c.write(by.controller, Ask{Verb: proto.VerbCreate, Target: target, Object: pod}, nil, func(got Got) {
			if got.Err != nil {
				by.expected.CreationObserved(key)
			} else {
				made++
			}
			one(lest(control.IsNamespaceTerminating, got.Err))
		})
	}
	for _, pod := range remove {
		c.remove(by.controller, pod, func(err error) {
			if err != nil {
				by.expected.DeletionObserved(key, pod.UID)
			}
			one(err)
		})
	}
}

// remove deletes a pod of a set, gracefully and by its UID; one that is gone is no error.
func (c *controllers) remove(controller string, pod *corev1.Pod, then func(error)) {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	c.write(controller, Ask{Verb: proto.VerbDelete, Target: targetOf("pods", pod, ""), Options: options}, pod, func(got Got) {
		then(lest(control.IsGone, got.Err))
	})
}

// updating asks for an object to be stored.
func updating(resource string, obj kinds.Object, subresource string) Ask {
	return Ask{Verb: proto.VerbUpdate, Target: targetOf(resource, obj, subresource), Object: obj}
}
