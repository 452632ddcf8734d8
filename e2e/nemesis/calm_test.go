package nemesis

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
)

// stableTime is how long nothing may change, in cluster time.
const stableTime = 70 * time.Second

// calmTimeout bounds how long the cluster may take to reach the desired state, in wall time.
const calmTimeout = 4 * time.Minute

// awaitCalm waits until the cluster reaches the desired state and keeps it for stableTime. Then it
// deletes everything and waits until all is gone.
func (l *load) awaitCalm(t *testing.T, c *cluster) {
	t.Helper()
	ctx := t.Context()
	var since time.Time
	last := ""
	eventually(t, "the cluster is as desired, and stays so", calmTimeout, func() error {
		state, err := l.checkSettled(ctx)
		if err != nil {
			since = time.Time{}
			return err
		}
		now, err := c.now(ctx)
		if err != nil {
			return err
		}
		if since.IsZero() || state != last {
			since, last = now, state
		}
		if now.Sub(since) < stableTime {
			return stillError("only %v", now.Sub(since))
		}
		return nil
	})
	eventually(t, "every pod is gone", calmTimeout, func() error { return l.deleteAll(ctx) })
}

// checkSettled returns the revision of the pods once everything is as desired.
func (l *load) checkSettled(ctx context.Context) (string, error) {
	if err := l.checkNodes(ctx); err != nil {
		return "", err
	}
	pods, err := l.api.List(ctx, target("pods", ""), metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	state := ""
	for _, item := range pods.Items {
		pod, ok := item.(*corev1.Pod)
		if !ok {
			continue
		}
		state += pod.Name + " " + pod.ResourceVersion + "\n"
		if pod.DeletionTimestamp == nil {
			continue
		}
		if len(pod.Finalizers) > 0 {
			_, err = l.api.Patch(ctx, target("pods", pod.Name), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		}
		return "", stillError("terminating: %s on %q, %v (%v)", pod.Name, pod.Spec.NodeName, pod.Status.Phase, err)
	}
	return state, l.checkSets(ctx)
}

func (l *load) checkNodes(ctx context.Context) error {
	nodes, err := l.api.List(ctx, target("nodes", ""), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, item := range nodes.Items {
		node, ok := item.(*corev1.Node)
		if !ok {
			continue
		}
		if node.Spec.Unschedulable {
			if _, err := l.api.Patch(ctx, target("nodes", node.Name), types.MergePatchType, []byte(`{"spec":{"unschedulable":null}}`), metav1.PatchOptions{}); err != nil {
				return err
			}
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if !ready || len(node.Spec.Taints) > 0 {
			return stillError("not well: %s, tainted %v", node.Name, node.Spec.Taints)
		}
	}
	return nil
}

func (l *load) checkSets(ctx context.Context) error {
	for _, resource := range []string{"replicasets.apps", "statefulsets.apps"} {
		sets, err := l.api.List(ctx, target(resource, ""), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range sets.Items {
			if item.GetDeletionTimestamp() != nil {
				return stillError("being deleted: %s", item.GetName())
			}
			switch set := item.(type) {
			case *appsv1.ReplicaSet:
				if set.Status.ReadyReplicas != *set.Spec.Replicas || set.Status.Replicas != *set.Spec.Replicas {
					return stillError("%d of %d ready: %s", set.Status.ReadyReplicas, *set.Spec.Replicas, set.Name)
				}
			case *appsv1.StatefulSet:
				if set.Status.ReadyReplicas != *set.Spec.Replicas || set.Status.Replicas != *set.Spec.Replicas {
					return stillError("%d of %d ready: %s", set.Status.ReadyReplicas, *set.Spec.Replicas, set.Name)
				}
			}
		}
	}
	return nil
}

// deleteAll deletes all objects; it returns nil once none is left.
func (l *load) deleteAll(ctx context.Context) error {
	left := 0
	for _, resource := range []string{"replicasets.apps", "statefulsets.apps", "pods"} {
		list, err := l.api.List(ctx, target(resource, ""), metav1.ListOptions{})
		if err != nil {
			return err
		}
		left += len(list.Items)
		for _, item := range list.Items {
			if err := l.deleteOne(ctx, target(resource, item.GetName()), item); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	if left > 0 {
		return stillError("%d are left", left)
	}
	return nil
}

func (l *load) deleteOne(ctx context.Context, t podapi.Target, item metav1.Object) error {
	if item.GetDeletionTimestamp() == nil {
		_, err := l.api.Delete(ctx, t, metav1.DeleteOptions{})
		return err
	}
	if slices.Contains(item.GetFinalizers(), "example.com/backup") {
		_, err := l.api.Patch(ctx, t, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}
	return nil
}
