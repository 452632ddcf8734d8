// Package daemonset keeps a pod on each node that a DaemonSet selects (CTL-34). decide.go says
// which nodes need one and which pods go; nodes.go says which nodes are meant, rolling.go is
// the update, status.go the status, all as pure as it is; controller.go watches, claims,
// keeps revisions, asks and acts.
package daemonset

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Burst is the largest number of pods that are created or deleted in one sync.
const Burst = 250

// View is the state of one DaemonSet.
type View struct {
	Set   *appsv1.DaemonSet
	Nodes []*corev1.Node // by name
	Pods  []*corev1.Pod
	// Hash is the hash label of pods of the current template.
	Hash string
	// Stale says that the view does not show the last writes yet.
	Stale bool
	// FailedPodDelay returns how long a failed pod of a node is still left alone; nil means not at
	// all.
	FailedPodDelay func(node string) time.Duration
}

// Plan is what to do.
type Plan struct {
	// Create are the nodes that get a pod. Delete are the pods to be deleted.
	Create []string
	Delete []*corev1.Pod
	Status appsv1.DaemonSetStatus
	Events []Event
	// Failed are the nodes whose pod is deleted because it failed. Their next failed pod is left
	// alone for longer.
	Failed []string
	// RequeueAfter is when to sync again; 0 means when something changes.
	RequeueAfter time.Duration
}

// Event is one event about the set.
type Event struct{ Type, Reason, Message string }

// planning is a plan that is being made.
type planning struct {
	View
	Plan
	now    time.Time
	onNode map[string][]*corev1.Pod // the oldest first
}

// Decide returns what to do at now: manage first, and a rolling update once manage has nothing to
// do.
func Decide(v View, now time.Time) Plan {
	s := &planning{View: v, now: now, onNode: podsByNode(v.Pods)}
	if !s.Stale && s.Set.DeletionTimestamp == nil {
		s.manage()
		if len(s.Create) == 0 && len(s.Delete) == 0 && s.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType {
			s.rollingUpdate()
		}
		s.Create = s.Create[:min(len(s.Create), Burst)]
		s.Delete = s.Delete[:min(len(s.Delete), Burst)]
	}
	s.setStatus()
	return s.Plan
}

// podsByNode returns the pods of each node, the oldest first. Pods meant for no node are under the
// empty name.
func podsByNode(pods []*corev1.Pod) map[string][]*corev1.Pod {
	nodes := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		nodes[TargetNode(pod)] = append(nodes[TargetNode(pod)], pod)
	}
	for _, there := range nodes {
		slices.SortFunc(there, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return nodes
}

// manage creates a pod on every node that should have one, and deletes the others.
func (s *planning) manage() {
	known := map[string]bool{"": true}
	for _, node := range s.Nodes {
		known[node.Name] = true
		s.manageNode(node)
	}
	for _, pod := range s.Pods {
		if !known[TargetNode(pod)] && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
			s.Delete = append(s.Delete, pod) // of a node that is gone, and never bound
		}
	}
}

// manageNode is manage for one node (podsShouldBeOnNode). A terminating pod delays the next one.
func (s *planning) manageNode(node *corev1.Node) {
	should, mayStay := ShouldRun(s.Set, node)
	pods := s.onNode[node.Name]
	switch {
	case should && len(pods) == 0:
		s.Create = append(s.Create, node.Name)
	case mayStay:
		s.deleteDuplicates(s.deleteEnded(node.Name, pods))
	default:
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil {
				s.Delete = append(s.Delete, pod)
			}
		}
	}
}

// deleteEnded plans to delete the pods of a node that have ended, the failed ones after a delay. It
// returns the others.
func (s *planning) deleteEnded(node string, pods []*corev1.Pod) []*corev1.Pod {
	var left []*corev1.Pod
	for _, pod := range pods {
		name := pod.Namespace + "/" + pod.Name
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == corev1.PodFailed:
			if s.FailedPodDelay != nil {
				if wait := s.FailedPodDelay(node); wait > 0 {
					s.RequeueAfter = minDelay(s.RequeueAfter, wait)
					continue
				}
			}
			s.Failed = append(s.Failed, node)
			s.Events = append(s.Events, Event{corev1.EventTypeWarning, "FailedDaemonPod", fmt.Sprintf("Found failed daemon pod %s on node %s, will try to kill it", name, node)})
			s.Delete = append(s.Delete, pod)
		case pod.Status.Phase == corev1.PodSucceeded:
			s.Events = append(s.Events, Event{corev1.EventTypeNormal, "SucceededDaemonPod", fmt.Sprintf("Found succeeded daemon pod %s on node %s, will try to delete it", name, node)})
			s.Delete = append(s.Delete, pod)
		default:
			left = append(left, pod)
		}
	}
	return left
}

// deleteDuplicates plans to delete all but the oldest of the pods that run on one node. An update
// with surge keeps the oldest new and the oldest old one, until the new one is available.
func (s *planning) deleteDuplicates(pods []*corev1.Pod) {
	if len(pods) <= 1 {
		return
	}
	if surge, _ := s.updateLimits(); surge == 0 {
		bound := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
		keep := max(bound, 0)
		for i, pod := range pods {
			if i != keep {
				s.Delete = append(s.Delete, pod)
			}
		}
		return
	}
	var newPod, oldPod *corev1.Pod
	for _, pod := range pods {
		switch isNew := hashOf(pod) == s.Hash; {
		case isNew && newPod == nil:
			newPod = pod
		case !isNew && oldPod == nil:
			oldPod = pod
		default:
			s.Delete = append(s.Delete, pod)
		}
	}
	if newPod != nil && oldPod != nil && (!workload.IsReady(oldPod) || s.isAvailable(newPod)) {
		s.Delete = append(s.Delete, oldPod)
	}
}

func (s *planning) isAvailable(pod *corev1.Pod) bool {
	return workload.IsAvailable(pod, s.Set.Spec.MinReadySeconds, s.now)
}

func hashOf(pod *corev1.Pod) string { return pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] }

// minDelay returns the shorter of two delays; 0 means no delay is set.
func minDelay(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
