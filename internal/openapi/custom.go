package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The definitions of metadata that every kind refers to.
const (
	objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	listMeta   = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
)

// FromCRD returns the definitions of a custom kind and its list, in one version. They refer to
// built-in definitions of metadata; see [Definitions.Complete].
func FromCRD(crd *apiextensionsv1.CustomResourceDefinition, version string) (Models, error) {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version
	})
	if i < 0 {
		return nil, fmt.Errorf("customresourcedefinition %s: it has no version %q", crd.Name, version)
	}
	root := map[string]any{}
	if s := crd.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
		data, err := json.Marshal(s.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("customresourcedefinition %s: %w", crd.Name, err)
		}
		if err := json.Unmarshal(data, &root); err != nil {
			return nil, fmt.Errorf("customresourcedefinition %s: %w", crd.Name, err)
		}
	}
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind}
	if root["type"] == nil {
		root["type"], root["x-kubernetes-preserve-unknown-fields"] = "object", true
	}
	addObjectFields(root, gvk, objectMeta)
	model, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("customresourcedefinition %s: %w", crd.Name, err)
	}
	listGVK := gvk
	listGVK.Kind = crd.Spec.Names.ListKind
	if listGVK.Kind == "" {
		listGVK.Kind = gvk.Kind + "List"
	}
	list, err := json.Marshal(listDefinition(gvk, listGVK))
	if err != nil {
		return nil, fmt.Errorf("customresourcedefinition %s: %w", crd.Name, err)
	}
	return Models{CustomName(gvk): model, CustomName(listGVK): list}, nil
}

// CustomName returns the name of a custom kind's definition: its reversed group, its version and
// its kind.
func CustomName(gvk schema.GroupVersionKind) string {
	words := strings.Split(gvk.Group, ".")
	slices.Reverse(words)
	return strings.Join(append(words, gvk.Version, gvk.Kind), ".")
}

// addObjectFields adds the fields that every object has, and the kind, to a definition.
func addObjectFields(root map[string]any, gvk schema.GroupVersionKind, metadata string) {
	properties, _ := root["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		root["properties"] = properties
	}
	text := func(what string) map[string]any { return map[string]any{"type": "string", "description": what} }
	properties["apiVersion"] = text("the group and the version of the kind, as group/version")
	properties["kind"] = text("the kind")
	properties["metadata"] = map[string]any{
		"description": "standard metadata",
		"allOf":       []any{map[string]any{"$ref": refPrefix + metadata}},
	}
	root["x-kubernetes-group-version-kind"] = []any{gvkTag(gvk)}
}

func listDefinition(gvk, listGVK schema.GroupVersionKind) map[string]any {
	root := map[string]any{
		"description": listGVK.Kind + " is a list of " + gvk.Kind,
		"type":        "object",
		"required":    []any{"items"},
		"properties": map[string]any{"items": map[string]any{
			"type": "array", "description": "the objects", "items": map[string]any{"$ref": refPrefix + CustomName(gvk)},
		}},
	}
	addObjectFields(root, listGVK, listMeta)
	return root
}

func gvkTag(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}
