package view

import (
	corev1 "k8s.io/api/core/v1"
)

// The indexes that every copy has. An object without a controller is found under its
// namespace, by a value that no UID has.
const (
	byNamespace = "namespace"
	byOwner     = "controller"
	orphanIn    = "/"
)

// byNode is the index of pods by the node to which they are bound.
const byNode = "node"

// IndexByNode indexes the pods of a copy by their node; see [BoundTo].
func IndexByNode(pods *Copy[*corev1.Pod]) {
	pods.Index(byNode, func(pod *corev1.Pod) []string {
		if pod.Spec.NodeName == "" {
			return nil
		}
		return []string{pod.Spec.NodeName}
	})
}

// BoundTo returns every pod that is bound to a node, by namespace and name. The copy must have been
// passed to [IndexByNode].
func BoundTo(pods *Copy[*corev1.Pod], node string) []*corev1.Pod { return pods.ByIndex(byNode, node) }

// index maps a value to the keys of objects.
type index struct{ keys map[string]map[Key]struct{} }

func newIndex() *index { return &index{keys: map[string]map[Key]struct{}{}} }

func (ix *index) put(key Key, values []string) {
	for _, value := range values {
		if ix.keys[value] == nil {
			ix.keys[value] = map[Key]struct{}{}
		}
		ix.keys[value][key] = struct{}{}
	}
}

func (ix *index) drop(key Key, values []string) {
	for _, value := range values {
		delete(ix.keys[value], key)
		if len(ix.keys[value]) == 0 {
			delete(ix.keys, value)
		}
	}
}
