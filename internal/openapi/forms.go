package openapi

import (
	"encoding/json"
	"strings"
)

type v3Formatter struct{}

func (v3Formatter) formatParameter(name, in, kind, description string) map[string]any {
	formatted := map[string]any{
		"name": name, "in": in, "description": description, "schema": map[string]any{"type": kind, "uniqueItems": true},
	}
	if in == "path" {
		formatted["required"] = true
	}
	return formatted
}

func (f v3Formatter) formatOperation(op operation) map[string]any {
	formatted := map[string]any{}
	if len(op.query) > 0 {
		formatted["parameters"] = queryParameters(f, op)
	}
	if op.requestModel != "" {
		formatted["requestBody"] = map[string]any{"content": v3Content(op.requestModel, op.bodyTypes())}
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for code, what := range op.responseCodes() {
		responses[code] = map[string]any{"description": what, "content": v3Content(op.responseModel, op.responseTypes())}
	}
	formatted["responses"] = responses
	return formatted
}

// v3Content returns a definition, or text if model is empty, for each content type.
func v3Content(model string, types []string) map[string]any {
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
func queryParameters(in formatter, op operation) []any {
	var formatted []any
	for _, p := range op.query {
		formatted = append(formatted, in.formatParameter(p.name, "query", p.kind, p.description))
	}
	return formatted
}

type v2Formatter struct{}

func (v2Formatter) formatParameter(name, in, kind, description string) map[string]any {
	formatted := map[string]any{"name": name, "in": in, "description": description, "type": kind, "uniqueItems": true}
	if in == "path" {
		formatted["required"] = true
	}
	return formatted
}

func (f v2Formatter) formatOperation(op operation) map[string]any {
	parameters := queryParameters(f, op)
	if op.requestModel != "" {
		parameters = append(parameters, map[string]any{
			"name": "body", "in": "body", "required": op.requestModel != deleteOptions, "schema": schemaOf(v2RefPrefix, op.requestModel),
		})
	}
	responses := map[string]any{"401": map[string]any{"description": "Unauthorized"}}
	for code, what := range op.responseCodes() {
		responses[code] = map[string]any{"description": what, "schema": schemaOf(v2RefPrefix, op.responseModel)}
	}
	formatted := map[string]any{
		"consumes": op.bodyTypes(), "produces": op.responseTypes(), "schemes": []string{"https"}, "responses": responses,
	}
	if len(parameters) > 0 {
		formatted["parameters"] = parameters
	}
	return formatted
}

// downgrade converts a definition to OpenAPI 2. OpenAPI 2 has no defaults, alternatives or null,
// and places a reference beside its description, not below it.
func downgrade(model json.RawMessage) (any, error) {
	var parsed any
	if err := json.Unmarshal(model, &parsed); err != nil {
		return nil, err
	}
	return downgradeNode(parsed), nil
}

func downgradeNode(node any) any {
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
		schema["$ref"] = v2RefPrefix + strings.TrimPrefix(ref, refPrefix)
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
			schema[key] = downgradeNode(below)
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, below := range properties {
			properties[name] = downgradeNode(below)
		}
	}
	return schema
}
