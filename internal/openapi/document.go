package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the resources of one group and version: the content of one OpenAPI 3 document, or a part
// of the OpenAPI 2 document.
type Group struct {
	metav1.APIResourceList

	// Custom are the definitions of custom kinds; nil for a built-in group.
	Custom Models
}

// V3 returns the OpenAPI 3 document of one group and version, as JSON. It names release as its
// version, for example v1.37.2. Equal groups give equal documents.
func (d *Definitions) V3(release string, group Group) ([]byte, error) {
	paths, models, err := d.describe(group, v3Formatter{})
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{
		"openapi": "3.0.0",
		"info":    documentInfo(release),
		"paths":   paths,
		"components": map[string]any{
			"schemas": models,
			"securitySchemes": map[string]any{"BearerToken": map[string]any{
				"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
			}},
		},
	})
}

// V2 returns the OpenAPI 2 document of all groups, as JSON.
func (d *Definitions) V2(release string, groups []Group) ([]byte, error) {
	unpacked := d.load()
	paths, definitions := map[string]any{}, map[string]any{}
	for _, group := range groups {
		part, models, err := d.describe(group, v2Formatter{})
		if err != nil {
			return nil, err
		}
		maps.Copy(paths, part)
		for name, model := range models {
			if definitions[name] != nil {
				continue
			}
			if older, differs := unpacked.v2[name]; differs {
				model = older
			}
			if definitions[name], err = downgrade(model); err != nil {
				return nil, fmt.Errorf("definition %s: %w", name, err)
			}
		}
	}
	return json.Marshal(map[string]any{
		"swagger":     "2.0",
		"info":        documentInfo(release),
		"paths":       paths,
		"definitions": definitions,
		"securityDefinitions": map[string]any{"BearerToken": map[string]any{
			"type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
		}},
		"security": []any{map[string]any{"BearerToken": []any{}}},
	})
}

func documentInfo(release string) map[string]any {
	return map[string]any{"title": "Kubernetes", "version": release}
}

// formatter formats operations in one version of OpenAPI.
type formatter interface {
	// formatOperation returns the value of one method of a path.
	formatOperation(op operation) map[string]any
	// formatParameter returns a parameter that every method of a path has.
	formatParameter(name, in, kind, description string) map[string]any
}

// describe returns the paths of a group, and the definitions that they need.
func (d *Definitions) describe(group Group, in formatter) (map[string]any, Models, error) {
	gv, err := schema.ParseGroupVersion(group.GroupVersion)
	if err != nil {
		return nil, nil, fmt.Errorf("openapi of %q: %w", group.GroupVersion, err)
	}
	paths := map[string]any{}
	needed := []string{deleteOptions, statusModel, "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"}
	for _, resource := range group.APIResources {
		p := d.newEndpoint(gv, resource, group.Custom)
		for _, op := range p.operations() {
			op.addTo(paths, groupTag(gv), in)
			needed = append(needed, op.requestModel, op.responseModel)
		}
	}
	models := d.Closure(needed...)
	maps.Copy(models, d.Complete(group.Custom))
	return paths, models, nil
}

// newEndpoint looks up the definitions of a resource.
func (d *Definitions) newEndpoint(gv schema.GroupVersion, resource metav1.APIResource, custom Models) endpoint {
	gvk := gv.WithKind(resource.Kind)
	if resource.Version != "" {
		gvk.Group, gvk.Version = resource.Group, resource.Version
	}
	name := func(gvk schema.GroupVersionKind) string {
		if own := CustomName(gvk); custom[own] != nil {
			return own
		}
		return d.Name(gvk)
	}
	return endpoint{
		gv: gv, resource: resource, gvk: gvk, model: name(gvk), list: name(gvk.GroupVersion().WithKind(gvk.Kind + "List")),
		custom: custom != nil,
	}
}

// addTo adds an operation to its path.
func (op operation) addTo(paths map[string]any, tag string, in formatter) {
	item, ok := paths[op.path].(map[string]any)
	if !ok {
		item = map[string]any{}
		var common []any
		if strings.Contains(op.path, "{name}") {
			common = append(common, in.formatParameter("name", "path", "string", "the object's name"))
		}
		if strings.Contains(op.path, "{namespace}") {
			common = append(common, in.formatParameter("namespace", "path", "string", "the object's namespace"))
		}
		common = append(common, in.formatParameter("pretty", "query", "string", "write JSON on several lines"))
		item["parameters"] = common
		paths[op.path] = item
	}
	formatted := in.formatOperation(op)
	formatted["tags"] = []any{tag}
	formatted["description"], formatted["operationId"] = op.description, op.id
	formatted["x-kubernetes-action"], formatted["x-kubernetes-group-version-kind"] = op.action, gvkTag(op.gvk)
	item[op.method] = formatted
}

// responseCodes returns the status codes of an operation with their descriptions.
func (op operation) responseCodes() map[string]string {
	codes := map[string]string{"200": "OK"}
	switch op.action {
	case "post":
		codes["201"], codes["202"] = "Created", "Accepted"
	case "put", "patch":
		codes["201"] = "Created"
	case "delete":
		codes["202"] = "Accepted"
	}
	return codes
}

// bodyTypes returns the content types of an operation's body. Strategic merge patches need a kind's
// Go type, so custom kinds have none. kubectl reads here whether it may send one.
func (op operation) bodyTypes() []string {
	switch {
	case op.action != "patch":
		return []string{"*/*"}
	case op.custom:
		return []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	}
	return []string{
		"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/apply-patch+yaml",
	}
}

// responseTypes returns the content types of an operation's responses.
func (op operation) responseTypes() []string {
	if op.responseModel == "" {
		return []string{"*/*"}
	}
	types := []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	if op.action == "list" {
		types = append(types, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
	}
	return types
}
