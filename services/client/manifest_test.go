package client

import (
	"strings"
	"testing"
)

func parse(text string) (names []string, errs []error) {
	found, errs := parseManifests("file", []byte(text), manifestScope{namespace: "default", find: &finder{}})
	for _, m := range found {
		names = append(names, m.name())
	}
	return names, errs
}

func TestParseManifests(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`
	for _, c := range []struct {
		name, text, want, problem string
	}{
		{"JSON", pod, "pod/a", ""},
		{"JSON over several lines, and another", "{\n\"apiVersion\":\"v1\",\n\"kind\":\"Pod\"}\n" + pod, "pod/ pod/a", ""},
		{"YAML in braces", "{apiVersion: v1, kind: Pod, metadata: {name: a,},}", "pod/a", ""},
		{"a document marker with text", "--- {apiVersion: v1, kind: Pod, metadata: {name: a}}", "pod/a", ""},
		{"dashes within a text", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ----\n    ---x\n", "configmap/a", ""},
		{"Windows line ends", "apiVersion: v1\r\nkind: Pod\r\nmetadata: {name: a}\r\n---\r\napiVersion: v1\r\nkind: Pod\r\nmetadata: {name: b}\r\n", "pod/a pod/b", ""},
		{"another version of a kind", "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\n", "horizontalpodautoscaler.autoscaling/a", ""},
		{"a typed list", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n", "pod/a configmap/b", ""},
		{"a typed list of a group", `{"apiVersion":"apps/v1","kind":"DeploymentList","items":[{"metadata":{"name":"a"}}]}`, "deployment.apps/a", ""},
		{"lists in a list", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"}}]},` + pod + `]}`, "pod/a pod/a", ""},
		{"a list of nothing", "apiVersion: v1\nkind: PodList\nitems:\n", "", ""},
		{"an item of no kind in a list of any", `{"apiVersion":"v1","kind":"List","items":[{"metadata":{"name":"a"}}]}`, "", "Object 'Kind' is missing"},
		{"an item with a version and no kind", `{"apiVersion":"v1","kind":"PodList","items":[{"apiVersion":"v1","metadata":{"name":"a"}}]}`, "", "Object 'Kind' is missing"},
		{"an item that is no object", `{"apiVersion":"v1","kind":"PodList","items":["a"]}`, "", "want objects"},
		{"nothing", "", "", ""},
		{"comments and markers", "# hello\n---\n\n---\n# bye\n", "", ""},
		{"null", "null", "", ""},
		{"a list that is none", "- a\n- b\n", "", "want an object"},
		{"a text", "hello", "", "want an object"},
		{"no kind", `{"apiVersion":"v1"}`, "", "Object 'Kind' is missing"},
		{"no version", `{"kind":"Pod"}`, "", "Object 'apiVersion' is missing"},
		{"a key twice in JSON", `{"apiVersion":"v1","kind":"Pod","kind":"Pod"}`, "", "already set"},
		{"a key twice in YAML", "apiVersion: v1\nkind: Pod\nkind: Pod\n", "", "already set"},
		{"a tab", "apiVersion: v1\n\tkind: Pod\n", "", "error converting YAML to JSON"},
		{"too large", "apiVersion: v1\nkind: Pod\nmetadata: {name: " + strings.Repeat("a", maxDocument) + "}", "", "larger than"},
		{"too many aliases", "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]", "", "aliases written out is too large"},
		{"too deep", "a: " + strings.Repeat("[", 9000), "", "nested more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			names, errs := parse(c.text)
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.problem == "" && len(errs) > 0 {
				t.Errorf("unexpected: %v", errs)
			}
			if c.problem != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.problem)) {
				t.Errorf("got %v, want one error with %q", errs, c.problem)
			}
		})
	}
}

// FuzzParseManifests: whatever is in a file, it is objects with a kind, or errors.
func FuzzParseManifests(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		found, _ := parseManifests("file", []byte(text), manifestScope{namespace: "default", find: &finder{}})
		for _, m := range found {
			if m.kind.Kind == "" || m.object == nil {
				t.Errorf("%q: a manifest without a kind", text)
			}
		}
	})
}
