package openapi

import (
	"encoding/json"
	"strings"
)

type threeForm struct{}

func (threeForm) parameter(name, in, kind, about string) map[string]any {
	said := map[string]any{
		"name": name, "in": in, "description": about, "schema": map[string]any{"type": kind, "uniqueItems": true},
	}
	if in == "path" {
		said["required"] = true
	}
	return said
}

func (f threeForm) operation(op operation) map[string]any {
	said := map[string]any{}
	if len(op.query) > 0 {
		said["parameters"] = queries(f, op)
	}
	if op.takes != "" {
		said["requestBody"] = map[string]any{"content": threeContent(op.takes, op.bodyTypes())}
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for code, what := range op.answers() {
		responses[code] = map[string]any{"description": what, "content": threeContent(op.gives, op.answerTypes())}
	}
	said["responses"] = responses
	return said
}

// v3Content returns a definition, or text if model is empty, for each content type.
func threeContent(model string, types []string) map[string]any {
	content := map[string]any{}
	for _, media := range types {
		content[media] = map[string]any{"schema": schemaOf(refPrefix, model)}
	}
	return content
}

func schemaOf(prefix, model string) map[string]any {
	if model == "" {
		return map[string]any{"type": "string"}
	}
	return map[string]any{"$ref": prefix + model}
}

// queryParameters returns the query parameters of an operation.
func queries(in form, op operation) []any {
	var said []any
	for _, p := range op.query {
		said = append(said, in.parameter(p.name, "query", p.kind, p.about))
	}
	return said
}

type twoForm struct{}

func (twoForm) parameter(name, in, kind, about string) map[string]any {
	said := map[string]any{"name": name, "in": in, "description": about, "type": kind, "uniqueItems": true}
	if in == "path" {
		said["required"] = true
	}
	return said
}

func (f twoForm) operation(op operation) map[string]any {
	parameters := queries(f, op)
	if op.takes != "" {
		parameters = append(parameters, map[string]any{
			"name": "body", "in": "body", "required": op.takes != deleteOptions, "schema": schemaOf(olderPrefix, op.takes),
		})
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for code, what := range op.answers() {
		responses[code] = map[string]any{"description": what, "schema": schemaOf(olderPrefix, op.gives)}
	}
	said := map[string]any{
		"consumes": op.bodyTypes(), "produces": op.answerTypes(), "schemes": []string{"https"}, "responses": responses,
	}
	if len(parameters) > 0 {
		said["parameters"] = parameters
	}
	return said
}

// downgrade converts a definition to OpenAPI 2. OpenAPI 2 has no defaults, alternatives or null,
// and places a reference beside its description, not below it.
func downgrade(model json.RawMessage) (any, error) {
	var parsed any
	if err := json.Unmarshal(model, &parsed); err != nil {
		return nil, err
	}
	return downgraded(parsed), nil
}

func downgraded(node any) any {
	schema, ok := node.(map[string]any)
	if !ok {
		return node
	}
	if all, ok := schema["allOf"].([]any); ok && len(all) == 1 {
		if only, ok := all[0].(map[string]any); ok && only["$ref"] != nil {
			schema["$ref"] = only["$ref"]
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		schema["$ref"] = olderPrefix + strings.TrimPrefix(ref, refPrefix)
	}
	if schema["x-kubernetes-int-or-string"] == true {
		schema["type"], schema["format"] = "string", "int-or-string"
	}
	if schema["nullable"] == true || schema["x-kubernetes-preserve-unknown-fields"] == true {
		delete(schema, "type")
		delete(schema, "items")
		delete(schema, "properties")
	}
	for _, key := range []string{"default", "nullable", "allOf", "anyOf", "oneOf", "not"} {
		delete(schema, key)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, has := schema[key]; has {
			schema[key] = downgraded(below)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, below := range properties {
			properties[name] = downgraded(below)
		}
	}
	return schema
}
