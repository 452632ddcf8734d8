package sim

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/deployment"
	"github.com/podfall/podfall/services/controllers/view"
)

const (
	deploymentController = "deployment-controller"
	deploymentsResource  = "deployments.apps"
	setsResource         = "replicasets.apps"
	lookDeployment       = "deployment"
)

// newRollouts returns the copy of Deployments. If Deployments are not followed, the copy counts as
// synced.
func (c *controllers) newRollouts() *copyOf[*appsv1.Deployment] {
	all := newCopy(func(old, now *appsv1.Deployment) { c.enqueue(lookDeployment, nameOf(view.Either(old, now))) })
	all.synced = !c.includes(deploymentsResource)
	return all
}

// ofDeployments has Deployments looked at, as the product has them.
func (c *controllers) ofDeployments() deployment.ChangeHandler {
	return deployment.ChangeHandler{
		Deployment: func(key view.Key) (*appsv1.Deployment, bool) { return c.rollouts.get(name(key)) },
		DeploymentsIn: func(namespace string) (all []*appsv1.Deployment) {
			for _, its := range c.rollouts.all() {
				if its.Namespace == namespace {
					all = append(all, its)
				}
			}
			return all
		},
		ReplicaSet: func(key view.Key) (*appsv1.ReplicaSet, bool) { return c.replicas.get(name(key)) },
		Enqueue:    func(key view.Key) { c.enqueue(lookDeployment, name(key)) },
	}
}

// syncDeployment takes steps for a Deployment until one makes no ReplicaSet.
func (c *controllers) syncDeployment(key string, of name) {
	its, known := c.rollouts.get(of)
	if !known {
		return
	}
	done := c.start(key)
	claimFrom(c, claimsOfDeployment(its), c.replicas.all(), func(sets []*appsv1.ReplicaSet, err error) {
		if err != nil {
			done(err)
			return
		}
		v := deployment.View{Deployment: its, Sets: sets, Pods: map[types.UID][]*corev1.Pod{}}
		for _, set := range sets {
			v.Pods[set.UID] = c.owned(set)
		}
		c.rollOut(v, done)
	})
}

// rollOut takes the next step of a Deployment.
func (c *controllers) rollOut(v deployment.View, done func(error)) {
	plan := deployment.Decide(v, c.clockTime())
	if plan.Create == nil {
		c.runPlan(v.Deployment, plan, done)
		return
	}
	c.write(deploymentController, createRequest(setsResource, plan.Create.Namespace, plan.Create), nil, func(got Outcome) {
		made, is := got.Object.(*appsv1.ReplicaSet)
		switch {
		case got.Err == nil && is:
			c.rollOut(deployment.AfterCreate(v, made, c.clockTime()), done)
		case apierrors.IsAlreadyExists(got.Err):
			c.adoptExistingSet(v, plan.Create, done)
		case control.IsNamespaceTerminating(got.Err):
			done(got.Err)
		default:
			stored, _ := deployment.AfterCreateFailed(v, plan.Create, got.Err, c.clockTime())
			c.storeRollout(v.Deployment, stored, func(error) { done(got.Err) })
		}
	})
}

// adoptExistingSet reads the ReplicaSet that already has the name of a new one.
func (c *controllers) adoptExistingSet(v deployment.View, set *appsv1.ReplicaSet, done func(error)) {
	c.write(deploymentController, Ask{Verb: proto.VerbGet, Target: targetOf(setsResource, set, "")}, nil, func(got Outcome) {
		there, is := got.Object.(*appsv1.ReplicaSet)
		switch {
		case got.Err != nil || !is:
			done(got.Err)
		case deployment.IsNewSetOf(v.Deployment, there):
			c.rollOut(deployment.AfterCreate(v, there, c.clockTime()), done)
		default:
			c.storeRollout(v.Deployment, deployment.WithCollision(v.Deployment), done)
		}
	})
}

// runPlan carries out a plan in order, the status last.
func (c *controllers) runPlan(its *appsv1.Deployment, plan deployment.Plan, done func(error)) {
	if plan.RolledBack != nil {
		c.write(deploymentController, updateOf(deploymentsResource, plan.RolledBack, ""), its, func(got Outcome) { done(got.Err) })
		return
	}
	var next func(error)
	next = func(failed error) {
		switch {
		case failed != nil:
			done(failed)
		case len(plan.Scale) > 0:
			set := plan.Scale[0].Set
			plan.Scale = plan.Scale[1:]
			c.write(deploymentController, updateOf(setsResource, set, ""), set, func(got Outcome) { next(got.Err) })
		case len(plan.Delete) > 0:
			set := plan.Delete[0]
			plan.Delete = plan.Delete[1:]
			options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &set.UID}}
			ask := Ask{Verb: proto.VerbDelete, Target: targetOf(setsResource, set, ""), Options: options}
			c.write(deploymentController, ask, set, func(got Outcome) { next(ignoreIf(control.IsGone, got.Err)) })
		case plan.Store != nil:
			stored := plan.Store
			plan.Store = nil
			c.storeRollout(its, stored, next)
		default:
			if plan.RequeueAfter > 0 {
				c.enqueueAfter(lookDeployment, nameOf(its), plan.RequeueAfter)
			}
			done(nil)
		}
	}
	next(nil)
}

// storeRollout stores the status of a Deployment.
func (c *controllers) storeRollout(its, changed *appsv1.Deployment, then func(error)) {
	c.write(deploymentController, updateOf(deploymentsResource, changed, "status"), its, func(got Outcome) { then(got.Err) })
}
