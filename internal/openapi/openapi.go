// Package openapi describes the fields of every kind, as Kubernetes' OpenAPI documents do. It
// serves /openapi/v2 and /openapi/v3, server-side apply, and explain.
//
// The definitions of the built-in kinds are generated (tools/openapigen) from the Go types of the
// required modules, and are embedded compressed in the binary. [FromCRD] makes definitions of the
// same form from a CustomResourceDefinition.
//
// # Memory
//
// Definitions are decompressed on first use. They are kept only while they are referenced or until
// the garbage collector runs.
package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// compressed is the output of tools/openapigen, which documents the format of its lines.
//
//go:embed definitions.gz
var compressed []byte

// Definitions are those of the built-in kinds. Creating one costs nothing. It is safe for
// concurrent use.
type Definitions struct {
	mu   sync.Mutex
	last weak.Pointer[definitionTable]
}

// BuiltIn returns the definitions of the built-in kinds.
func BuiltIn() *Definitions { return &Definitions{} }

// Models are definitions by name, for example io.k8s.api.core.v1.Pod. Each is a JSON schema of
// OpenAPI 3 and refers to others as #/components/schemas/NAME. They are shared and must not be
// changed.
type Models map[string]json.RawMessage

// definitionTable is the decompressed file; it is immutable.
type definitionTable struct {
	versions map[string]string
	kinds    map[schema.GroupVersionKind]string
	models   Models
	// v2 are the definitions that differ in OpenAPI 2.
	v2 Models
}

// load decompresses the file unless the last result is still referenced.
func (d *Definitions) load() *definitionTable {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := d.last.Value(); kept != nil {
		return kept
	}
	read, err := unpack(compressed)
	if err != nil {
		panic(fmt.Errorf("openapi: the definitions in this binary: %w", err)) // the output of tools/openapigen is invalid
	}
	d.last = weak.Make(read)
	return read
}

func unpack(data []byte) (*definitionTable, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	t := &definitionTable{
		versions: map[string]string{}, kinds: map[schema.GroupVersionKind]string{}, models: Models{}, v2: Models{},
	}
	for line := range bytes.Lines(text) {
		if err := t.add(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add adds one line of the file.
func (t *definitionTable) add(line []byte) error {
	what, rest, _ := bytes.Cut(line, []byte("\t"))
	name, value, _ := bytes.Cut(rest, []byte("\t"))
	switch string(what) {
	case "versions":
		for pair := range strings.SplitSeq(string(rest), "\t") {
			module, version, _ := strings.Cut(pair, " ")
			t.versions[module] = version
		}
	case "kind":
		path := strings.Split(string(name), "/")
		if len(path) != 3 {
			return fmt.Errorf("kind %q: want group/version/Kind", name)
		}
		t.kinds[schema.GroupVersionKind{Group: path[0], Version: path[1], Kind: path[2]}] = string(value)
	case "model":
		t.models[string(name)] = value
	case "v2":
		t.v2[string(name)] = value
	default:
		return fmt.Errorf("line %q: want versions, kind, model or v2", what)
	}
	return nil
}

// Version returns the version of a module whose Go types the definitions come from, for example
// k8s.io/api; empty for other modules.
func (d *Definitions) Version(module string) string { return d.load().versions[module] }

// Name returns the name of a kind's definition; empty if there is none.
func (d *Definitions) Name(gvk schema.GroupVersionKind) string { return d.load().kinds[gvk] }

// Closure returns the named definitions and all that they refer to. Names without a definition are
// left out.
func (d *Definitions) Closure(names ...string) Models {
	found := Models{}
	d.load().models.collect(found, names...)
	return found
}

// Complete returns models and all built-in definitions that they refer to.
func (d *Definitions) Complete(models Models) Models {
	found := maps.Clone(models)
	all := d.load().models
	for _, model := range models {
		all.collect(found, references(model)...)
	}
	return found
}

// collect adds to found the named definitions and all that they refer to.
func (m Models) collect(found Models, names ...string) {
	for len(names) > 0 {
		name := names[len(names)-1]
		names = names[:len(names)-1]
		model, ok := m[name]
		if _, have := found[name]; have || !ok {
			continue
		}
		found[name] = model
		names = append(names, references(model)...)
	}
}

// The two forms of a reference to a definition.
const (
	refPrefix   = "#/components/schemas/"
	v2RefPrefix = "#/definitions/"
)

// references returns the names that a definition refers to.
func references(model json.RawMessage) []string {
	mark := []byte(`"$ref":"` + refPrefix)
	var names []string
	for rest := []byte(model); ; {
		_, after, found := bytes.Cut(rest, mark)
		if !found {
			return names
		}
		name, tail, _ := bytes.Cut(after, []byte(`"`))
		names, rest = append(names, string(name)), tail
	}
}

// Schemas returns the definitions in the form of Kubernetes' libraries, for example for
// managedfields.NewTypeConverter.
func (m Models) Schemas() (map[string]*spec.Schema, error) {
	schemas := make(map[string]*spec.Schema, len(m))
	for name, model := range m {
		parsed := &spec.Schema{}
		if err := json.Unmarshal(model, parsed); err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		schemas[name] = parsed
	}
	return schemas, nil
}

// Fingerprint changes whenever the built-in definitions change.
func Fingerprint() string {
	sum := sha256.Sum256(compressed)
	return hex.EncodeToString(sum[:])
}
