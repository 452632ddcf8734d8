package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/podfall/podfall/proto/kinds"
)

func renewTime(obj kinds.Object) int64 {
	if lease, ok := obj.(*coordinationv1.Lease); ok && lease.Spec.RenewTime != nil {
		return lease.Spec.RenewTime.Unix()
	}
	return 0
}
