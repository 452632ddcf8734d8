package sim

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/replicaset"
	"github.com/podfall/podfall/services/controllers/statefulset"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// owned are the pods of an owner, by name.
func (c *controllers) owned(by metav1.Object) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range c.pods.all() {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.UID == by.GetUID() {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (c *controllers) replicaSetChanged(old, now *appsv1.ReplicaSet) {
	c.ofDeployments().SetChanged(old, now)
	if now == nil {
		c.ofReplicaSets().OwnerDeleted(old)
		return
	}
	c.ofReplicaSets().OwnerChanged(now)
}

// siblings are the pods of a set, and of the others of its Deployment.
func (c *controllers) siblings(set *appsv1.ReplicaSet) []*corev1.Pod {
	above := metav1.GetControllerOfNoCopy(set)
	if above == nil {
		return c.owned(set)
	}
	var pods []*corev1.Pod
	for _, other := range c.replicas.all() {
		if owner := metav1.GetControllerOfNoCopy(other); owner != nil && owner.UID == above.UID {
			pods = append(pods, c.owned(other)...)
		}
	}
	return pods
}

func (c *controllers) syncReplicaSet(key string, of name) {
	set, known := c.replicas.get(of)
	if !known {
		c.expected.Forget(view.Key(of))
		return
	}
	v := replicaset.View{Set: set, Stale: c.stale(lookReplicaSet, c.expected, set)}
	done := c.begun(key)
	c.claim(claimsOfReplicaSet(set), func(pods []*corev1.Pod, err error) {
		if err != nil {
			done(err)
			return
		}
		c.keepReplicas(v, pods, done)
	})
}

// keepReplicas does what a set needs of which these are the pods.
func (c *controllers) keepReplicas(v replicaset.View, pods []*corev1.Pod, done func(error)) {
	set := v.Set
	for _, pod := range pods {
		switch {
		case workload.IsActive(pod):
			v.Active = append(v.Active, pod)
		case workload.IsTerminating(pod):
			v.Terminating = append(v.Terminating, pod)
		}
	}
	v.Related = func() []*corev1.Pod { return c.siblings(set) }
	plan, status := replicaset.Decide(v, c.shown()), replicaset.Status(v, nil, c.shown())
	if wait := replicaset.RecheckAfter(v, c.shown()); wait > 0 {
		c.lookAfter(lookReplicaSet, nameOf(set), wait)
	}
	create := make([]*corev1.Pod, 0, plan.Create)
	for range plan.Create {
		create = append(create, workload.NewPod(&set.Spec.Template, set, kindOfOwner(lookReplicaSet)))
	}
	c.act(maker{"replicaset-controller", c.expected, set}, create, plan.Delete, func(_ int, failed error) {
		if failed != nil || kinds.Equal(set.Status, status) {
			done(failed)
			return
		}
		changed := set.DeepCopy()
		changed.Status = status
		c.write("replicaset-controller", updating("replicasets.apps", changed, "status"), set, func(got Got) {
			done(got.Err)
		})
	})
}

// syncStatefulSet does one round of a set, whose template never changes here: it has one
// revision.
func (c *controllers) syncStatefulSet(key string, of name) {
	set, known := c.stateful.get(of)
	if !known {
		return
	}
	done := c.begun(key)
	c.claim(claimsOfStatefulSet(set), func(pods []*corev1.Pod, err error) {
		if err != nil {
			done(err)
			return
		}
		c.keepStateful(set, pods, done)
	})
}

// keepStateful does one round of a set of which these are the pods.
func (c *controllers) keepStateful(set *appsv1.StatefulSet, pods []*corev1.Pod, done func(error)) {
	revision := statefulset.Revision{Name: set.Name + "-1", Template: &set.Spec.Template}
	view := statefulset.View{Set: set, Pods: pods, Current: revision, Update: revision, Claims: map[string]*corev1.PersistentVolumeClaim{}}
	for _, claim := range c.disks.claims.all() {
		if claim.Namespace == set.Namespace {
			view.Claims[claim.Name] = claim
		}
	}
	plan := statefulset.Decide(view, c.shown())
	finish := func(failed error) {
		if failed != nil || kinds.Equal(set.Status, plan.Status) {
			done(failed)
			return
		}
		changed := set.DeepCopy()
		changed.Status = plan.Status
		c.write("statefulset-controller", updating("statefulsets.apps", changed, "status"), set, func(got Got) {
			done(got.Err)
		})
	}
	if plan.Again > 0 {
		c.lookAfter(lookStatefulSet, nameOf(set), plan.Again)
	}
	one := all(len(plan.Make)+len(plan.Create)+len(plan.Repair)+len(plan.Delete), finish)
	for _, claim := range plan.Make { // a pod that is there before its claim waits for it
		target := podapi.Target{Kind: kindOfResource(claimsResource), Namespace: set.Namespace}
		c.write("statefulset-controller", Ask{Verb: proto.VerbCreate, Target: target, Object: claim}, nil, func(got Got) {
			one(lest(apierrors.IsAlreadyExists, got.Err))
		})
	}
	for _, pod := range plan.Create {
		target := podapi.Target{Kind: kindOfResource("pods"), Namespace: set.Namespace}
		c.write("statefulset-controller", Ask{Verb: proto.VerbCreate, Target: target, Object: pod}, nil, func(got Got) { one(got.Err) })
	}
	for _, pod := range plan.Repair {
		c.write("statefulset-controller", updating("pods", pod, ""), pod, func(got Got) { one(got.Err) })
	}
	for _, pod := range plan.Delete {
		c.remove("statefulset-controller", pod, one)
	}
}
