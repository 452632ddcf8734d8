package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/yaml"
)

// CurrentContext says what to do with a kubeconfig's current-context.
type CurrentContext int

const (
	// Keep leaves it unchanged.
	Keep CurrentContext = iota
	// Switch sets it to podfall's context.
	Switch
)

// Errors of Merge. In each case there is nothing to write.
var (
	// ErrNotOurs means that an entry with podfall's name was not made by podfall.
	ErrNotOurs = errors.New("an entry of that name was not made by podfall")
	// ErrUnreadable means that the file is not a kubeconfig.
	ErrUnreadable = errors.New("not a kubeconfig")
)

// MergeResult is the result of Merge.
type MergeResult struct {
	Data []byte
	// Rewritten is set if other lines have changed too, though not their meaning: the file was not
	// in kubectl's style, for example JSON.
	Rewritten bool
}

// Merge adds the access to a kubeconfig, which may be empty, or replaces an earlier entry. All
// other lines stay the same byte for byte, comments included. A file that cannot be edited by lines
// is rewritten with the same meaning.
func (a Access) Merge(file []byte, current CurrentContext) (MergeResult, error) {
	entries, err := a.newEntries()
	if err != nil {
		return MergeResult{}, err
	}
	old, err := parse(file)
	if err != nil {
		return MergeResult{}, err
	}
	if err := checkOwnership(old, entries); err != nil {
		return MergeResult{}, err
	}
	want, err := expectedDocument(old, entries, current)
	if err != nil {
		return MergeResult{}, err
	}
	if data, err := splice(file, entries, current); err == nil {
		if got, err := parse(data); err == nil && reflect.DeepEqual(got, want) {
			return MergeResult{Data: data}, nil
		}
	}
	data, err := yaml.Marshal(want)
	if err != nil {
		return MergeResult{}, fmt.Errorf("write kubeconfig: %w", err)
	}
	return MergeResult{Data: data, Rewritten: true}, nil
}

// document is a parsed kubeconfig with all its fields.
type document map[string]any

func parse(file []byte) (document, error) {
	parsed := document{}
	if len(bytes.TrimSpace(file)) == 0 {
		return parsed, nil
	}
	if err := yaml.UnmarshalStrict(file, &parsed); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if kind, present := parsed["kind"]; present && kind != "Config" {
		return nil, fmt.Errorf("%w: its kind is %v, want Config", ErrUnreadable, kind)
	}
	for _, list := range []string{"clusters", "contexts", "users"} {
		if _, err := listEntries(parsed, list); err != nil {
			return nil, err
		}
	}
	return parsed, nil
}

// listEntries returns the entries of a list; none if the list is absent.
func listEntries(in document, list string) ([]any, error) {
	switch value := in[list].(type) {
	case nil:
		return nil, nil
	case []any:
		for i, one := range value {
			if _, ok := one.(map[string]any); !ok {
				return nil, fmt.Errorf("%w: %s[%d] is a %T, want a name with what it names", ErrUnreadable, list, i, one)
			}
		}
		return value, nil
	default:
		return nil, fmt.Errorf("%w: %s is a %T, want a list", ErrUnreadable, list, value)
	}
}

func entryName(item any) any {
	fields, _ := item.(map[string]any)
	return fields["name"]
}

// checkOwnership returns ErrNotOurs if an entry with podfall's name lacks the mark.
func checkOwnership(in document, entries []entry) error {
	for _, e := range entries {
		all, err := listEntries(in, e.list)
		if err != nil {
			return err
		}
		for _, item := range all {
			if entryName(item) == e.name && !isOurs(item) {
				return fmt.Errorf("%w: %s of %s; rename it, or give the cluster another name with podfall up --name", ErrNotOurs, e.name, e.list)
			}
		}
	}
	return nil
}

// isOurs reports whether an entry has podfall's extension.
func isOurs(item any) bool {
	fields, _ := item.(map[string]any)
	for _, value := range fields {
		body, _ := value.(map[string]any)
		extensions, _ := body["extensions"].([]any)
		if slices.ContainsFunc(extensions, func(one any) bool { return entryName(one) == extension }) {
			return true
		}
	}
	return false
}

// expectedDocument returns the content that the file must have after the merge.
func expectedDocument(old document, entries []entry, current CurrentContext) (document, error) {
	want := document{}
	maps.Copy(want, old)
	if len(old) == 0 {
		want["apiVersion"], want["kind"] = "v1", "Config"
	}
	for _, e := range entries {
		var own []any
		if err := yaml.Unmarshal(e.text, &own); err != nil {
			return nil, fmt.Errorf("write kubeconfig: %w", err)
		}
		all, err := listEntries(old, e.list)
		if err != nil {
			return nil, err
		}
		changed := slices.Clone(all)
		if i := slices.IndexFunc(changed, func(item any) bool { return entryName(item) == e.name }); i >= 0 {
			changed[i] = own[0]
		} else {
			changed = append(changed, own[0])
		}
		want[e.list] = changed
	}
	if current == Switch {
		want["current-context"] = entries[0].name
	}
	return want, nil
}
