package kubeconfig_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/kubeconfig"
)

func access() kubeconfig.Access {
	return kubeconfig.Access{Cluster: "test", URL: "https://127.0.0.1:40001", Authority: []byte("PEM"), Token: "secret"}
}

// foreign is a kubeconfig with three contexts of others, as people have them: comments,
// quotes, an order of their own, an exec plugin, an unknown field.
const foreign = `# my clusters
apiVersion: v1
kind: Config
preferences: {}
current-context: production   # careful!
clusters:
- cluster:
    certificate-authority-data: Zm9v
    server: https://prod.example:6443
  name: production
  # the old one
- name: "staging"
  cluster: {server: "https://staging.example", insecure-skip-tls-verify: true}
- cluster:
    server: http://localhost:8080
  name: local

contexts:
- context:
    cluster: production
    namespace: shop
    user: me
  name: production
- context: {cluster: staging, user: me}
  name: staging
- context:
    cluster: local
    user: ""
  name: local
users:
# from the company
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: login
      args:
        - get-token
      interactiveMode: Never
      script: |
        #!/bin/sh
        # not a comment of YAML

        exit 0
x-unknown: kept
# the end
`

func mustMerge(t *testing.T, file string, a kubeconfig.Access, current kubeconfig.CurrentContext) kubeconfig.MergeResult {
	t.Helper()
	got, err := a.Merge([]byte(file), current)
	if err != nil {
		t.Fatalf("merge into\n%s\n%v", file, err)
	}
	return got
}

// TestOtherLinesStay is T18: what is not ours stays byte for byte.
func TestOtherLinesStay(t *testing.T) {
	got := mustMerge(t, foreign, access(), kubeconfig.Keep)
	if got.Rewritten {
		t.Error("rewritten")
	}
	want := strings.NewReplacer(
		"  name: local\n\n", "  name: local\n"+cluster+"\n",
		"  name: local\nusers", "  name: local\n"+context+"users",
		"        exit 0\n", "        exit 0\n"+user,
	).Replace(foreign)
	if string(got.Data) != want {
		t.Errorf("merged:\n%s\nwant\n%s", got.Data, want)
	}
	// Again, at another address: only our lines change.
	moved := access()
	moved.URL = "https://127.0.0.1:40002"
	again := mustMerge(t, string(got.Data), moved, kubeconfig.Keep)
	if want := strings.ReplaceAll(string(got.Data), "127.0.0.1:40001", "127.0.0.1:40002"); string(again.Data) != want || again.Rewritten {
		t.Errorf("merged again: %v\n%s", again.Rewritten, again.Data)
	}
	switched := mustMerge(t, string(got.Data), access(), kubeconfig.Switch)
	if want := strings.Replace(string(got.Data), "production   # careful!", "podfall-test", 1); string(switched.Data) != want || switched.Rewritten {
		t.Errorf("switched: %v\n%s", switched.Rewritten, switched.Data)
	}
}

// What is ours, as it is written.
const (
	cluster = `- cluster:
    certificate-authority-data: UEVN
    extensions:
    - extension:
        provider: podfall
      name: podfall.io
    server: https://127.0.0.1:40001
  name: podfall-test
`
	context = `- context:
    cluster: podfall-test
    extensions:
    - extension:
        provider: podfall
      name: podfall.io
    user: podfall-test
  name: podfall-test
`
	user = `- name: podfall-test
  user:
    extensions:
    - extension:
        provider: podfall
      name: podfall.io
    token: secret
`
)

func TestIntoNothing(t *testing.T) {
	for _, file := range []string{"", "\n", "  \n\n"} {
		got := mustMerge(t, file, access(), kubeconfig.Keep)
		if strings.Contains(string(got.Data), "current-context") || got.Rewritten {
			t.Errorf("into %q: %v\n%s", file, got.Rewritten, got.Data)
		}
		switched := mustMerge(t, file, access(), kubeconfig.Switch)
		var have, want map[string]any
		own, err := access().File()
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(yaml.Unmarshal(switched.Data, &have), yaml.Unmarshal(own, &want)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			t.Errorf("switched: %v, want %v", have, want)
		}
	}
}

// TestStyles merges into what other programs write.
func TestStyles(t *testing.T) {
	for name, row := range map[string]struct {
		file      string
		rewritten bool
	}{
		"kubectl's empty one": {"apiVersion: v1\nclusters: null\ncontexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\nusers: null\n", false},
		"empty lists":         {"clusters: []\ncontexts: []\nusers: []\n", false},
		"indented lists":      {"clusters:\n  - name: a\n    cluster:\n      server: https://a\ncontexts:\n  - name: a\n    context:\n      cluster: a\n      user: a\nusers:\n  - name: a\n    user:\n      token: t\ncurrent-context: a\n", false},
		"no newline":          {"clusters:\n- name: a\n  cluster: {server: https://a}", false},
		"a document's marks":  {"---\nclusters:\n- name: a\n  cluster: {server: https://a}\n...\n", false},
		"JSON":                {`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"https://a"}}],"current-context":"a"}`, true},
		"flow lists":          {"clusters: [{name: a, cluster: {server: https://a}}]\n", true},
		"dashes alone":        {"clusters:\n-\n  name: podfall-test\n  cluster:\n    server: x\n    extensions: [{name: podfall.io, extension: {}}]\n-\n  name: b\n  cluster: {server: y}\n", true},
		"indented as a whole": {"  clusters:\n  - name: a\n    cluster: {server: https://a}\n", true},
		"nested same name":    {"x:\n  clusters: 1\nclusters:\n- name: a\n  cluster: {server: https://a}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, current := range []kubeconfig.CurrentContext{kubeconfig.Keep, kubeconfig.Switch} {
				got := mustMerge(t, row.file, access(), current)
				if got.Rewritten != row.rewritten {
					t.Errorf("rewritten %v:\n%s", got.Rewritten, got.Data)
				}
				check(t, row.file, got.Data, current)
			}
		})
	}
}

type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// check compares what the files mean.
func check(t reporter, before string, after []byte, current kubeconfig.CurrentContext) {
	t.Helper()
	var old, now map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(before), &old), yaml.UnmarshalStrict(after, &now)); err != nil {
		t.Fatalf("%v\n%s", err, after)
	}
	for key := range maps.Keys(old) {
		switch key {
		case "clusters", "contexts", "users":
			had, _ := old[key].([]any)
			have, _ := now[key].([]any)
			theirs := func(items []any) []any {
				return slices.DeleteFunc(slices.Clone(items), func(item any) bool {
					fields, _ := item.(map[string]any)
					return fields["name"] == "podfall-test"
				})
			}
			if fmt.Sprint(theirs(had)) != fmt.Sprint(theirs(have)) || len(have) != len(theirs(had))+1 {
				t.Errorf("%s were %v, and are %v", key, had, have)
			}
		case "current-context":
			want := old[key]
			if current == kubeconfig.Switch {
				want = "podfall-test"
			}
			if now[key] != want {
				t.Errorf("current-context is %v, want %v", now[key], want)
			}
		default:
			if fmt.Sprint(old[key]) != fmt.Sprint(now[key]) {
				t.Errorf("%s was %v, and is %v", key, old[key], now[key])
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		file string
		want error
	}{
		"an entry of our name":   {"clusters:\n- name: podfall-test\n  cluster: {server: https://prod}\n", kubeconfig.ErrNotOurs},
		"a user of our name":     {"users:\n- name: podfall-test\n  user: {token: x}\n", kubeconfig.ErrNotOurs},
		"no YAML":                {"{[", kubeconfig.ErrUnreadable},
		"a Pod":                  {"kind: Pod\n", kubeconfig.ErrUnreadable},
		"clusters that are none": {"clusters: many\n", kubeconfig.ErrUnreadable},
		"a list of strings":      {"users: [me]\n", kubeconfig.ErrUnreadable},
		"a list":                 {"- a\n", kubeconfig.ErrUnreadable},
		"a key twice":            {"users: []\nusers: []\n", kubeconfig.ErrUnreadable},
	} {
		if got, err := access().Merge([]byte(row.file), kubeconfig.Keep); !errors.Is(err, row.want) || got.Data != nil {
			t.Errorf("%s: %v, want %v", name, err, row.want)
		}
	}
}

// TestAnyKubeconfigKeepsItsMeaning merges into drawn files, twice.
func TestAnyKubeconfigKeepsItsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := drawKubeconfig(t)
		current := rapid.SampledFrom([]kubeconfig.CurrentContext{kubeconfig.Keep, kubeconfig.Switch}).Draw(t, "current")
		once, err := access().Merge([]byte(file), current)
		if err != nil {
			t.Fatalf("%v", err)
		}
		check(t, file, once.Data, current)
		twice, err := access().Merge(once.Data, current)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if !bytes.Equal(once.Data, twice.Data) {
			t.Errorf("merged again:\n%s\ninstead of\n%s", twice.Data, once.Data)
		}
	})
}

// drawKubeconfig draws a kubeconfig in one of many styles.
func drawKubeconfig(t *rapid.T) string {
	noise := rapid.SampledFrom([]string{"", "# a comment\n", "\n", "\n# two\n\n"})
	var parts []string
	for _, list := range []string{"clusters", "contexts", "users"} {
		indent := rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent")
		count := rapid.IntRange(0, 3).Draw(t, list)
		text := list + ":\n"
		if count == 0 {
			text = list + rapid.SampledFrom([]string{": []\n", ":\n", ": null\n"}).Draw(t, "none")
		}
		for i := range count {
			text += noise.Draw(t, "noise")
			body := rapid.SampledFrom([]string{"{server: x}", "\n" + indent + "    server: |\n" + indent + "      x\n\n" + indent + "      # y", `"quoted: #"`}).Draw(t, "body")
			text += fmt.Sprintf("%s- name: n%d\n%s  %s: %s\n", indent, i, indent, strings.TrimSuffix(list, "s"), body)
		}
		parts = append(parts, text+noise.Draw(t, "noise"))
	}
	parts = append(parts, "current-context: n0\n", "kind: Config\n", "preferences: {}\n")
	return noise.Draw(t, "noise") + strings.Join(rapid.Permutation(parts).Draw(t, "order"), "")
}
