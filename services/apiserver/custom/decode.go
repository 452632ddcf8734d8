package custom

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// Decode reads a custom resource from a request's body in the version of kind, and converts it to
// the stored form: pruned, defaulted, in the storage version. The strings are warnings for the
// client. Its errors are those of registry.DecodeBody.
func (c *Catalog) Decode(
	kind kinds.Kind, contentType string, body []byte, strict registry.FieldValidation,
) (kinds.Object, []string, error) {
	if err := registry.CheckJSON(body); err != nil {
		return nil, nil, err
	}
	body, err := toJSON(contentType, body)
	if err != nil {
		return nil, nil, err
	}
	object, twice, err := parse(body)
	if err != nil {
		return nil, nil, registry.NewUndecodable(kind, nil, body, fmt.Errorf("couldn't get version/kind; json parse error: %w", err))
	}
	obj := &unstructured.Unstructured{Object: object}
	if err := matchKind(kind, obj, body); err != nil {
		return nil, nil, err
	}
	unknown, err := c.toStored(kind, obj)
	if err != nil {
		return nil, nil, undecodable(kind, body, err)
	}
	warnings, err := applyFieldValidation(append(twice, unknown...), strict)
	if err != nil {
		return nil, nil, undecodable(kind, body, err)
	}
	return obj, warnings, nil
}

func undecodable(kind kinds.Kind, body []byte, err error) error {
	if errors.As(err, new(apierrors.APIStatus)) {
		return err
	}
	return registry.NewUndecodable(kind, &kind.GroupVersionKind, body, err)
}

// toJSON returns a body as JSON. The error is a 415 if custom resources do not come in that content
// type.
func toJSON(contentType string, body []byte) ([]byte, error) {
	media := contentType
	if parsed, _, err := mime.ParseMediaType(contentType); err == nil {
		media = parsed
	}
	switch media {
	case "", runtime.ContentTypeJSON:
		return body, nil
	case runtime.ContentTypeYAML:
		if err := registry.CheckYAML(body); err != nil {
			return nil, err
		}
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error converting YAML to JSON: %v", err))
		}
		return converted, nil
	}
	return nil, registry.NewUnsupportedMediaType(runtime.ContentTypeJSON, runtime.ContentTypeYAML)
}

// parse decodes an object. duplicates are the errors of strict decoding.
func parse(data []byte) (object map[string]any, twice []error, err error) {
	twice, err = kjson.UnmarshalStrict(data, &object)
	if err == nil && object == nil {
		err = errNotObject
	}
	return object, twice, err
}

var errNotObject = errors.New("want an object")

// matchKind requires a body to have the apiVersion and kind of the request. Missing ones are set.
func matchKind(kind kinds.Kind, obj *unstructured.Unstructured, body []byte) error {
	for member, want := range map[string]string{"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind} {
		switch have := obj.Object[member].(type) {
		case nil:
			obj.Object[member] = want
		case string:
			if have == "" {
				obj.Object[member] = want
			}
		default:
			return registry.NewUndecodable(kind, nil, body, fmt.Errorf("%s: want a string, not %v", member, have))
		}
	}
	gvk := obj.GroupVersionKind()
	if gvk.Kind != kind.Kind {
		return registry.NewUndecodable(kind, &gvk, body, fmt.Errorf(
			"converting (%s.%s) to (%s.%s): unknown conversion", gvk.Version, gvk.Kind, kind.Version, kind.Kind))
	}
	if gvk.GroupVersion() != kind.GroupVersion() {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			gvk.GroupVersion(), kind.GroupVersion()))
	}
	return nil
}

// toStored converts obj, in the version of kind, to the stored form: unknown fields are pruned and
// defaults set. It returns an error per pruned field.
func (c *Catalog) toStored(kind kinds.Kind, obj *unstructured.Unstructured) (unknown []error, err error) {
	definition := c.Definition(kind.GroupResource().String())
	if definition == nil {
		return nil, apierrors.NewNotFound(kind.GroupResource(), obj.GetName())
	}
	schema, err := definition.Schema(kind.Version)
	if err != nil {
		return nil, err
	}
	paths, err := normalizeMetadata(obj.Object, nil)
	if err != nil {
		return nil, err
	}
	paths = append(paths, pruning.PruneWithOptions(obj.Object, schema.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	dropNulls(obj.Object, schema.structural)
	embedded, err := normalizeEmbedded(obj.Object, schema.structural, nil)
	if err != nil {
		return nil, err
	}
	fillDefaults(obj.Object, schema.structural)
	obj.SetGroupVersionKind(kinds.Preferred(kind).GroupVersionKind)
	for _, path := range append(paths, embedded...) {
		unknown = append(unknown, fmt.Errorf("unknown field %q", path))
	}
	return unknown, nil
}

// applyFieldValidation ignores the errors of strict decoding, or returns them as warnings or as an
// error.
func applyFieldValidation(found []error, strict registry.FieldValidation) ([]string, error) {
	if len(found) == 0 || strict == metav1.FieldValidationIgnore {
		return nil, nil
	}
	if strict == metav1.FieldValidationStrict {
		return nil, runtime.NewStrictDecodingError(found)
	}
	var warnings []string
	for _, err := range found {
		warnings = append(warnings, err.Error())
	}
	return warnings, nil
}

// Patch applies a JSON patch or a merge patch to old, written against the version of kind.
// Strategic merge patches need Go types, so they are refused with a 415. Its errors are those of
// registry.ApplyPatch.
func (c *Catalog) Patch(
	kind kinds.Kind, old kinds.Object, patchType types.PatchType, patch []byte, strict registry.FieldValidation,
) (kinds.Object, []string, error) {
	versioned, _, err := kinds.Convert(old, kind.GroupVersionKind)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	document, err := json.Marshal(versioned)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	patched, found, err := registry.PatchDocument(document, patchType, patch)
	if err != nil {
		return nil, nil, err
	}
	object, _, err := parse(patched)
	if err != nil {
		return nil, nil, registry.NewInvalidPatch(string(patched), err)
	}
	obj := &unstructured.Unstructured{Object: object}
	if gvk := obj.GroupVersionKind(); gvk != kind.GroupVersionKind {
		return nil, nil, registry.NewInvalidPatch(string(patched), fmt.Errorf("unable to decode %s into %s", gvk, kind.GroupVersionKind))
	}
	unknown, err := c.toStored(kind, obj)
	if err != nil {
		return nil, nil, registry.NewInvalidPatch(string(patched), err)
	}
	warnings, err := applyFieldValidation(append(found, unknown...), strict)
	if err != nil {
		return nil, nil, registry.NewInvalidPatch(string(patched), err)
	}
	return obj, warnings, nil
}

// ToStored converts an object in the version of kind to the stored form. The object comes, for
// example, from a webhook or from a server-side apply.
func (c *Catalog) ToStored(kind kinds.Kind, obj *unstructured.Unstructured) error {
	_, err := c.toStored(kind, obj)
	return err
}
