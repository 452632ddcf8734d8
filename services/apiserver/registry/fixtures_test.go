package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
)

var rewrite = flag.Bool("rewrite", false, "write what the registry finds into testdata")

var (
	noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

	podJSON = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},` +
		`"spec":{"containers":[{"name":"app","image":"nginx:1.27"}]}}`
)

// kindOf finds a kind by what a person would type.
func kindOf(t testing.TB, alias string) kinds.Kind {
	t.Helper()
	kind, ok := kinds.ByAlias(alias)
	if !ok {
		t.Fatalf("no kind %q", alias)
	}
	return kind
}

// latest returns the behaviour of the newest release.
func latest(t testing.TB) proto.Compat {
	t.Helper()
	compat, err := proto.CompatFor("")
	if err != nil {
		t.Fatal(err)
	}
	return compat
}

// strategy returns the strategy of a kind in the newest release.
func strategy(t testing.TB, alias string) registry.Strategy {
	t.Helper()
	return registry.For(kindOf(t, alias), latest(t))
}

// decode reads a document strictly.
func decode(t testing.TB, alias, document string) kinds.Object {
	t.Helper()
	obj, _, err := registry.DecodeBody(kindOf(t, alias), "application/json", []byte(document), metav1.FieldValidationStrict)
	if err != nil {
		t.Fatalf("decode %s: %v", alias, err)
	}
	return obj
}

// stored returns a document as the store would keep it at revision 7.
func stored(t testing.TB, alias, document string) kinds.Object {
	t.Helper()
	obj := decode(t, alias, document)
	if err := registry.BeforeCreate(strategy(t, alias), kindOf(t, alias), obj, noon, "uid-1"); err != nil {
		t.Fatalf("create %s: %v", alias, err)
	}
	complete(t, kindOf(t, alias), obj)
	obj.SetResourceVersion("7")
	return obj
}

// complete adds to a new Pod what admission adds between its defaults and its validation.
func complete(t testing.TB, kind kinds.Kind, obj kinds.Object) {
	t.Helper()
	create := admission.Attributes{Identity: proto.APIServer, Verb: proto.VerbCreate, Kind: kind}
	plugins := []string{admission.Priority, admission.DefaultTolerationSeconds}
	if err := admission.SetDefaults(plugins, create, obj, nil, noClasses{}); err != nil {
		t.Fatal(err)
	}
}

// noClasses is a cluster without classes of its own.
type noClasses struct{}

func (noClasses) PriorityClasses() []*schedulingv1.PriorityClass    { return nil }
func (noClasses) StorageClasses() []*storagev1.StorageClass         { return nil }
func (noClasses) RuntimeClasses() []*nodev1.RuntimeClass            { return nil }
func (noClasses) LimitRanges(string) []*corev1.LimitRange           { return nil }
func (noClasses) ServiceAccount(_, _ string) *corev1.ServiceAccount { return nil }

// storedPod is the usual Pod, changed.
func storedPod(t testing.TB, changes ...string) *corev1.Pod {
	t.Helper()
	return asType[*corev1.Pod](t, stored(t, "pods", changed(t, podJSON, changes...)))
}

// asType returns obj as a T.
func asType[T kinds.Object](t failer, obj kinds.Object) T {
	t.Helper()
	typed, ok := obj.(T)
	if !ok {
		t.Fatalf("%T is no %T", obj, typed)
	}
	return typed
}

// update carries an update out as the verbs do, which prepare it twice when a webhook has
// changed it. The two share what obj takes over from old, which stays as it is.
func update(t testing.TB, alias string, obj, old kinds.Object, subresource string) error {
	t.Helper()
	kind, before := kindOf(t, alias), old.DeepCopyObject()
	registry.PrepareUpdate(strategy(t, alias), obj, old, subresource)
	err := registry.BeforeUpdate(strategy(t, alias), kind, obj, old, subresource)
	if !reflect.DeepEqual(old, before) {
		t.Errorf("an update of %s %q changed what it replaces:\n was %+v\n  is %+v", alias, subresource, before, old)
	}
	return err
}

// causes are the details of a refusal, a line each.
func causes(err error) string {
	var status apierrors.APIStatus
	if err == nil {
		return "ok"
	}
	if !errors.As(err, &status) || status.Status().Details == nil {
		return err.Error()
	}
	var b strings.Builder
	for _, cause := range status.Status().Details.Causes {
		fmt.Fprintf(&b, "%s: %s\n", cause.Field, cause.Message)
	}
	return strings.TrimSpace(b.String())
}

// failer is what a helper needs of a test, rapid's included.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// changed is document after lines of the form "JSON pointer = JSON value", which make
// the parents that are missing; "gone" instead of a value removes.
func changed(t failer, document string, changes ...string) string {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(document), &tree); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		pointer, value, ok := strings.Cut(change, " = ")
		if !ok {
			t.Fatalf("change %q: want pointer = value", change)
		}
		parsed := any(removed{})
		if value != "gone" {
			if err := json.Unmarshal([]byte(value), &parsed); err != nil {
				t.Fatalf("change %q: %v", change, err)
			}
		}
		tree = set(tree, strings.Split(pointer, "/")[1:], parsed)
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// removed is the value that removes a member.
type removed struct{}

func set(node any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	if i, err := strconv.Atoi(key); err == nil {
		list, _ := node.([]any)
		if i == len(list) {
			list = append(list, nil)
		}
		list[i] = set(list[i], path[1:], value)
		return list
	}
	object, ok := node.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	object[key] = set(object[key], path[1:], value)
	if object[key] == any(removed{}) {
		delete(object, key)
	}
	return object
}

// runCases runs a file of cases: a name, lines of changes, four dashes, the result. With -rewrite
// it writes the results instead of comparing.
func runCases(t *testing.T, file string, run func(t *testing.T, changes []string) string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for i, stanza := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		if strings.HasPrefix(stanza, "#") {
			fmt.Fprintf(&out, "%s\n\n", stanza)
			continue
		}
		head, want, ok := strings.Cut(stanza, "\n----")
		lines := strings.Split(head, "\n")
		if !ok || lines[0] == "" {
			t.Fatalf("%s: stanza %d has no name or no ----", file, i)
		}
		t.Run(lines[0], func(t *testing.T) {
			got := run(t, lines[1:])
			fmt.Fprintf(&out, "%s\n----\n%s\n\n", head, got)
			if want = strings.TrimSpace(want); got != want && !*rewrite {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if *rewrite {
		if err := os.WriteFile(file, bytes.TrimSuffix(out.Bytes(), []byte("\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// document is obj as JSON.
func document(t testing.TB, obj kinds.Object) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
