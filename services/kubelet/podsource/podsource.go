// Package podsource queues the work of the kubelet's loop: changes of the node's pods, as the API's
// watch shows them, as operations in order. podset decides what an operation is.
package podsource

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podset"
)

// Set is the node's pods as the API last showed them, and the operations not taken yet. It is a
// sink for podapi's Follow.
//
// # Order
//
// Operations of one UID are taken in the order in which the API showed them. The next operation
// replaces one that has not been taken (newest wins), except that a removal never hides the change
// before it: a kubelet that was too busy still learns that the grace was shortened before the pod
// was removed (KBL-17).
//
// # Blocking
//
// Replace and Apply never block, so that a paused loop (KBL-07) does not stall the watch. At most
// three operations wait for each UID.
type Set struct {
	mu     sync.Mutex
	pods   map[types.UID]*corev1.Pod
	ops    []podset.Op
	synced bool
	wake   chan struct{}
	first  chan struct{} // closed when the first list has come
	// seenRevision is the resourceVersion that the API showed last. takenRevision is its value when
	// the operations were last taken.
	seenRevision, takenRevision string
}

// New returns an empty set.
func New() *Set {
	return &Set{pods: map[types.UID]*corev1.Pod{}, wake: make(chan struct{}, 1), first: make(chan struct{})}
}

// Replace takes a complete list.
func (s *Set) Replace(items []kinds.Object, resourceVersion string) {
	var after []*corev1.Pod
	for _, item := range items {
		if pod, ok := item.(*corev1.Pod); ok {
			after = append(after, pod)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seenRevision = resourceVersion
	ops := podset.Diff(s.pods, after)
	clear(s.pods)
	for _, pod := range after {
		s.pods[pod.UID] = pod
	}
	if !s.synced {
		close(s.first)
	}
	s.synced = true
	s.add(ops...)
	s.signal() // an empty first list is news too: the sources are ready
}

// Apply takes one event of a watch.
func (s *Set) Apply(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if event.Type != watch.Error {
		s.seenRevision = pod.ResourceVersion
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		s.upsert(pod)
	case watch.Deleted:
		if last := s.pods[pod.UID]; last != nil {
			delete(s.pods, pod.UID)
			s.add(podset.Op{Verb: podset.Remove, Pod: last})
		}
	case watch.Bookmark, watch.Error:
	}
}

// upsert adds or updates a pod. It first removes an older UID of the same name (KBL-03).
func (s *Set) upsert(pod *corev1.Pod) {
	if s.pods[pod.UID] == nil {
		for _, other := range s.pods { // at most one: the API has each name once
			if other.Namespace == pod.Namespace && other.Name == pod.Name {
				delete(s.pods, other.UID)
				s.add(podset.Op{Verb: podset.Remove, Pod: other})
			}
		}
	}
	op, differs := podset.Change(s.pods[pod.UID], pod)
	s.pods[pod.UID] = pod
	if differs {
		s.add(op)
	}
}

func (s *Set) add(ops ...podset.Op) {
	for _, op := range ops {
		s.put(op)
	}
	if len(ops) > 0 {
		s.signal()
	}
}

func (s *Set) put(op podset.Op) {
	if op.Verb == podset.Remove || op.Verb == podset.Add {
		s.ops = append(s.ops, op)
		return
	}
	for i := len(s.ops) - 1; i >= 0; i-- {
		waiting := s.ops[i]
		if waiting.Pod.UID != op.Pod.UID {
			continue
		}
		if waiting.Verb == podset.Remove || waiting.Verb == podset.Add {
			break
		}
		// A status change must not hide a waiting update.
		s.ops[i] = podset.Op{Verb: min(waiting.Verb, op.Verb), Pod: op.Pod}
		if waiting.Verb == podset.Delete || op.Verb == podset.Delete {
			s.ops[i].Verb = podset.Delete
		}
		return
	}
	s.ops = append(s.ops, op)
}

func (s *Set) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wake is readable when operations wait, or when the first list has come.
func (s *Set) Wake() <-chan struct{} { return s.wake }

// Synced is closed when the first list has come.
func (s *Set) Synced() <-chan struct{} { return s.first }

// Take returns the waiting operations. Ready says whether a complete list has been seen since the
// start (KBL-05).
func (s *Set) Take() (ops []podset.Op, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops, s.ops, s.takenRevision = s.ops, nil, s.seenRevision
	return ops, s.synced
}

// TakenRevision returns the resourceVersion up to which all operations have been taken; empty
// before the first list. No removal before it is still to come.
func (s *Set) TakenRevision() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ops) == 0 {
		return s.seenRevision
	}
	return s.takenRevision
}

// Get returns the pod of the UID as the API last showed it. It reports false until the first list
// has come. After that a nil pod means that the API has no such UID.
func (s *Set) Get(uid types.UID) (pod *corev1.Pod, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid], s.synced
}

// All returns the pods as the API last showed them, oldest first.
func (s *Set) All() []*corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return podset.Sorted(s.pods)
}
