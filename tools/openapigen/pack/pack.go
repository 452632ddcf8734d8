// Package pack writes OpenAPI definitions to the file that internal/openapi reads. The
// file is gzip of lines, whose fields are separated by tabs:
//
//	versions  module version, of each module that the definitions come from
//	kind      group/version/Kind  model          a kind, and the name of its definition
//	model     name  JSON                         a definition, as OpenAPI 3 has it
//	v2        name  JSON                         a definition that OpenAPI 2 has otherwise
//
// Equal definitions make equal files.
package pack

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	builder "k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/podfall/podfall/proto/kinds"
)

// Write packs the definitions that get returns.
func Write(file string, get common.GetOpenAPIDefinitions) error {
	text, err := lines(get)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, packed.Bytes(), 0o644)
}

func lines(get common.GetOpenAPIDefinitions) ([]byte, error) {
	definitions := get(func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) })
	var out bytes.Buffer
	fmt.Fprintf(&out, "versions\t%s\n", versions())
	models, err := modelKinds(kinds.Scheme())
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		definition := definitions[name]
		for _, gvk := range models[name] {
			fmt.Fprintf(&out, "kind\t%s/%s/%s\t%s\n", gvk.Group, gvk.Version, gvk.Kind, name)
		}
		if err := model(&out, name, definition.Schema, models[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, needed := range definition.Dependencies {
			if _, ok := definitions[needed]; !ok {
				return nil, fmt.Errorf("%s: no definition of %s", name, needed)
			}
		}
	}
	return out.Bytes(), nil
}

// model writes one definition. A schema can carry another one for OpenAPI 2 inside.
func model(out *bytes.Buffer, name string, schema spec.Schema, of []schema.GroupVersionKind) error {
	older, differs := schema.Extensions[common.ExtensionV2Schema].(spec.Schema)
	delete(schema.Extensions, common.ExtensionV2Schema)
	data, err := json.Marshal(builder.WrapRefs(tagged(&schema, of)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "model\t%s\t%s\n", name, data)
	if !differs {
		return nil
	}
	data, err = json.Marshal(tagged(&older, of))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "v2\t%s\t%s\n", name, data)
	return nil
}

// tagged is the schema with the kinds that it is the schema of.
func tagged(s *spec.Schema, of []schema.GroupVersionKind) *spec.Schema {
	if len(of) == 0 {
		return s
	}
	var tags []any
	for _, gvk := range of {
		tags = append(tags, map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind})
	}
	s.AddExtension("x-kubernetes-group-version-kind", tags)
	return s
}

// modelKinds is which kinds each definition is the definition of.
func modelKinds(scheme *runtime.Scheme) (map[string][]schema.GroupVersionKind, error) {
	found := map[string][]schema.GroupVersionKind{}
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		name, err := scheme.ToOpenAPIDefinitionName(gvk)
		if err != nil {
			return nil, err
		}
		found[name] = append(found[name], gvk)
	}
	for _, list := range found {
		slices.SortFunc(list, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	}
	return found, nil
}

// versions are those of the modules that have the Go types.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var found []string
	for _, module := range info.Deps {
		switch module.Path {
		case "k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery", "k8s.io/kube-openapi":
			found = append(found, module.Path+" "+module.Version)
		}
	}
	slices.Sort(found)
	return strings.Join(found, "\t")
}
