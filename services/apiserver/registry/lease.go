package registry

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// leaseStrategy is the strategy of Leases, which nodes renew as a heartbeat.
type leaseStrategy struct{ generic }

func (leaseStrategy) PrepareForCreate(obj kinds.Object, _ time.Time) {
	dropElection(as[*coordinationv1.Lease](obj))
}

func (leaseStrategy) PrepareForUpdate(obj, _ kinds.Object, _ string) {
	dropElection(as[*coordinationv1.Lease](obj))
}

// dropElection drops the fields of coordinated leader election, which upstream has disabled.
func dropElection(lease *coordinationv1.Lease) {
	lease.Spec.Strategy = nil
	lease.Spec.PreferredHolder = nil
}

func (s leaseStrategy) Validate(obj kinds.Object) field.ErrorList {
	return append(ValidateMeta(s.kind, obj), validateLease(as[*coordinationv1.Lease](obj))...)
}

func (s leaseStrategy) ValidateUpdate(obj, old kinds.Object, _ string) field.ErrorList {
	return append(validateKindMetaUpdate(obj, old), validateLease(as[*coordinationv1.Lease](obj))...)
}

// validateLease returns what is wrong with a Lease besides its metadata. Any renewTime is allowed.
func validateLease(lease *coordinationv1.Lease) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		f.invalid(at.Child("leaseDurationSeconds"), *seconds, "must be greater than 0")
	}
	if transitions := lease.Spec.LeaseTransitions; transitions != nil && *transitions < 0 {
		f.invalid(at.Child("leaseTransitions"), *transitions, "must be greater than or equal to 0")
	}
	return f.errs
}
