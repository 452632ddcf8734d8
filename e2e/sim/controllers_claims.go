package sim

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/job"
	"github.com/podfall/podfall/services/controllers/statefulset"
	"github.com/podfall/podfall/services/controllers/view"
	"github.com/podfall/podfall/services/controllers/workload"
)

// ownerChanged has the owners looked at that a change of a pod is about, and takes what was
// expected of them off the ledger.
func (c *controllers) ownerChanged(old, now *corev1.Pod) {
	c.ofReplicaSets().PodChanged(old, now)
	owners(c, lookStatefulSet, c.stateful, func(set *appsv1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector }).PodChanged(old, now)
	c.ofDaemonSets().PodChanged(old, now)
	c.ofJobs().PodChanged(old, now)
	c.ofDeployments().PodChanged(old, now)
}

func (c *controllers) ofReplicaSets() control.Owners[*appsv1.ReplicaSet] {
	of := owners(c, lookReplicaSet, c.replicas, func(set *appsv1.ReplicaSet) *metav1.LabelSelector { return set.Spec.Selector })
	of.Expected = c.expected
	return of
}

func (c *controllers) ofDaemonSets() control.Owners[*appsv1.DaemonSet] {
	of := owners(c, lookDaemonSet, c.daemons.sets, func(set *appsv1.DaemonSet) *metav1.LabelSelector { return set.Spec.Selector })
	of.Expected = c.daemons.expected
	return of
}

func (c *controllers) ofJobs() control.Owners[*batchv1.Job] {
	of := owners(c, lookJob, c.jobs.objects, func(its *batchv1.Job) *metav1.LabelSelector { return its.Spec.Selector })
	of.Expected, of.Batch = c.jobs.expected, job.Batch
	return of
}

// owners are the owners of a kind, as the product has them. Nothing is expected of them.
func owners[T kinds.Object](c *controllers, look string, of *copyOf[T], selector func(T) *metav1.LabelSelector) control.Owners[T] {
	return control.Owners[T]{
		Kind: kindOfOwner(look), Selector: selector, Expected: workload.NewExpectations(),
		Get: func(key view.Key) (T, bool) { return of.get(name(key)) },
		In: func(namespace string) (all []T) {
			for _, set := range of.all() {
				if set.GetNamespace() == namespace {
					all = append(all, set)
				}
			}
			return all
		},
		Enqueue: func(key view.Key, after time.Duration) { c.enqueueAfter(look, name(key), after) },
	}
}

// kindOfOwner is the kind of what a look looks at.
func kindOfOwner(look string) schema.GroupVersionKind {
	switch look {
	case lookStatefulSet:
		return appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	case lookDaemonSet:
		return appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	case lookDeployment:
		return appsv1.SchemeGroupVersion.WithKind("Deployment")
	case lookJob:
		return batchv1.SchemeGroupVersion.WithKind("Job")
	}
	return appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
}

// claimer is an owner that adopts and releases objects.
type claimer struct {
	controller, resource string
	owner                kinds.Object
	kind                 schema.GroupVersionKind
	selector             *metav1.LabelSelector
	// fits reports whether an orphan may be adopted; nil is all.
	fits func(*corev1.Pod) bool
	// finalizers are on those that are adopted.
	finalizers []string
}

func claimsOfReplicaSet(set *appsv1.ReplicaSet) claimer {
	return claimer{
		controller: "replicaset-controller", resource: "replicasets.apps", owner: set, kind: kindOfOwner(lookReplicaSet),
		selector: set.Spec.Selector, fits: func(pod *corev1.Pod) bool { return !workload.IsFinished(pod) },
	}
}

func claimsOfStatefulSet(set *appsv1.StatefulSet) claimer {
	return claimer{
		controller: "statefulset-controller", resource: "statefulsets.apps", owner: set, kind: kindOfOwner(lookStatefulSet),
		selector: set.Spec.Selector, fits: func(pod *corev1.Pod) bool { return statefulset.Ordinal(pod, set) >= 0 },
	}
}

func claimsOfDaemonSet(set *appsv1.DaemonSet) claimer {
	return claimer{
		controller: daemonController, resource: "daemonsets.apps", owner: set, kind: kindOfOwner(lookDaemonSet), selector: set.Spec.Selector,
	}
}

func claimsOfJob(its *batchv1.Job) claimer {
	return claimer{
		controller: jobController, resource: "jobs.batch", owner: its, kind: kindOfOwner(lookJob), selector: its.Spec.Selector,
		finalizers: []string{job.Finalizer},
	}
}

func claimsOfDeployment(its *appsv1.Deployment) claimer {
	return claimer{
		controller: deploymentController, resource: deploymentsResource, owner: its, kind: kindOfOwner(lookDeployment), selector: its.Spec.Selector,
	}
}

// claim returns an owner's pods; see claimFrom.
func (c *controllers) claim(by claimer, then func([]*corev1.Pod, error)) {
	claimFrom(c, by, c.pods.all(), then)
}

// claimFrom finds what is an owner's of all there is, after that which it may adopt was adopted,
// and that which it does not select any more was released (control.Claimer).
func claimFrom[T kinds.Object](c *controllers, by claimer, there []T, then func([]T, error)) {
	selector, err := metav1.LabelSelectorAsSelector(by.selector)
	if err != nil {
		then(nil, err)
		return
	}
	var mine, orphans, strangers []T
	for _, obj := range there {
		switch workload.Claim(by.owner, obj, func() bool { return selector.Matches(labels.Set(obj.GetLabels())) }) {
		case workload.Mine:
			mine = append(mine, obj)
		case workload.Adopt:
			if by.matchesOrphan(obj) {
				orphans = append(orphans, obj)
			}
		case workload.Release:
			strangers = append(strangers, obj)
		case workload.NotMine:
		}
	}
	one := afterAll(len(orphans)+len(strangers), func(failed error) { then(mine, failed) })
	for _, obj := range strangers {
		c.patch(by.controller, obj, control.DisownPatch(obj, by.owner.GetUID(), by.finalizers), func(got Outcome) { one(ignoreIf(control.IsOwnerless, got.Err)) })
	}
	if len(orphans) == 0 {
		return
	}
	c.canAdopt(by, func(err error) {
		for _, obj := range orphans {
			if err != nil {
				one(ignoreIf(apierrors.IsNotFound, err))
				continue
			}
			c.patch(by.controller, obj, control.AdoptionPatch(by.owner, by.kind, obj, by.finalizers), func(got Outcome) {
				if adopted, is := got.Object.(T); is && got.Err == nil {
					mine = append(mine, adopted)
				}
				one(ignoreIf(apierrors.IsNotFound, got.Err))
			})
		}
	})
}

// matchesOrphan reports whether an object without a controller may be adopted.
func (by claimer) matchesOrphan(obj kinds.Object) bool {
	pod, is := obj.(*corev1.Pod)
	return !is || by.fits == nil || by.fits(pod)
}

// canAdopt asks the API whether an owner may adopt objects; the error says why not.
func (c *controllers) canAdopt(by claimer, then func(error)) {
	c.write(by.controller, Ask{Verb: proto.VerbGet, Target: targetOf(by.resource, by.owner, "")}, nil, func(got Outcome) {
		if fresh, is := got.Object.(kinds.Object); is && got.Err == nil {
			got.Err = control.CheckAdoption(by.owner, fresh)
		}
		then(got.Err)
	})
}

// ignoreIf returns err, or nil if fine(err).
func ignoreIf(fine func(error) bool, err error) error {
	if fine(err) {
		return nil
	}
	return err
}

// patch changes a pod, or a set, by a strategic merge patch that was decided by what was read of
// it, and patchAnyway by one for which that does not matter.
func (c *controllers) patch(controller string, obj kinds.Object, change any, then func(Outcome)) {
	c.write(controller, patchOf(obj, change), obj, then)
}

func (c *controllers) patchAnyway(controller string, obj kinds.Object, change any, then func(Outcome)) {
	c.write(controller, patchOf(obj, change), nil, then)
}

func patchOf(obj kinds.Object, change any) Ask {
	patch, err := json.Marshal(change)
	if err != nil {
		panic("sim: " + err.Error()) // plain values
	}
	resource := "pods"
	if _, is := obj.(*appsv1.ReplicaSet); is {
		resource = setsResource
	}
	return Ask{Verb: proto.VerbPatch, Target: targetOf(resource, obj, ""), PatchType: types.StrategicMergePatchType, Patch: patch}
}
