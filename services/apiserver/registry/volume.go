package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// volumeRules returns the rules of PersistentVolumes.
func volumeRules() rules[*corev1.PersistentVolume] {
	return rules[*corev1.PersistentVolume]{
		defaults: func(pv *corev1.PersistentVolume) {
			fill(&pv.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
			fillPointer(&pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			if pv.Spec.HostPath != nil {
				fillPointer(&pv.Spec.HostPath.Type, corev1.HostPathUnset)
			}
			roundUp(pv.Spec.Capacity)
		},
		validate: validateVolume,
		validateUpdate: func(pv, old *corev1.PersistentVolume) field.ErrorList {
			f := &findings{}
			at := field.NewPath("spec")
			if !kinds.Equal(pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource) {
				f.forbidden(at.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation\n"+
					diff.Diff(pv.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource))
			}
			f.checkImmutable(pv.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))
			return f.errs
		},
	}
}

func validateVolume(pv *corev1.PersistentVolume) field.ErrorList {
	f := &findings{}
	at, spec := field.NewPath("spec"), &pv.Spec
	f.checkAccessModes(at.Child("accessModes"), spec.AccessModes, "")
	switch _, sized := spec.Capacity[corev1.ResourceStorage]; {
	case len(spec.Capacity) == 0:
		f.required(at.Child("capacity"), "")
	case !sized || len(spec.Capacity) > 1:
		f.add(field.NotSupported(at.Child("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	default:
		f.checkAboveZero(at.Child("capacity").Key("storage"), spec.Capacity)
	}
	checkOneOf(f, at.Child("persistentVolumeReclaimPolicy"), spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)
	set := nonNilFields(spec.PersistentVolumeSource)
	if len(set) == 0 {
		f.required(at, "must specify a volume type")
	}
	for _, name := range set[min(1, len(set)):] {
		f.forbidden(at.Child(name), "may not specify more than 1 volume type")
	}
	if spec.HostPath != nil {
		f.checkNotEmpty(at.Child("hostPath", "path"), spec.HostPath.Path)
		f.checkNoDotDot(at.Child("hostPath", "path"), spec.HostPath.Path)
	}
	if name := spec.StorageClassName; name != "" {
		f.invalid(at.Child("storageClassName"), name, validation.IsDNS1123Subdomain(name)...)
	}
	f.checkVolumeMode(at.Child("volumeMode"), spec.VolumeMode)
	return f.errs
}

// nonNilFields returns the JSON names of the non-nil pointers in a struct.
func nonNilFields(of any) []string {
	var names []string
	value := reflect.ValueOf(of)
	for i := range value.NumField() {
		if !value.Field(i).IsNil() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// checkAccessModes requires at least one mode, and ReadWriteOncePod to be the only one.
func (f *findings) checkAccessModes(at *field.Path, modes []corev1.PersistentVolumeAccessMode, missing string) {
	if len(modes) == 0 {
		f.required(at, missing)
	}
	for _, mode := range modes {
		checkOneOf(f, at, mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) {
		f.forbidden(at, "may not use ReadWriteOncePod with other access modes")
	}
}

func (f *findings) checkAboveZero(at *field.Path, list corev1.ResourceList) {
	if amount := list[corev1.ResourceStorage]; amount.Sign() <= 0 {
		f.invalid(at, amount.String(), "must be greater than zero")
	}
}

func (f *findings) checkVolumeMode(at *field.Path, mode *corev1.PersistentVolumeMode) {
	if mode != nil {
		checkOneOf(f, at, *mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
}

// claimRules returns the rules of PersistentVolumeClaims.
func claimRules() rules[*corev1.PersistentVolumeClaim] {
	return rules[*corev1.PersistentVolumeClaim]{
		defaults:       defaultClaim,
		validate:       func(c *corev1.PersistentVolumeClaim) field.ErrorList { return validateClaim(&c.Spec) },
		validateUpdate: validateClaimUpdate,
		validateStatus: func(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
			f := &findings{}
			at := field.NewPath("status")
			for name := range c.Status.Capacity {
				f.checkQuantity(at.Child("capacity").Key(string(name)), c.Status.Capacity[name])
			}
			return f.errs
		},
	}
}

func defaultClaim(claim *corev1.PersistentVolumeClaim) {
	fillPointer(&claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(claim.Spec.Resources.Limits)
	roundUp(claim.Spec.Resources.Requests)
}

func validateClaim(spec *corev1.PersistentVolumeClaimSpec) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	f.checkAccessModes(at.Child("accessModes"), spec.AccessModes, "at least 1 access mode is required")
	f.checkSelector(at.Child("selector"), spec.Selector)
	storage := at.Child("resources").Key("storage")
	if _, sized := spec.Resources.Requests[corev1.ResourceStorage]; !sized {
		f.required(storage, "")
	} else {
		f.checkAboveZero(at.Child("resources").Key("storage"), spec.Resources.Requests)
	}
	if name := spec.StorageClassName; name != nil && *name != "" {
		f.invalid(at.Child("storageClassName"), *name, validation.IsDNS1123Subdomain(*name)...)
	}
	f.checkVolumeMode(at.Child("volumeMode"), spec.VolumeMode)
	return f.errs
}

// validateClaimUpdate allows a claim to be bound, once, and a bound one to grow.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec")
	rest := claim.Spec.DeepCopy()
	if old.Spec.VolumeName == "" {
		rest.VolumeName = ""
	}
	if old.Spec.StorageClassName == nil && old.Status.Phase == corev1.ClaimPending {
		rest.StorageClassName = nil // a default class that came later
	}
	if old.Status.Phase == corev1.ClaimBound {
		if requested, ok := rest.Resources.Requests[corev1.ResourceStorage]; ok {
			had := old.Spec.Resources.Requests[corev1.ResourceStorage]
			if requested.Cmp(had) < 0 {
				f.forbidden(at.Child("resources", "requests", "storage"), "field can not be less than previous value")
			}
			rest.Resources.Requests[corev1.ResourceStorage] = had
		}
		rest.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
	}
	if !kinds.Equal(*rest, old.Spec) {
		f.forbidden(at, fmt.Sprintf("spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims\n%v", diff.Diff(old.Spec, *rest)))
	}
	return f.errs
}

// storageClassRules returns the rules of StorageClasses.
func storageClassRules() rules[*storagev1.StorageClass] {
	return rules[*storagev1.StorageClass]{
		defaults: func(class *storagev1.StorageClass) {
			fillPointer(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
			fillPointer(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
		},
		validate: func(class *storagev1.StorageClass) field.ErrorList {
			f := &findings{}
			if f.checkNotEmpty(field.NewPath("provisioner"), class.Provisioner) {
				f.checkQualifiedName(field.NewPath("provisioner"), strings.ToLower(class.Provisioner))
			}
			checkOneOf(f, field.NewPath("reclaimPolicy"), *class.ReclaimPolicy,
				corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
			checkOneOf(f, field.NewPath("volumeBindingMode"), *class.VolumeBindingMode,
				storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
			return f.errs
		},
		validateUpdate: func(class, old *storagev1.StorageClass) field.ErrorList {
			f := &findings{}
			for _, fixed := range []struct {
				name     string
				now, was any
			}{
				{"parameters", class.Parameters, old.Parameters},
				{"provisioner", class.Provisioner, old.Provisioner},
				{"reclaimPolicy", class.ReclaimPolicy, old.ReclaimPolicy},
			} {
				if !kinds.Equal(fixed.now, fixed.was) {
					f.forbidden(field.NewPath(fixed.name), "updates to "+fixed.name+" are forbidden.")
				}
			}
			f.checkImmutable(class.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))
			return f.errs
		},
	}
}
