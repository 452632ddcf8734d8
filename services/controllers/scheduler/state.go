package scheduler

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
)

// State is the scheduler's view: the nodes with the resources in use, and the pods that wait. Only
// one loop may use it.
type State struct {
	nodes map[string]*NodeView
	// sorted are the nodes by name; nil if they have to be sorted again.
	sorted []*NodeView
	// placed holds every pod that uses resources of a node, bound or about to be.
	placed map[types.UID]*corev1.Pod
	// nodeNames has the node of each placed pod.
	nodeNames map[types.UID]string
	waiting   waitingPods
	related   relatedObjects
	// startNodeIndex is the node to check first in the next decision.
	startNodeIndex int
}

// waitingPods are the pods without a node.
type waitingPods struct {
	// pods holds all of them. queue is the order in which to decide about them, and may name pods
	// that no longer wait. An unschedulable pod is not in the queue.
	pods       map[types.UID]*pendingPod
	queue      []queueItem
	lastNumber int
	// attempts is how often the scheduler has decided about each pod.
	attempts map[types.UID]int
	// nominated is the node that victims are leaving for a pod; preempted are the victims.
	nominated map[types.UID]string
	preempted map[types.UID]bool
}

// relatedObjects are the other objects that decisions depend on.
type relatedObjects struct {
	storage    *Storage
	namespaces map[string]map[string]string
	budgets    map[types.UID]Budget
}

// queueItem is a pod's position in the queue: by priority, then by arrival.
type queueItem struct {
	uid      types.UID
	priority int32
	number   int
}

type pendingPod struct {
	pod    *corev1.Pod
	queued bool
}

// NewState returns an empty state.
func NewState() *State {
	return &State{
		nodes:     map[string]*NodeView{},
		placed:    map[types.UID]*corev1.Pod{},
		nodeNames: map[types.UID]string{},
		waiting: waitingPods{
			pods: map[types.UID]*pendingPod{}, attempts: map[types.UID]int{},
			nominated: map[types.UID]string{}, preempted: map[types.UID]bool{},
		},
		related: relatedObjects{
			storage: NewStorage(), namespaces: map[string]map[string]string{}, budgets: map[types.UID]Budget{},
		},
	}
}

// World returns the input of the next decision. It shares the state's maps: use it before the state
// changes.
func (s *State) World() World {
	world := World{
		Nodes: s.Nodes(), Namespaces: s.related.namespaces, Storage: s.related.storage, Budgets: s.related.budgets,
		Nominated: s.waiting.nominated, Preempted: s.waiting.preempted, StartNodeIndex: s.startNodeIndex,
	}
	if len(world.Nodes) > 0 {
		s.startNodeIndex = (s.startNodeIndex + numFeasibleNodesToFind(len(world.Nodes))) % len(world.Nodes)
	}
	return world
}

// Nodes are the known nodes, by name.
func (s *State) Nodes() []*NodeView {
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Values(s.nodes), func(a, b *NodeView) int { return cmp.Compare(a.Name, b.Name) })
	}
	return s.sorted
}

// SetNode stores a node that is new or has changed. Waiting pods are queued again if the change
// could help them.
func (s *State) SetNode(node *corev1.Node) {
	view, known := s.nodes[node.Name]
	if !known {
		view = NewNodeView(node)
		s.nodes[node.Name], s.sorted = view, nil
		s.startNodeIndex = 0
		for uid, name := range s.nodeNames {
			if name == node.Name {
				view.AddPod(s.placed[uid])
			}
		}
		s.requeueIf(anyPod)
		return
	}
	before := view.Object
	ready := view.Ready
	view.SetNode(node)
	if ready != view.Ready || before.Generation != node.Generation || !acceptsSamePods(before, node) {
		s.requeueIf(anyPod)
	}
}

// acceptsSamePods reports whether two versions of a node accept the same pods; a heartbeat changes
// nothing.
func acceptsSamePods(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable &&
		slices.Equal(taintTexts(a), taintTexts(b)) &&
		maps.Equal(a.Labels, b.Labels) &&
		resourcesEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// RemoveNode removes a deleted node.
func (s *State) RemoveNode(name string) {
	delete(s.nodes, name)
	s.sorted = nil
}

// SetPod stores a pod that is new or has changed.
func (s *State) SetPod(pod *corev1.Pod) {
	switch {
	case !HoldsResources(pod):
		s.RemovePod(pod)
	case pod.Spec.NodeName != "":
		s.removeWaiting(pod.UID)
		s.Place(pod, pod.Spec.NodeName)
	case !responsibleForPod(pod):
		// Another scheduler's.
	case s.nodeNames[pod.UID] != "":
		// About to be bound: the bound version follows.
	case pod.DeletionTimestamp == nil && pod.Status.NominatedNodeName != "" && s.waiting.nominated[pod.UID] == "":
		s.Nominate(pod, pod.Status.NominatedNodeName, nil)
		s.enqueue(pod)
	default:
		s.enqueue(pod)
	}
}

// responsibleForPod reports whether the pod names this scheduler.
func responsibleForPod(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName
}

// removeWaiting removes a pod from the waiting pods.
func (s *State) removeWaiting(uid types.UID) {
	delete(s.waiting.pods, uid)
	delete(s.waiting.attempts, uid)
	if node := s.nodes[s.waiting.nominated[uid]]; node != nil {
		delete(node.Nominated, uid)
	}
	delete(s.waiting.nominated, uid)
}

// Nominate reserves for the pod the resources that victims leave on a node.
func (s *State) Nominate(pod *corev1.Pod, node string, victims []*corev1.Pod) {
	if before := s.nodes[s.waiting.nominated[pod.UID]]; before != nil {
		delete(before.Nominated, pod.UID)
	}
	s.waiting.nominated[pod.UID] = node
	if view := s.nodes[node]; view != nil {
		if view.Nominated == nil {
			view.Nominated = map[types.UID]*corev1.Pod{}
		}
		view.Nominated[pod.UID] = pod
	}
	for _, victim := range victims {
		s.waiting.preempted[victim.UID] = true
	}
}

// CancelPreemption notes that a victim was not deleted after all.
func (s *State) CancelPreemption(uid types.UID) { delete(s.waiting.preempted, uid) }

// needsNoDecision reports whether nothing that a decision depends on has changed: the status has
// only what this scheduler wrote itself.
func needsNoDecision(a, b *corev1.Pod) bool {
	return a != b && maps.Equal(a.Labels, b.Labels) && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		kinds.Equal(a.Spec, b.Spec)
}

func (s *State) enqueue(pod *corev1.Pod) {
	known := s.waiting.pods[pod.UID]
	if known == nil {
		known = &pendingPod{}
		s.waiting.pods[pod.UID] = known
	}
	same := known.pod != nil && needsNoDecision(known.pod, pod)
	known.pod = pod
	if known.queued || same {
		return // queued already, or unschedulable and unchanged
	}
	known.queued = true
	s.waiting.lastNumber++
	next := queueItem{uid: pod.UID, priority: Priority(pod), number: s.waiting.lastNumber}
	i, _ := slices.BinarySearchFunc(s.waiting.queue, next, func(a, b queueItem) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.number, b.number))
	})
	s.waiting.queue = slices.Insert(s.waiting.queue, i, next)
}

// RemovePod removes a pod that is gone or terminal, and frees its resources.
func (s *State) RemovePod(pod *corev1.Pod) {
	s.removeWaiting(pod.UID)
	delete(s.waiting.preempted, pod.UID)
	s.Free(pod.UID)
}

// Place counts the pod on the node, before its binding is stored or after.
func (s *State) Place(pod *corev1.Pod, node string) {
	isNew := s.nodeNames[pod.UID] != node
	s.removePlacement(pod.UID)
	s.removeWaiting(pod.UID)
	s.placed[pod.UID], s.nodeNames[pod.UID] = pod, node
	if view := s.nodes[node]; view != nil {
		view.AddPod(pod)
	}
	if isNew {
		s.requeueIf(mayWaitForPods)
	}
}

// mayWaitForPods reports whether the pod may wait for the placement of another pod.
func mayWaitForPods(pod *corev1.Pod) bool {
	return pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAffinity != nil || len(pod.Spec.TopologySpreadConstraints) > 0
}

func anyPod(*corev1.Pod) bool { return true }

// Free undoes a placement: the pod is gone, or its binding was refused.
func (s *State) Free(uid types.UID) {
	if s.removePlacement(uid) {
		s.requeueIf(anyPod)
	}
}

func (s *State) removePlacement(uid types.UID) bool {
	pod, placed := s.placed[uid]
	if !placed {
		return false
	}
	if view := s.nodes[s.nodeNames[uid]]; view != nil {
		view.RemovePod(pod)
	}
	delete(s.placed, uid)
	delete(s.nodeNames, uid)
	return true
}

// Reconsider queues the pod again after its binding was refused. If the pod has changed since, its
// newer version is queued or placed already.
func (s *State) Reconsider(pod *corev1.Pod) {
	if s.waiting.pods[pod.UID] == nil && s.nodeNames[pod.UID] == "" {
		s.enqueue(pod)
	}
}

// Next takes the next pod to decide about; nil if there is none.
func (s *State) Next() *corev1.Pod {
	for len(s.waiting.queue) > 0 {
		uid := s.waiting.queue[0].uid
		s.waiting.queue = s.waiting.queue[1:]
		if next := s.waiting.pods[uid]; next != nil && next.queued {
			delete(s.waiting.pods, uid)
			s.waiting.attempts[uid]++
			return next.pod
		}
	}
	return nil
}

// Attempts is how often the scheduler has decided about a pod without a node.
func (s *State) Attempts(uid types.UID) int { return s.waiting.attempts[uid] }

// CountWaiting returns how many pods are in the queue, and how many wait for a change.
func (s *State) CountWaiting() (active, refused int) {
	for _, one := range s.waiting.pods {
		if one.queued {
			active++
		} else {
			refused++
		}
	}
	return active, refused
}

// Wait keeps the pod until a change could help it.
func (s *State) Wait(pod *corev1.Pod) { s.waiting.pods[pod.UID] = &pendingPod{pod: pod} }

// requeueIf queues the waiting pods that a change could help, the oldest first.
func (s *State) requeueIf(helped func(*corev1.Pod) bool) {
	var pods []*corev1.Pod
	for _, waiting := range s.waiting.pods {
		if !waiting.queued && helped(waiting.pod) {
			pods = append(pods, waiting.pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range pods {
		s.enqueue(pod)
	}
}

func taintTexts(node *corev1.Node) []string {
	texts := make([]string, 0, len(node.Spec.Taints))
	for _, taint := range node.Spec.Taints {
		texts = append(texts, taint.ToString())
	}
	return texts
}

func resourcesEqual(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, quantity := range a {
		other, ok := b[name]
		if !ok || quantity.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

func removeNode(s *State, node *corev1.Node) { s.RemoveNode(node.Name) }
