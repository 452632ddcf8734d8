package sim

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/podgc"
	"github.com/podfall/podfall/services/controllers/scheduler"
	"github.com/podfall/podfall/services/controllers/tainteviction"
)

// eviction is when a pod is to be evicted.
type eviction struct {
	uid  types.UID
	at   time.Time
	done bool
}

func (c *controllers) podChanged(old, now *corev1.Pod) {
	c.ownerChanged(old, now)
	c.jobPodChanged(old, now)
	c.disruptedPodChanged(old, now)
	c.diskPodChanged(old, now)
	c.observe(old, now)
	if now == nil {
		c.scheduling.RemovePod(old)
		delete(c.evictions, nameOf(old))
	} else {
		c.scheduling.SetPod(now)
		if tainteviction.AffectsEviction(old, now) {
			c.look(lookEviction, nameOf(now))
		}
	}
	c.out.Wake(lookSchedule, c.now)
}

// schedule decides about every pod that can be decided about now.
func (c *controllers) schedule() {
	for pod := c.scheduling.Next(); pod != nil; pod = c.scheduling.Next() {
		decision := scheduler.Decide(pod, c.scheduling.World())
		switch decision.Outcome {
		case scheduler.Bind:
			c.scheduling.Place(pod, decision.Node)
			c.bind(pod, decision.Node)
		case scheduler.Wait, scheduler.Preempt, scheduler.Provision:
			c.scheduling.Wait(pod)
			c.refused(pod, decision.Message)
		case scheduler.Skip, scheduler.Gated:
		}
	}
}

func (c *controllers) bind(pod *corev1.Pod, node string) {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	c.write("scheduler", Ask{Verb: proto.VerbCreate, Target: targetOf("pods", pod, "binding"), Object: binding}, nil, func(got Got) {
		if got.Err == nil {
			return
		}
		c.scheduling.Free(pod.UID)
		if !apierrors.IsNotFound(got.Err) && !apierrors.IsConflict(got.Err) {
			c.scheduling.Reconsider(pod)
		}
		c.out.Wake(lookSchedule, c.now.Add(time.Second))
	})
}

// refused tells why the pod stays pending, once per reason.
func (c *controllers) refused(pod *corev1.Pod, message string) {
	if condition := podcondition.Find(pod, corev1.PodScheduled); condition != nil && condition.Message == message {
		return
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []map[string]any{{
			"type": corev1.PodScheduled, "status": corev1.ConditionFalse, "reason": corev1.PodReasonUnschedulable, "message": message,
		}}},
	})
	if err == nil {
		c.write("scheduler", Ask{
			Verb: proto.VerbPatch, Target: targetOf("pods", pod, "status"), PatchType: types.StrategicMergePatchType, Patch: patch,
		}, nil, nil)
	}
}

// collect removes the pods that nobody else will.
func (c *controllers) collect() {
	view := podgc.View{Pods: c.pods.all(), Nodes: map[string]*corev1.Node{}, Threshold: podgc.DefaultThreshold, MissingSince: c.missed}
	for _, node := range c.nodes.all() {
		view.Nodes[node.Name] = node
	}
	plan := podgc.Decide(view, c.now)
	c.missed = plan.MissingSince
	for _, removal := range plan.Removals {
		c.discard(removal)
	}
	for _, suspect := range plan.Suspects {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: suspect}}
		c.write("pod-garbage-collector-controller", Ask{Verb: proto.VerbGet, Target: targetOf("nodes", node, "")}, nil, func(got Got) {
			if !apierrors.IsNotFound(got.Err) {
				return
			}
			for _, removal := range podgc.Orphans(view.Pods, []string{suspect}) {
				c.discard(removal)
			}
		})
	}
}

// discard fails the pod if it is not terminal, and takes it away whatever its UID is now.
func (c *controllers) discard(removal podgc.Removal) {
	pod := removal.Pod
	final := func() {
		c.write("pod-garbage-collector-controller", Ask{Verb: proto.VerbDelete, Target: targetOf("pods", pod, ""), Options: metav1.NewDeleteOptions(0)}, nil, nil)
	}
	if podgc.IsTerminal(pod) {
		final()
		return
	}
	var condition *corev1.PodCondition
	if removal.Orphaned {
		condition = new(podcondition.Disruption("DeletionByPodGC", "PodGC: node no longer exists"))
	}
	c.patchPod("pod-garbage-collector-controller", pod, corev1.PodFailed, condition, func(err error) {
		if err == nil {
			final()
		}
	})
}

// patchPod gives a pod a phase and a condition, unless it has both.
func (c *controllers) patchPod(controller string, pod *corev1.Pod, phase corev1.PodPhase, condition *corev1.PodCondition, then func(error)) {
	patch, err := podcondition.Patch(pod, phase, condition, c.shown())
	if err != nil || patch == nil {
		then(err)
		return
	}
	c.write(controller, Ask{
		Verb: proto.VerbPatch, Target: targetOf("pods", pod, "status"), PatchType: types.StrategicMergePatchType, Patch: patch,
	}, nil, func(got Got) { then(got.Err) })
}

// syncEviction has a pod leave a node that it does not tolerate.
func (c *controllers) syncEviction(key string, of name) {
	pod, there := c.pods.get(of)
	if !there {
		return
	}
	node, found := c.nodes.get(name{"", pod.Spec.NodeName})
	if !found {
		delete(c.evictions, of)
		return
	}
	known := c.evictions[of]
	if known.uid != pod.UID {
		known = eviction{}
	}
	switch decision := tainteviction.Decide(pod.Spec.Tolerations, node.Spec.Taints, known.at, c.now); decision.Outcome {
	case tainteviction.Cancel:
		delete(c.evictions, of)
		return
	case tainteviction.Schedule:
		if known.done {
			return
		}
		known = eviction{uid: pod.UID, at: decision.At}
		c.evictions[of] = known
	case tainteviction.Keep:
	}
	if known.done {
		return
	}
	if wait := known.at.Sub(c.now); wait > 0 {
		c.lookAfter(lookEviction, of, wait)
		return
	}
	known.done = true
	c.evictions[of] = known
	c.evict(key, pod)
}

func (c *controllers) evict(key string, pod *corev1.Pod) {
	disrupted := podcondition.Disruption("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	done := c.begun(key)
	c.patchPod("taint-eviction-controller", pod, "", &disrupted, func(err error) {
		if err != nil {
			done(nil)
			return
		}
		c.write("taint-eviction-controller", Ask{Verb: proto.VerbDelete, Target: targetOf("pods", pod, ""), Options: &metav1.DeleteOptions{}}, nil, func(Got) {
			done(nil)
		})
	})
}
