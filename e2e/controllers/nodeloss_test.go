package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
)

// loseNode cuts off a node that has a pod of a Deployment and of a StatefulSet; the other node
// takes over what it may.
func loseNode(t *testing.T, test func(r *rig, node string)) {
	runInBubble(t, stage.Config{Nodes: 2, Controllers: []string{"*"}}, func(r *rig) {
		r.patchNode("node-2", `{"spec":{"unschedulable":true}}`)
		r.create("deployments.apps", deployment(1))
		r.create("statefulsets.apps", statefulSet("db", 1))
		r.waitRunning(2)
		r.patchNode("node-2", `{"spec":{"unschedulable":false}}`)
		r.cluster.Cut("node-1")
		test(r, "node-1")
	})
}

// patchNode returns when the controllers have seen the change: what is created next is bound by it.
func (r *rig) patchNode(node, patch string) {
	r.t.Helper()
	target := podapi.Target{Kind: r.kind("nodes"), Name: node}
	if _, err := r.api.Patch(r.t.Context(), target, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
	r.cluster.WaitIdle()
}

// findPods returns the pods of an app: those that stay and those that terminate.
func (r *rig) findPods(app string) (stay, going []*corev1.Pod) {
	r.t.Helper()
	for _, pod := range r.pods() {
		switch {
		case pod.Labels["app"] != app:
		case pod.DeletionTimestamp != nil:
			going = append(going, pod)
		default:
			stay = append(stay, pod)
		}
	}
	return stay, going
}

// TestSilentNode is TRC-14 for workloads: 350 s after the node went silent its pods are marked;
// the Deployment's is replaced at once, the StatefulSet's never, until the node is back.
func TestSilentNode(t *testing.T) {
	loseNode(t, func(r *rig, node string) {
		took := r.waitUntil("the pods are marked", func() bool { _, going := r.findPods("db"); return len(going) == 1 })
		if took < 340*time.Second || took > 360*time.Second {
			r.t.Errorf("marked after %v, want about 350 s", took)
		}
		r.waitUntil("the Deployment has another pod", func() bool { stay, _ := r.findPods("web"); return len(stay) == 1 && isReady(stay[0]) })
		time.Sleep(20 * time.Minute)
		if stay, going := r.findPods("db"); len(stay) != 0 || len(going) != 1 {
			r.t.Fatalf("db has %d pods and %d that terminate, want only the one that terminates", len(stay), len(going))
		}
		if _, going := r.findPods("web"); len(going) != 1 {
			r.t.Fatal("the old pod of the Deployment is gone, though nobody can know what it does")
		}
		r.cluster.Heal(node)
		r.waitRunning(2)
	})
}

// TestNodeDeleted is TRC-15 for workloads: a minute after the node is deleted its pods are gone,
// and the StatefulSet runs elsewhere.
func TestNodeDeleted(t *testing.T) {
	loseNode(t, func(r *rig, node string) {
		r.cluster.Stop("kubelet/" + node) // or it would register again
		if _, err := r.api.Delete(r.t.Context(), podapi.Target{Kind: r.kind("nodes"), Name: node}, metav1.DeleteOptions{}); err != nil {
			r.t.Fatal(err)
		}
		took := r.waitUntil("both run elsewhere", func() bool {
			for _, app := range []string{"web", "db"} {
				stay, going := r.findPods(app)
				if len(going) != 0 || len(stay) != 1 || !isReady(stay[0]) || stay[0].Spec.NodeName == node {
					return false
				}
			}
			return true
		})
		if took < 40*time.Second || took > 75*time.Second {
			r.t.Errorf("elsewhere after %v, want 40 to 60 s and a start", took)
		}
	})
}

// TestOutOfService is TRC-16 for workloads: the taint says that nothing runs there any more, so
// that the StatefulSet runs elsewhere 20 s later at most.
func TestOutOfService(t *testing.T) {
	loseNode(t, func(r *rig, node string) {
		r.waitUntil("the pods are marked", func() bool { _, going := r.findPods("db"); return len(going) == 1 })
		r.patchNode(node, `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`)
		took := r.waitUntil("the StatefulSet runs elsewhere", func() bool {
			stay, going := r.findPods("db")
			return len(going) == 0 && len(stay) == 1 && isReady(stay[0]) && stay[0].Spec.NodeName != node
		})
		if took > 30*time.Second {
			r.t.Errorf("elsewhere after %v", took)
		}
	})
}
