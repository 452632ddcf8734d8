// Package openapi describes the fields of every built-in kind, as Kubernetes' own
// OpenAPI documents do.
package openapi
