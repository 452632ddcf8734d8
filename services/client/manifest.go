package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/aliases"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// manifest is one object out of a file.
type manifest struct {
	// source is the file; "STDIN" for standard input.
	source string
	kind   kinds.Kind
	object *unstructured.Unstructured
}

func (m manifest) target() podapi.Target {
	return target(m.kind, m.object.GetNamespace(), m.object.GetName())
}

// name is the object as messages name it.
func (m manifest) name() string { return qualified(m.kind, m.object.GetName()) }

// manifestScope is the namespace of objects that name none; an explicit one must be
// that of the others too.
type manifestScope struct {
	namespace string
	explicit  bool
	find      *finder
}

// The limits of a manifest: what the server would refuse anyway is refused before it is
// parsed.
const (
	maxDocument = 1 << 20
	maxFile     = 64 << 20
	maxDepth    = 200
)

// stdinSource is what messages call standard input.
const stdinSource = "STDIN"

var (
	errArgsAndFiles = errors.New("when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well")
	errURL          = errors.New("podfall reads no URLs: what a manifest says should be on this machine, where it can be read first; download it and pass the file")
	errKustomize    = errors.New("podfall does not render kustomizations: pipe the output of `kubectl kustomize DIR` to -f -")
)

func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// filenames are the values of -f; a URL or -k is refused.
func (c *call) filenames() ([]string, error) {
	if c.flags.String(flagKustomize) != "" {
		return nil, errKustomize
	}
	files := c.flags.StringSlice(flagFilename)
	stdin := 0
	for _, name := range files {
		if isURL(name) {
			return nil, fmt.Errorf("%s: %w", name, errURL)
		}
		if name == "-" {
			stdin++
		}
	}
	if stdin > 1 {
		return nil, errors.New("standard input cannot be used for multiple arguments")
	}
	return files, nil
}

// manifests reads every object in the files, in order. Errors are one per file or
// document; the other objects are still returned.
func (c *call) manifests(names []string, scope manifestScope) ([]manifest, []error) {
	var found []manifest
	var errs []error
	for _, name := range names {
		files, err := c.expand(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, file := range files {
			source := file
			if file == "-" {
				source = stdinSource
			}
			data, err := c.readFile(file)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			more, moreErrs := parseManifests(source, data, scope)
			found, errs = append(found, more...), append(errs, moreErrs...)
		}
	}
	return found, errs
}

// extensions are the files that a directory is searched for.
func extensions() []string { return []string{".json", ".yaml", ".yml"} }

// expand is the files that a value of -f stands for.
func (c *call) expand(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if matches, globErr := filepath.Glob(name); globErr == nil && len(matches) > 0 {
			return matches, nil
		}
		return nil, fmt.Errorf("the path %q does not exist", name)
	}
	if err != nil {
		return nil, fmt.Errorf("the path %q cannot be accessed: %w", name, err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !c.flags.Bool(flagRecursive):
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains(extensions(), filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("error reading %q: %w", name, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("error reading [%s]: recognized file extensions are %v", name, extensions())
	}
	return files, nil
}

// readFile is a file, or standard input for "-".
func (c *call) readFile(name string) ([]byte, error) {
	from := c.env.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("error reading %q: %w", name, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("error reading %q: %w", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("error reading %q: it is larger than %d MiB", name, maxFile>>20)
	}
	return data, nil
}

// parseManifests reads the documents of a file: YAML, JSON, or JSON values one after
// the other. A key that is set twice is an error.
func parseManifests(source string, data []byte, scope manifestScope) ([]manifest, []error) {
	var found []manifest
	var errs []error
	for _, document := range splitDocuments(data) {
		objects, err := parseDocument(document)
		if err != nil {
			errs = append(errs, fmt.Errorf("error parsing %s: %w", source, err))
			continue
		}
		for _, fields := range objects {
			m, err := newManifest(source, fields, scope)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			found = append(found, m)
		}
	}
	return found, errs
}

// splitDocuments splits at lines that are "---", and drops documents that are only
// comments and blanks.
func splitDocuments(data []byte) [][]byte {
	var documents [][]byte
	var current bytes.Buffer
	empty := true
	flush := func() {
		if !empty {
			documents = append(documents, bytes.Clone(current.Bytes()))
		}
		current.Reset()
		empty = true
	}
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ') {
			flush()
			line = rest
		}
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			empty = false
		}
		current.Write(line)
	}
	flush()
	return documents
}

// parseDocument is the objects of one document; a List is its items.
func parseDocument(document []byte) ([]map[string]any, error) {
	if len(document) > maxDocument {
		return nil, fmt.Errorf("the document is larger than %d MiB", maxDocument>>20)
	}
	var values []json.RawMessage
	if trimmed := bytes.TrimSpace(document); trimmed[0] == '{' {
		values = jsonValues(trimmed)
	}
	if values == nil {
		if nesting(document) > maxDepth {
			return nil, fmt.Errorf("the document is nested more than %d deep", maxDepth)
		}
		if err := aliases.Check(document, maxDocument); err != nil {
			return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
		}
		converted, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
		}
		values = []json.RawMessage{converted}
	}
	var objects []map[string]any
	for _, value := range values {
		if string(value) == "null" {
			continue
		}
		var read unstructured.Unstructured
		if err := unmarshalObject(value, &read); err != nil {
			return nil, err
		}
		more, err := flatten(read.Object)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

// nesting is how many flow brackets are open at once at the most: what makes a YAML
// parser slow.
func nesting(document []byte) int {
	depth, most := 0, 0
	for _, b := range document {
		switch b {
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth--
		}
	}
	return most
}

// jsonValues are the JSON values that text consists of; nil when it is not JSON.
func jsonValues(text []byte) []json.RawMessage {
	var values []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return values
		}
		if err != nil {
			return nil
		}
		// JSON is YAML, whose parser notices keys that are set twice.
		if value, err = yaml.YAMLToJSONStrict(value); err != nil {
			return nil
		}
		values = append(values, value)
	}
}

// unmarshalObject reads an object that has at least a kind and a version.
func unmarshalObject(data []byte, into *unstructured.Unstructured) error {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return fmt.Errorf("want an object: %w", err)
	}
	if err := checkType(fields); err != nil {
		return err
	}
	return into.UnmarshalJSON(data)
}

func abridged(object map[string]any) string {
	const most = 200
	data, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	if len(data) > most {
		return string(data[:most]) + "…"
	}
	return string(data)
}

// flatten returns the items of a List, or the object itself. An item of a typed list, such as a PodList,
// that has neither kind nor version is of the list's (unstructuredJSONScheme.decodeToList).
func flatten(object map[string]any) ([]map[string]any, error) {
	value, has := object["items"]
	items, isArray := value.([]any)
	kind, isList := strings.CutSuffix(textOf(object, "kind"), "List")
	if !isList || !has || value != nil && !isArray {
		return []map[string]any{object}, nil
	}
	var all []map[string]any
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items: want objects, not %v", item)
		}
		if textOf(fields, "kind") == "" && textOf(fields, "apiVersion") == "" {
			fields["kind"], fields["apiVersion"] = kind, object["apiVersion"]
		}
		if err := checkType(fields); err != nil {
			return nil, err
		}
		more, err := flatten(fields)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// textOf returns a field that is text; empty for all others.
func textOf(object map[string]any, field string) string {
	text, _ := object[field].(string)
	return text
}

// checkType refuses an object without a kind or a version.
func checkType(object map[string]any) error {
	switch {
	case textOf(object, "kind") == "":
		return runtime.NewMissingKindErr(abridged(object))
	case textOf(object, "apiVersion") == "":
		return runtime.NewMissingVersionErr(abridged(object))
	}
	return nil
}

// newManifest finds the object's kind and gives it a namespace.
func newManifest(source string, fields map[string]any, scope manifestScope) (manifest, error) {
	m := manifest{source: source, object: &unstructured.Unstructured{Object: fields}}
	gvk := m.object.GroupVersionKind()
	kind, ok, err := scope.find.gvk(gvk)
	if err != nil {
		return manifest{}, err
	}
	if !ok {
		return manifest{}, noMatch(m.object, source, gvk)
	}
	m.kind = kind
	if !kind.Namespaced {
		return m, nil
	}
	switch own := m.object.GetNamespace(); {
	case own == "":
		m.object.SetNamespace(scope.namespace)
	case scope.explicit && own != scope.namespace:
		return manifest{}, fmt.Errorf("the namespace from the provided object %q does not match the namespace %q. You must pass '--namespace=%s' to perform this operation.", own, scope.namespace, own) //nolint:revive,staticcheck // kubectl's text
	}
	return m, nil
}

func noMatch(object *unstructured.Unstructured, source string, gvk schema.GroupVersionKind) error {
	return fmt.Errorf("resource mapping not found for name: %q namespace: %q from %q: no matches for kind %q in version %q\nensure CRDs are installed first",
		object.GetName(), object.GetNamespace(), source, gvk.Kind, gvk.GroupVersion())
}
