// Package openapi describes the fields of every kind, as Kubernetes' own OpenAPI documents
// do: what /openapi/v2 and /openapi/v3 answer, what server-side apply merges by, and what
// explain prints.
//
// The definitions of the built-in kinds are generated (tools/openapigen) from the Go types of
// the modules that this module requires, and lie compressed in the binary. [FromCRD] makes
// definitions of the same form out of a CustomResourceDefinition.
//
// # Memory
//
// Nothing is read before it is asked for, and what has been read is kept only while somebody
// holds on to it or the garbage collector has not come by.
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

// packed is what tools/openapigen wrote; the form of its lines is told there.
//
//go:embed definitions.gz
var packed []byte

// Definitions are those of the built-in kinds. Making one costs nothing, and it is safe for
// concurrent use.
type Definitions struct {
	mu   sync.Mutex
	last weak.Pointer[table]
}

// BuiltIn is the definitions of the built-in kinds.
func BuiltIn() *Definitions { return &Definitions{} }

// Models are definitions by name, such as io.k8s.api.core.v1.Pod. Each is a JSON schema as
// OpenAPI 3 has it, and refers to others as #/components/schemas/NAME. They are shared: read
// them only.
type Models map[string]json.RawMessage

// table is the file, unpacked; it is immutable.
type table struct {
	versions map[string]string
	kinds    map[schema.GroupVersionKind]string
	models   Models
	// older are the definitions that OpenAPI 2 has otherwise.
	older Models
}

// load unpacks the file unless somebody still has it.
func (d *Definitions) load() *table {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kept := d.last.Value(); kept != nil {
		return kept
	}
	read, err := unpack(packed)
	if err != nil {
		panic(fmt.Errorf("openapi: the definitions in this binary: %w", err)) // tools/openapigen wrote nonsense
	}
	d.last = weak.Make(read)
	return read
}

func unpack(data []byte) (*table, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	t := &table{
		versions: map[string]string{}, kinds: map[schema.GroupVersionKind]string{}, models: Models{}, older: Models{},
	}
	for line := range bytes.Lines(text) {
		if err := t.add(bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add takes one line of the file in.
func (t *table) add(line []byte) error {
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
		t.older[string(name)] = value
	default:
		return fmt.Errorf("line %q: want versions, kind, model or v2", what)
	}
	return nil
}

// Version is the version of a module whose Go types the definitions come from, such as
// k8s.io/api; empty for other modules.
func (d *Definitions) Version(module string) string { return d.load().versions[module] }

// Name is the name of the definition of a kind; empty when it has none.
func (d *Definitions) Name(gvk schema.GroupVersionKind) string { return d.load().kinds[gvk] }

// Closure is the definitions with these names and all that they refer to. Names without a
// definition are left out.
func (d *Definitions) Closure(names ...string) Models {
	found := Models{}
	d.load().models.collect(found, names...)
	return found
}

// Complete is models and all the built-in definitions that they refer to.
func (d *Definitions) Complete(models Models) Models {
	found := maps.Clone(models)
	all := d.load().models
	for _, model := range models {
		all.collect(found, refs(model)...)
	}
	return found
}

// collect adds to found the definitions with these names and all that they refer to.
func (m Models) collect(found Models, names ...string) {
	for len(names) > 0 {
		name := names[len(names)-1]
		names = names[:len(names)-1]
		model, ok := m[name]
		if _, have := found[name]; have || !ok {
			continue
		}
		found[name] = model
		names = append(names, refs(model)...)
	}
}

// The two forms of a reference to a definition.
const (
	refPrefix   = "#/components/schemas/"
	olderPrefix = "#/definitions/"
)

// refs are the names that a definition refers to.
func refs(model json.RawMessage) []string {
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

// Schemas are the definitions as Kubernetes' libraries take them, for
// managedfields.NewTypeConverter and its like.
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

// Fingerprint changes whenever the built-in definitions do.
func Fingerprint() string {
	sum := sha256.Sum256(packed)
	return hex.EncodeToString(sum[:])
}
