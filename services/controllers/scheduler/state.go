package scheduler

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is what the scheduler believes: the nodes with what is taken of them, and the
// pods that wait. It changes only through its methods and is owned by one loop.
type State struct {
	nodes map[string]*NodeView
	// sorted are the nodes by name; nil when they have to be sorted again.
	sorted []*NodeView
	// placed holds every pod that takes part of a node, bound or about to be.
	placed map[types.UID]*corev1.Pod
	// on names the node of each placed pod.
	on map[types.UID]string
	// pending holds every pod without a node; queue is the order in which to decide
	// about them, and may still name pods that are pending no longer. A pod for which
	// there was no room is pending but not queued.
	pending map[types.UID]*pending
	queue   []types.UID
}

type pending struct {
	pod    *corev1.Pod
	queued bool
}

// NewState knows nothing.
func NewState() *State {
	return &State{
		nodes:   map[string]*NodeView{},
		placed:  map[types.UID]*corev1.Pod{},
		on:      map[types.UID]string{},
		pending: map[types.UID]*pending{},
	}
}

// Nodes are the known nodes, by name.
func (s *State) Nodes() []*NodeView {
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Values(s.nodes), func(a, b *NodeView) int { return cmp.Compare(a.Name, b.Name) })
	}
	return s.sorted
}

// SetNode takes over a node that is new or has changed. Waiting pods get another try
// if the change could help them.
func (s *State) SetNode(node *corev1.Node) {
	view, known := s.nodes[node.Name]
	if !known {
		view = NewNodeView(node)
		s.nodes[node.Name], s.sorted = view, nil
		for uid, name := range s.on {
			if name == node.Name {
				view.Take(s.placed[uid])
			}
		}
		s.retry()
		return
	}
	before := view.Object
	ready := view.Ready
	view.Set(node)
	if ready != view.Ready || before.Generation != node.Generation || !sameOffer(before, node) {
		s.retry()
	}
}

// sameOffer reports whether two versions of a node accept the same pods; a heartbeat
// changes nothing.
func sameOffer(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable &&
		slices.Equal(taints(a), taints(b)) &&
		maps.Equal(a.Labels, b.Labels) &&
		resourcesEqual(a.Status.Allocatable, b.Status.Allocatable)
}

// RemoveNode forgets a node.
func (s *State) RemoveNode(name string) {
	delete(s.nodes, name)
	s.sorted = nil
}

// SetPod takes over a pod that is new or has changed.
func (s *State) SetPod(pod *corev1.Pod) {
	switch {
	case !Holds(pod):
		s.RemovePod(pod)
	case pod.Spec.NodeName != "":
		delete(s.pending, pod.UID)
		s.Place(pod, pod.Spec.NodeName)
	case s.on[pod.UID] != "":
		// About to be bound: the bound version follows.
	default:
		s.enqueue(pod)
	}
}

func (s *State) enqueue(pod *corev1.Pod) {
	known := s.pending[pod.UID]
	if known == nil {
		known = &pending{}
		s.pending[pod.UID] = known
	}
	known.pod = pod
	if !known.queued {
		known.queued = true
		s.queue = append(s.queue, pod.UID)
	}
}

// RemovePod forgets a pod that is gone or finished; what it took is free again.
func (s *State) RemovePod(pod *corev1.Pod) {
	delete(s.pending, pod.UID)
	s.Free(pod.UID)
}

// Place counts the pod on the node, before its binding is stored or after.
func (s *State) Place(pod *corev1.Pod, node string) {
	if s.on[pod.UID] == node {
		return
	}
	s.remove(pod.UID)
	s.placed[pod.UID], s.on[pod.UID] = pod, node
	if view := s.nodes[node]; view != nil {
		view.Take(pod)
	}
}

// Free takes a placement back: the pod is gone, or its binding was refused.
func (s *State) Free(uid types.UID) {
	if s.remove(uid) {
		s.retry()
	}
}

func (s *State) remove(uid types.UID) bool {
	pod, placed := s.placed[uid]
	if !placed {
		return false
	}
	if view := s.nodes[s.on[uid]]; view != nil {
		view.Give(pod)
	}
	delete(s.placed, uid)
	delete(s.on, uid)
	return true
}

// Reconsider queues the pod again after its binding was refused, unless it has changed
// since: then its newer version is queued or placed already.
func (s *State) Reconsider(pod *corev1.Pod) {
	if s.pending[pod.UID] == nil && s.on[pod.UID] == "" {
		s.enqueue(pod)
	}
}

// Next takes the next pod to decide about; nil when there is none.
func (s *State) Next() *corev1.Pod {
	for len(s.queue) > 0 {
		uid := s.queue[0]
		s.queue = s.queue[1:]
		if next := s.pending[uid]; next != nil && next.queued {
			delete(s.pending, uid)
			return next.pod
		}
	}
	return nil
}

// Wait keeps the pod until something changes that could help it.
func (s *State) Wait(pod *corev1.Pod) { s.pending[pod.UID] = &pending{pod: pod} }

// retry queues every waiting pod again, the oldest first.
func (s *State) retry() {
	var pods []*corev1.Pod
	for _, waiting := range s.pending {
		if !waiting.queued {
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

func taints(node *corev1.Node) []string {
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

// replaceNodes makes the known nodes exactly these.
func replaceNodes(s *State, nodes []*corev1.Node) {
	listed := map[string]bool{}
	for _, node := range nodes {
		listed[node.Name] = true
		s.SetNode(node)
	}
	for name := range s.nodes {
		if !listed[name] {
			s.RemoveNode(name)
		}
	}
}

func removeNode(s *State, node *corev1.Node) { s.RemoveNode(node.Name) }

// replacePods makes the known pods exactly these.
func replacePods(s *State, pods []*corev1.Pod) {
	listed := map[types.UID]bool{}
	for _, pod := range pods {
		listed[pod.UID] = true
	}
	for uid := range s.pending {
		if !listed[uid] {
			delete(s.pending, uid)
		}
	}
	for uid, pod := range s.placed {
		if !listed[uid] {
			s.RemovePod(pod)
		}
	}
	for _, pod := range pods {
		s.SetPod(pod)
	}
}
