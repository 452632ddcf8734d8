package fieldmanager

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/podfall/podfall/proto/kinds"
)

// resetFields returns the fields that a write leaves unchanged whatever is sent. A manager that
// sends them does not come to own them (upstream's GetResetFields).
func (f *Fields) resetFields(write Write) map[fieldpath.APIVersion]fieldpath.Filter {
	left := fieldpath.NewSet()
	switch {
	case write.Subresource == "status":
		left.Insert(fieldpath.MakePathOrDie("spec"))
		left.Insert(fieldpath.MakePathOrDie("metadata", "deletionTimestamp"))
		left.Insert(fieldpath.MakePathOrDie("metadata", "ownerReferences"))
		if write.Kind.Custom { // of which a status update changes nothing but the status
			left.Insert(fieldpath.MakePathOrDie("metadata"))
		}
	case f.hasStatusSubresource(write.Kind):
		left.Insert(fieldpath.MakePathOrDie("status"))
	default:
		return nil
	}
	byVersion := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range f.versionsOf(write.Kind) {
		byVersion[fieldpath.APIVersion(version.String())] = left
	}
	return fieldpath.NewExcludeFilterSetMap(byVersion)
}

// hasStatusSubresource reports whether a kind's status is written through a subresource.
func (f *Fields) hasStatusSubresource(kind kinds.Kind) bool {
	if !kind.Custom {
		obj, err := kinds.New(kind.GroupVersionKind)
		return err == nil && reflect.ValueOf(obj).Elem().FieldByName("Status").IsValid()
	}
	crd := f.converters.crd(kind.GroupResource())
	if crd == nil {
		return false
	}
	for _, v := range crd.Spec.Versions {
		if v.Name == kind.Version {
			return v.Subresources != nil && v.Subresources.Status != nil
		}
	}
	return false
}

// versionsOf returns the versions in which objects of a kind may have been applied.
func (f *Fields) versionsOf(kind kinds.Kind) []schema.GroupVersion {
	found := []schema.GroupVersion{kind.GroupVersion()}
	if kind.Custom {
		if crd := f.converters.crd(kind.GroupResource()); crd != nil {
			for _, v := range crd.Spec.Versions {
				found = append(found, schema.GroupVersion{Group: kind.Group, Version: v.Name})
			}
		}
		return found
	}
	for _, served := range kinds.Versions(kind.GroupResource()) {
		found = append(found, served.GroupVersion())
	}
	return found
}
