// Package fieldmanager is server-side apply: which manager has set which field of an object, how an
// applied part is merged, and what happens if two managers disagree. apimachinery's managedfields
// does the merging. This package adds the definitions of the kinds, podfall's versions and the
// cluster's time.
//
//	fieldmanager.go   what the verbs call: Apply, Track
//	scale.go          Apply through the scale subresource
//	fields.go         which fields a subresource leaves alone
//	converter.go      objects, definitions and versions as the library takes them
//
// # Cost
//
// An object that was never applied, and that was created without naming a field manager, is not
// tracked: its writes do not pass here, and it has no managedFields (docs/adr/0008).
//
// # Errors
//
// Refusals are apierrors values in upstream's words: 400 for a patch that cannot be read, 409 with
// the fields and their managers for a conflict, 500 for fields that the kind does not have.
package fieldmanager

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/openapi"
	"github.com/podfall/podfall/proto/kinds"
)

// Definitions looks up the CustomResourceDefinition of a custom kind; nil if there is none.
type Definitions func(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition

// Fields merges and tracks the fields of objects. It learns a kind when it first meets it, and is
// safe for concurrent use.
type Fields struct {
	converters *converters
}

// New returns Fields for the built-in kinds, and for the custom ones that custom finds; custom may
// be nil.
func New(custom Definitions) *Fields {
	return &Fields{converters: newConverters(openapi.BuiltIn(), custom)}
}

// Write describes one write: its kind in the requested version, its subresource and its field
// manager.
type Write struct {
	Kind        kinds.Kind
	Subresource string
	// Manager is the name of the field manager that writes.
	Manager string
}

// Patch is a part of an object as its manager wants it, in JSON or YAML.
type Patch struct {
	Data []byte
	// Force takes over fields of other managers instead of failing with a conflict.
	Force bool
	// FieldValidation says what happens to duplicate keys.
	FieldValidation string
}

// Apply returns live with the patch merged into it, in the stored version, with its managedFields
// updated. live is nil if the object does not exist yet. The strings are warnings for the client.
// live is not changed.
func (f *Fields) Apply(write Write, live kinds.Object, patch Patch) (kinds.Object, []string, error) {
	wanted, warnings, err := patch.parse()
	if err != nil {
		return nil, nil, err
	}
	manager, err := f.newManager(write)
	if err != nil {
		return nil, nil, err
	}
	before, err := f.copyLive(write, live)
	if err != nil {
		return nil, nil, err
	}
	merged, err := manager.Apply(before, wanted, write.Manager, patch.Force)
	if err != nil {
		return nil, nil, statusError(err)
	}
	obj, ok := merged.(kinds.Object)
	if !ok {
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("apply made %T, which has no metadata", merged))
	}
	if live == nil && obj.GetUID() != "" {
		return nil, nil, apierrors.NewConflict(write.Kind.GroupResource(), obj.GetName(), fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
	}
	if obj.GetResourceVersion() == "" && live != nil {
		obj.SetResourceVersion(live.GetResourceVersion())
	}
	return obj, warnings, nil
}

// parse decodes a patch.
func (p Patch) parse() (*unstructured.Unstructured, []string, error) {
	if err := yaml.Unmarshal(p.Data, &map[string]any{}); err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	document, err := yaml.YAMLToJSON(p.Data)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	wanted := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(document, &wanted.Object); err != nil { // keeps integers whole
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if wanted.Object == nil {
		wanted.Object = map[string]any{}
	}
	if p.FieldValidation == metav1.FieldValidationIgnore {
		return wanted, nil, nil
	}
	if err := yaml.UnmarshalStrict(p.Data, &map[string]any{}); err != nil {
		if p.FieldValidation == metav1.FieldValidationStrict {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		return wanted, []string{err.Error()}, nil
	}
	return wanted, nil, nil
}

// statusError returns an error of the library as an API error.
func statusError(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// IsTracked reports whether the fields of a write of obj over old have to be tracked. old is nil
// for a new object. If IsTracked is false, there is nothing to do for [Fields.Track].
func IsTracked(manager string, obj, old kinds.Object) bool {
	if old == nil {
		return manager != ""
	}
	return len(old.GetManagedFields()) > 0 || manager != "" && len(obj.GetManagedFields()) > 0
}

// Track sets obj's managedFields after write's manager has changed old, which is nil for a new
// object, to obj. The object may bring its own managedFields, which replace old's; an empty list,
// or a list of one empty entry, removes them all. If fields cannot be compared, they keep their
// managers, as in upstream's UpdateNoErrors.
func (f *Fields) Track(write Write, obj, old kinds.Object) {
	if err := f.track(write, obj, old); err != nil {
		obj.SetManagedFields(managedFieldsOf(old))
	}
}

func (f *Fields) track(write Write, obj, old kinds.Object) error {
	manager, err := f.newManager(write)
	if err != nil {
		return err
	}
	before, err := f.copyLive(write, old)
	if err != nil {
		return err
	}
	_, err = manager.Update(before, obj, write.Manager)
	return err
}

func managedFieldsOf(obj kinds.Object) []metav1.ManagedFieldsEntry {
	if obj == nil {
		return nil
	}
	return obj.GetManagedFields()
}

// copyLive returns a copy of live, or an empty object if live is nil. The library changes the
// object that it is given.
func (f *Fields) copyLive(write Write, live kinds.Object) (kinds.Object, error) {
	if live == nil {
		obj, err := newEmpty(write.Kind, write.Kind.GroupVersionKind)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return obj, nil
	}
	copied, ok := live.DeepCopyObject().(kinds.Object)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("the copy of %T has no metadata", live))
	}
	return copied, nil
}

// StampTimes sets the cluster's time on the entries of obj that this write has changed. If the
// write has changed nothing but times, StampTimes restores old's times, so that the write is a
// no-op (upstream's IgnoreManagedFieldsTimestampsTransformer).
func StampTimes(obj, old kinds.Object, now time.Time) {
	had := managedFieldsOf(old)
	entries := slices.Clone(obj.GetManagedFields())
	for i := range entries {
		kept := slices.ContainsFunc(had, func(e metav1.ManagedFieldsEntry) bool {
			return sameEntry(e, entries[i]) && e.Time.Equal(entries[i].Time)
		})
		if !kept {
			entries[i].Time = new(metav1.Unix(now.Unix(), 0))
		}
	}
	slices.SortStableFunc(entries, compareEntries)
	obj.SetManagedFields(entries)
	if old != nil && onlyTimesDiffer(entries, had) && onlyManagedFieldsDiffer(obj, old) {
		obj.SetManagedFields(had)
	}
}

// sameEntry reports whether two entries have the same manager and fields.
func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	a.Time, b.Time = nil, nil
	return kinds.Equal(a, b)
}

// compareEntries orders entries as they are listed: appliers first, then the others, each by time.
func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), entryTime(a).Compare(entryTime(b)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func entryTime(e metav1.ManagedFieldsEntry) time.Time {
	if e.Time == nil {
		return time.Time{}
	}
	return e.Time.Truncate(time.Second)
}

// onlyTimesDiffer reports whether the entries are the same except for their times.
func onlyTimesDiffer(entries, had []metav1.ManagedFieldsEntry) bool {
	if len(entries) == 0 || len(entries) != len(had) {
		return false
	}
	for _, entry := range entries {
		if !slices.ContainsFunc(had, func(e metav1.ManagedFieldsEntry) bool { return sameEntry(e, entry) }) {
			return false
		}
	}
	return true
}

func onlyManagedFieldsDiffer(obj, old kinds.Object) bool {
	now, fine := obj.DeepCopyObject().(kinds.Object)
	before, ok := old.DeepCopyObject().(kinds.Object)
	if !ok || !fine {
		return false
	}
	for _, o := range []kinds.Object{now, before} {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
	}
	return kinds.Equal(now, before)
}

// newManager returns the library's field manager for a write.
func (f *Fields) newManager(write Write) (*managedfields.FieldManager, error) {
	hub := kinds.Preferred(write.Kind).GroupVersion()
	build := managedfields.NewDefaultFieldManager
	if write.Kind.Custom {
		build = managedfields.NewDefaultCRDFieldManager
	}
	manager, err := build(typeConverter{f.converters, write.Kind}, versions{write.Kind}, noDefaults{}, versions{write.Kind},
		write.Kind.GroupVersionKind, hub, write.Subresource, f.resetFields(write))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return manager, nil
}
