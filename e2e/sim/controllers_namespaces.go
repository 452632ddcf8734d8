package sim

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/job"
	namespaces "github.com/podfall/podfall/services/controllers/namespace"
)

const namespaceController = "namespace-controller"

// namespaceChanged has a namespace looked at that is being deleted.
func (c *controllers) namespaceChanged(old, now *corev1.Namespace) {
	if job.BecomesTerminating(old, now) {
		for _, its := range c.jobs.objects.all() {
			if its.Namespace == now.Name {
				c.look(lookJob, nameOf(its))
			}
		}
	}
	if now != nil && now.DeletionTimestamp != nil {
		c.lookAfter(lookNamespace, nameOf(now), namespaces.SettleTime)
	}
}

// syncNamespace empties a namespace that is being deleted, and lets it go.
func (c *controllers) syncNamespace(key string, of name) {
	known, there := c.namespaces.get(of)
	if !there || namespaces.NextStep(known) == namespaces.Nothing {
		return
	}
	done := c.begun(key)
	c.write(namespaceController, Ask{Verb: proto.VerbGet, Target: targetOf("namespaces", known, "")}, nil, func(got Got) {
		ns, is := got.Object.(*corev1.Namespace)
		switch {
		case got.Err != nil || !is:
			done(lest(apierrors.IsNotFound, got.Err))
		case namespaces.NextStep(ns) == namespaces.MarkPhase:
			c.updateNamespace(ns, namespaces.WithTerminatingPhase(ns), "status", done, func(marked *corev1.Namespace) { c.sweep(marked, done) })
		case namespaces.NextStep(ns) == namespaces.Empty:
			c.sweep(ns, done)
		default:
			done(nil)
		}
	})
}

// updateNamespace changes a namespace; then is told what it is since, and done of a failure.
func (c *controllers) updateNamespace(read, changed *corev1.Namespace, subresource string, done func(error), then func(*corev1.Namespace)) {
	ask := updating("namespaces", changed, subresource)
	c.write(namespaceController, ask, read, func(got Got) {
		stored, is := got.Object.(*corev1.Namespace)
		if got.Err != nil || !is {
			done(got.Err)
			return
		}
		then(stored)
	})
}

// sweep asks for everything in a namespace to go, the pods before all else.
func (c *controllers) sweep(ns *corev1.Namespace, done func(error)) {
	var served []kinds.Kind
	for _, resource := range c.resources {
		served = append(served, kindOfResource(resource))
	}
	pods, others := namespaces.Content(served)
	c.empty(ns, pods, func(left namespaces.Leftover) {
		swept := namespaces.Sweep{Left: []namespaces.Leftover{left}}
		if left.Remains() {
			c.swept(ns, swept, done)
			return
		}
		c.sweepOthers(ns, others, swept, done)
	})
}

// sweepOthers goes on with other kinds, one after the other.
func (c *controllers) sweepOthers(ns *corev1.Namespace, others []kinds.Kind, swept namespaces.Sweep, done func(error)) {
	if len(others) == 0 {
		c.swept(ns, swept, done)
		return
	}
	c.empty(ns, others[0], func(left namespaces.Leftover) {
		swept.Left = append(swept.Left, left)
		c.sweepOthers(ns, others[1:], swept, done)
	})
}

// empty asks for all objects of a kind to go, and finds what is left of them.
func (c *controllers) empty(ns *corev1.Namespace, kind kinds.Kind, then func(namespaces.Leftover)) {
	resource := kind.GroupVersionResource()
	c.inside(ns, kind, func(before []kinds.Object, err error) {
		if err != nil || len(before) == 0 {
			then(namespaces.Leftover{Resource: resource, Err: err})
			return
		}
		grace := namespaces.PodGrace(before, ns.DeletionTimestamp.Time, c.shown())
		options := namespaces.DeleteOptions()
		ask := Ask{Verb: proto.VerbDeleteCollection, Target: podapi.Target{Kind: kind, Namespace: ns.Name}, Options: &options}
		c.write(namespaceController, ask, nil, func(got Got) {
			if err := lest(apierrors.IsNotFound, got.Err); err != nil {
				then(namespaces.Leftover{Resource: resource, Count: len(before), Err: err})
				return
			}
			c.inside(ns, kind, func(after []kinds.Object, err error) {
				if err != nil {
					then(namespaces.Leftover{Resource: resource, Err: err})
					return
				}
				then(namespaces.NewLeftover(ns.Name, resource, after, grace))
			})
		})
	})
}

// inside are the objects of a kind in a namespace.
func (c *controllers) inside(ns *corev1.Namespace, kind kinds.Kind, then func([]kinds.Object, error)) {
	ask := Ask{Verb: proto.VerbList, Target: podapi.Target{Kind: kind, Namespace: ns.Name}, Options: &metav1.ListOptions{}}
	c.write(namespaceController, ask, nil, func(got Got) {
		if got.Err != nil {
			then(nil, got.Err)
			return
		}
		items, _, err := itemsOf(got, c.client.Decoded)
		then(items, err)
	})
}

// swept does what a sweep asks for.
func (c *controllers) swept(ns *corev1.Namespace, sweep namespaces.Sweep, done func(error)) {
	verdict := namespaces.Evaluate(ns, sweep, c.shown())
	if !verdict.Changed {
		c.concluded(ns, verdict, done)
		return
	}
	told := ns.DeepCopy()
	told.Status.Conditions = verdict.Conditions
	c.updateNamespace(ns, told, "status", done, func(stored *corev1.Namespace) { c.concluded(stored, verdict, done) })
}

// concluded lets a namespace go, or has it looked at again.
func (c *controllers) concluded(ns *corev1.Namespace, verdict namespaces.Verdict, done func(error)) {
	switch {
	case verdict.Err != nil:
		done(verdict.Err)
	case verdict.Finalize:
		gone := func(err error) { done(lest(apierrors.IsNotFound, err)) }
		c.updateNamespace(ns, namespaces.WithoutContentFinalizer(ns), "finalize", gone, func(*corev1.Namespace) { done(nil) })
	default:
		done(nil)
		c.lookAfter(lookNamespace, nameOf(ns), verdict.RequeueAfter)
	}
}
