package node

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
)

// renew renews the lease, which shows that the kubelet lives (KBL-80).
func (n *Node) renew(ctx context.Context) error {
	ctx, cancel := n.cfg.Clock.Timeout(ctx, n.cfg.Timing.LeaseRenew) // a late renewal is worth less than the next
	defer cancel()
	for range 3 {
		err := n.renewOnce(ctx)
		if err == nil {
			return nil
		}
		if !mayHaveChanged(err) {
			return err
		}
		n.lease = nil
		if err := n.fetchLease(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("renew lease of node %s: somebody else writes it", n.cfg.Name)
}

// mayHaveChanged reports whether the lease may differ from the one that the kubelet knows. If the
// lease was deleted with its node, an update with a resourceVersion is an InternalError, as
// upstream's: updates create leases, but not with a resourceVersion. Upstream's kubelet fetches the
// lease again after any failure (retryUpdateLease).
func mayHaveChanged(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInternalError(err)
}

func (n *Node) renewOnce(ctx context.Context) error {
	lease := n.cfg.Lease(n.lease, n.current.Load(), n.cfg.Clock.Now())
	if n.lease == nil {
		obj, err := n.cfg.API.Create(ctx, n.leaseTarget(""), lease, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create lease of node %s: %w", n.cfg.Name, err)
		}
		return n.takeLease(obj)
	}
	obj, err := n.cfg.API.Update(ctx, n.leaseTarget(n.cfg.Name), lease, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("renew lease of node %s: %w", n.cfg.Name, err)
	}
	return n.takeLease(obj)
}

// Lease returns the node's renewed lease. Old is nil if there is none, and owner if the node's
// object is not known.
func (cfg Config) Lease(old *coordinationv1.Lease, owner *corev1.Node, now time.Time) *coordinationv1.Lease {
	seconds := int32(cfg.Timing.LeaseDuration / time.Second)
	lease := &coordinationv1.Lease{}
	if old != nil {
		*lease = *old // what is not set below is shared, and only read
	} else {
		lease.Namespace, lease.Name = leaseNamespace, cfg.Name
		if owner != nil {
			lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: owner.Name, UID: owner.UID}}
		}
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &cfg.Name, &seconds
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Truncate(time.Microsecond)}
	return lease
}

func (n *Node) fetchLease(ctx context.Context) error {
	obj, err := n.cfg.API.Get(ctx, n.leaseTarget(n.cfg.Name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get lease of node %s: %w", n.cfg.Name, err)
	}
	return n.takeLease(obj)
}

func (n *Node) takeLease(obj any) error {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return fmt.Errorf("lease of node %s: the API answered with a %T", n.cfg.Name, obj)
	}
	n.lease = lease
	return nil
}

func (n *Node) leaseTarget(name string) podapi.Target {
	return podapi.Target{Kind: n.cfg.Leases, Namespace: leaseNamespace, Name: name}
}
