package scheduler

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
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
	on      map[types.UID]string
	waiting waitingPods
	around  surroundings
	// from is the node to begin the next search with.
	from int
}

// waitingPods are those without a node.
type waitingPods struct {
	// pods holds all of them; queue is the order in which to decide about them, and may still
	// name pods that wait no longer. A pod for which there was no room is not in the queue.
	pods  map[types.UID]*pending
	queue []ticket
	last  int
	// tries is how often each was decided about.
	tries map[types.UID]int
	// nominated is the node on which room is being made for a pod, going are those who were
	// asked to make it.
	nominated map[types.UID]string
	going     map[types.UID]bool
}

// surroundings is what else decisions look at.
type surroundings struct {
	storage    *Storage
	namespaces map[string]map[string]string
	budgets    map[types.UID]Budget
}

// ticket is a place in the queue: by priority, then by who came first.
type ticket struct {
	uid      types.UID
	priority int32
	number   int
}

type pending struct {
	pod    *corev1.Pod
	queued bool
}

// NewState knows nothing.
func NewState() *State {
	return &State{
		nodes:  map[string]*NodeView{},
		placed: map[types.UID]*corev1.Pod{},
		on:     map[types.UID]string{},
		waiting: waitingPods{
			pods: map[types.UID]*pending{}, tries: map[types.UID]int{},
			nominated: map[types.UID]string{}, going: map[types.UID]bool{},
		},
		around: surroundings{
			storage: NewStorage(), namespaces: map[string]map[string]string{}, budgets: map[types.UID]Budget{},
		},
	}
}

// World is what the next decision is made in. It is the state's own: use it before the state
// changes.
func (s *State) World() World {
	world := World{
		Nodes: s.Nodes(), Namespaces: s.around.namespaces, Storage: s.around.storage, Budgets: s.around.budgets,
		Nominated: s.waiting.nominated, Going: s.waiting.going, From: s.from,
	}
	if len(world.Nodes) > 0 {
		s.from = (s.from + enough(len(world.Nodes))) % len(world.Nodes)
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

// SetNode takes over a node that is new or has changed. Waiting pods get another try
// if the change could help them.
func (s *State) SetNode(node *corev1.Node) {
	view, known := s.nodes[node.Name]
	if !known {
		view = NewNodeView(node)
		s.nodes[node.Name], s.sorted = view, nil
		s.from = 0
		for uid, name := range s.on {
			if name == node.Name {
				view.Take(s.placed[uid])
			}
		}
		s.retry(anyPod)
		return
	}
	before := view.Object
	ready := view.Ready
	view.Set(node)
	if ready != view.Ready || before.Generation != node.Generation || !sameOffer(before, node) {
		s.retry(anyPod)
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
		s.leave(pod.UID)
		s.Place(pod, pod.Spec.NodeName)
	case !ours(pod):
		// Another scheduler's.
	case s.on[pod.UID] != "":
		// About to be bound: the bound version follows.
	case pod.DeletionTimestamp == nil && pod.Status.NominatedNodeName != "" && s.waiting.nominated[pod.UID] == "":
		s.Nominate(pod, pod.Status.NominatedNodeName, nil)
		s.enqueue(pod)
	default:
		s.enqueue(pod)
	}
}

// ours reports whether the pod asks for this scheduler.
func ours(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName
}

// leave takes a pod out of those that wait.
func (s *State) leave(uid types.UID) {
	delete(s.waiting.pods, uid)
	delete(s.waiting.tries, uid)
	if node := s.nodes[s.waiting.nominated[uid]]; node != nil {
		delete(node.Nominated, uid)
	}
	delete(s.waiting.nominated, uid)
}

// Nominate keeps the room for pod that victims make on a node.
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
		s.waiting.going[victim.UID] = true
	}
}

// Spare takes back that a pod was asked to go.
func (s *State) Spare(uid types.UID) { delete(s.waiting.going, uid) }

// sameWish reports whether nothing that decides about a pod has changed: its status says only
// what this scheduler wrote itself.
func sameWish(a, b *corev1.Pod) bool {
	return a != b && maps.Equal(a.Labels, b.Labels) && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		kinds.Equal(a.Spec, b.Spec)
}

func (s *State) enqueue(pod *corev1.Pod) {
	known := s.waiting.pods[pod.UID]
	if known == nil {
		known = &pending{}
		s.waiting.pods[pod.UID] = known
	}
	same := known.pod != nil && sameWish(known.pod, pod)
	known.pod = pod
	if known.queued || same {
		return // it has its place, or was told already why it has none
	}
	known.queued = true
	s.waiting.last++
	next := ticket{uid: pod.UID, priority: Priority(pod), number: s.waiting.last}
	i, _ := slices.BinarySearchFunc(s.waiting.queue, next, func(a, b ticket) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.number, b.number))
	})
	s.waiting.queue = slices.Insert(s.waiting.queue, i, next)
}

// RemovePod forgets a pod that is gone or finished; what it took is free again.
func (s *State) RemovePod(pod *corev1.Pod) {
	s.leave(pod.UID)
	delete(s.waiting.going, pod.UID)
	s.Free(pod.UID)
}

// Place counts the pod on the node, before its binding is stored or after.
func (s *State) Place(pod *corev1.Pod, node string) {
	isNew := s.on[pod.UID] != node
	s.remove(pod.UID)
	s.leave(pod.UID)
	s.placed[pod.UID], s.on[pod.UID] = pod, node
	if view := s.nodes[node]; view != nil {
		view.Take(pod)
	}
	if isNew {
		s.retry(wantsCompany)
	}
}

// wantsCompany reports whether a pod that has come may be what this one waits for.
func wantsCompany(pod *corev1.Pod) bool {
	return pod.Spec.Affinity != nil && pod.Spec.Affinity.PodAffinity != nil || len(pod.Spec.TopologySpreadConstraints) > 0
}

func anyPod(*corev1.Pod) bool { return true }

// Free takes a placement back: the pod is gone, or its binding was refused.
func (s *State) Free(uid types.UID) {
	if s.remove(uid) {
		s.retry(anyPod)
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
	if s.waiting.pods[pod.UID] == nil && s.on[pod.UID] == "" {
		s.enqueue(pod)
	}
}

// Next takes the next pod to decide about; nil when there is none.
func (s *State) Next() *corev1.Pod {
	for len(s.waiting.queue) > 0 {
		uid := s.waiting.queue[0].uid
		s.waiting.queue = s.waiting.queue[1:]
		if next := s.waiting.pods[uid]; next != nil && next.queued {
			delete(s.waiting.pods, uid)
			s.waiting.tries[uid]++
			return next.pod
		}
	}
	return nil
}

// Tries is how often a pod that has no node yet was decided about.
func (s *State) Tries(uid types.UID) int { return s.waiting.tries[uid] }

// Waiting is how many pods are to be decided about, and how many wait for a change.
func (s *State) Waiting() (active, refused int) {
	for _, one := range s.waiting.pods {
		if one.queued {
			active++
		} else {
			refused++
		}
	}
	return active, refused
}

// Wait keeps the pod until something changes that could help it.
func (s *State) Wait(pod *corev1.Pod) { s.waiting.pods[pod.UID] = &pending{pod: pod} }

// retry queues the waiting pods again that could be helped, the oldest first.
func (s *State) retry(helped func(*corev1.Pod) bool) {
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

func removeNode(s *State, node *corev1.Node) { s.RemoveNode(node.Name) }
