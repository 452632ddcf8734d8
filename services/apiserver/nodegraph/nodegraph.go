// Package nodegraph knows which objects a node may read because pods that are bound to the node
// refer to them. Upstream's node authorizer keeps the same graph. The package follows the pods in
// the store, so a lookup needs no search.
package nodegraph

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/services/apiserver/store"
)

// Graph counts references from nodes to objects. It is safe for concurrent use. The zero Graph, and
// nil, have none.
type Graph struct {
	mu sync.RWMutex
	// edges counts the pods of a node that refer to an object.
	edges map[edge]int
}

// edge leads from a node to an object; namespace is that of the pods.
type edge struct {
	node, namespace string
	to              podrefs.Reference
}

// Load adds all pods of a snapshot. Call it before the first commit.
func (g *Graph) Load(snapshot *store.Snapshot) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.edges = map[edge]int{}
	for record := range snapshot.Scan("pods", "", "") {
		g.add(record, 1)
	}
}

// OnCommit follows every committed batch; the store's writer calls it, before any watch is served.
func (g *Graph) OnCommit(events []store.Event) {
	for _, event := range events {
		if event.Record.Key.Resource != "pods" || keepsReferences(event) {
			continue
		}
		g.mu.Lock()
		g.add(event.Previous, -1)
		if event.Type != store.Deleted {
			g.add(event.Record, 1)
		}
		g.mu.Unlock()
	}
}

// keepsReferences reports whether a change leaves a pod's references unchanged: the spec of a bound
// pod changes little.
func keepsReferences(event store.Event) bool {
	if event.Type != store.Modified || event.Previous == nil {
		return false
	}
	before, is := event.Previous.Object.(*corev1.Pod)
	after, also := event.Record.Object.(*corev1.Pod)
	return is && also && before.Spec.NodeName == after.Spec.NodeName &&
		len(before.Spec.EphemeralContainers) == len(after.Spec.EphemeralContainers)
}

// add adds by to the count of each reference of a pod. A mirror pod has none: a node creates it
// itself, and would choose what it may read.
func (g *Graph) add(record *store.Record, by int) {
	if record == nil {
		return
	}
	pod, is := record.Object.(*corev1.Pod)
	if !is || pod.Spec.NodeName == "" {
		return
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return
	}
	if g.edges == nil {
		g.edges = map[edge]int{}
	}
	for _, ref := range podrefs.List(pod) {
		e := edge{pod.Spec.NodeName, pod.Namespace, ref}
		if g.edges[e] += by; g.edges[e] <= 0 {
			delete(g.edges, e)
		}
	}
}

// Refers reports whether a pod that is bound to the node refers to the object. The resource is one
// of podrefs.
func (g *Graph) Refers(node, resource, namespace, name string) bool {
	if g == nil {
		return false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.edges[edge{node, namespace, podrefs.Reference{Resource: resource, Name: name}}] > 0
}
