// Package fieldmanager is server-side apply: who has set which field of an object, what
// becomes of an object when somebody applies a part of one, and when two of them disagree.
// The merging itself is done by apimachinery's managedfields; this package gives it the
// definitions of the kinds, podfall's versions and the cluster's time.
//
//	fieldmanager.go   what the verbs ask: Apply, Track
//	scale.go          Apply through the scale subresource
//	fields.go         which fields which door leaves alone
//	converter.go      objects, definitions and versions as the library takes them
//
// # Cost
//
// An object that nobody has applied, and that was created without naming a field manager, is
// not tracked: its writes do not pass here, and it has no managedFields (docs/adr/0008).
//
// # Errors
//
// Refusals are apierrors values in upstream's words: 400 for what cannot be read, 409 with
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

// Definitions looks up the CustomResourceDefinition of a custom kind; nil when there is none.
type Definitions func(gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition

// Fields knows how the fields of each kind merge. It learns a kind when it first meets it, and
// is safe for concurrent use.
type Fields struct {
	converters *converters
}

// New knows the built-in kinds, and the custom ones that custom finds; custom may be nil.
func New(custom Definitions) *Fields {
	return &Fields{converters: newConverters(openapi.BuiltIn(), custom)}
}

// Door is what a write goes through: a kind, in the version that is asked for, and a
// subresource of it.
type Door struct {
	Kind        kinds.Kind
	Subresource string
	// Manager is who writes.
	Manager string
}

// Patch is a part of an object that its manager wants to be so, in JSON or YAML.
type Patch struct {
	Data []byte
	// Force takes over the fields of others instead of refusing.
	Force bool
	// FieldValidation says what happens to keys that are there twice.
	FieldValidation string
}

// Apply is live with the patch merged into it, in the version that is stored, its
// managedFields brought up to date. live is nil for an object that there is not yet. The
// strings are warnings for the sender. live is not changed.
func (f *Fields) Apply(door Door, live kinds.Object, patch Patch) (kinds.Object, []string, error) {
	wanted, warnings, err := patch.read()
	if err != nil {
		return nil, nil, err
	}
	manager, err := f.manager(door)
	if err != nil {
		return nil, nil, err
	}
	before, err := f.before(door, live)
	if err != nil {
		return nil, nil, err
	}
	merged, err := manager.Apply(before, wanted, door.Manager, patch.Force)
	if err != nil {
		return nil, nil, refused(err)
	}
	obj, ok := merged.(kinds.Object)
	if !ok {
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("apply made %T, which has no metadata", merged))
	}
	if live == nil && obj.GetUID() != "" {
		return nil, nil, apierrors.NewConflict(door.Kind.GroupResource(), obj.GetName(), fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", obj.GetUID()))
	}
	if obj.GetResourceVersion() == "" && live != nil {
		obj.SetResourceVersion(live.GetResourceVersion())
	}
	return obj, warnings, nil
}

// read takes a patch apart.
func (p Patch) read() (*unstructured.Unstructured, []string, error) {
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

// refused is an error of the library as an answer.
func refused(err error) error {
	var said apierrors.APIStatus
	if errors.As(err, &said) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// Tracked reports whether a write of obj in the place of old, which is nil for a new object,
// is one whose fields are to be tracked: only then is there anything to do for [Fields.Track].
func Tracked(manager string, obj, old kinds.Object) bool {
	if old == nil {
		return manager != ""
	}
	return len(old.GetManagedFields()) > 0 || manager != "" && len(obj.GetManagedFields()) > 0
}

// Track sets obj's managedFields to what they are once the door's manager has made obj out of
// old, which is nil for a new object. The object may bring its own, which replace old's; an
// empty list of them, or one empty entry, takes all there are away. Upstream's
// UpdateNoErrors: where fields cannot be compared, they keep their managers.
func (f *Fields) Track(door Door, obj, old kinds.Object) {
	if err := f.track(door, obj, old); err != nil {
		obj.SetManagedFields(managedFieldsOf(old))
	}
}

func (f *Fields) track(door Door, obj, old kinds.Object) error {
	manager, err := f.manager(door)
	if err != nil {
		return err
	}
	before, err := f.before(door, old)
	if err != nil {
		return err
	}
	_, err = manager.Update(before, obj, door.Manager)
	return err
}

func managedFieldsOf(obj kinds.Object) []metav1.ManagedFieldsEntry {
	if obj == nil {
		return nil
	}
	return obj.GetManagedFields()
}

// before is what the library may take for the object there is: it changes what it is given.
func (f *Fields) before(door Door, live kinds.Object) (kinds.Object, error) {
	if live == nil {
		obj, err := empty(door.Kind, door.Kind.GroupVersionKind)
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

// Settle puts the cluster's time on the entries of obj that this write has changed, and puts
// old's times back when it has changed nothing else, so that it is no write at all (upstream's
// IgnoreManagedFieldsTimestampsTransformer).
func Settle(obj, old kinds.Object, now time.Time) {
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
	slices.SortStableFunc(entries, byTime)
	obj.SetManagedFields(entries)
	if old != nil && timesApart(entries, had) && onlyManagedFieldsDiffer(obj, old) {
		obj.SetManagedFields(had)
	}
}

// sameEntry reports whether two entries are one manager's, with the same fields.
func sameEntry(a, b metav1.ManagedFieldsEntry) bool {
	a.Time, b.Time = nil, nil
	return kinds.Equal(a, b)
}

// byTime is the order in which entries are listed: appliers, then the others, each by time.
func byTime(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), seconds(a).Compare(seconds(b)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func seconds(e metav1.ManagedFieldsEntry) time.Time {
	if e.Time == nil {
		return time.Time{}
	}
	return e.Time.Truncate(time.Second)
}

// timesApart reports whether the entries are the same but for their times.
func timesApart(entries, had []metav1.ManagedFieldsEntry) bool {
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

// manager is the library's for a door.
func (f *Fields) manager(door Door) (*managedfields.FieldManager, error) {
	hub := kinds.Preferred(door.Kind).GroupVersion()
	build := managedfields.NewDefaultFieldManager
	if door.Kind.Custom {
		build = managedfields.NewDefaultCRDFieldManager
	}
	manager, err := build(typeConverter{f.converters, door.Kind}, versions{door.Kind}, noDefaults{}, versions{door.Kind},
		door.Kind.GroupVersionKind, hub, door.Subresource, f.resets(door))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return manager, nil
}
