package staticpod

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

const manifestText = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  priorityClassName: system-node-critical
  containers:
  - name: main
    image: nginx
    ports: [{containerPort: 80}]
    readinessProbe: {httpGet: {port: 80}}
    resources: {limits: {cpu: 1}}
`

func TestParse(t *testing.T) {
	pod, err := Parse("web.yaml", []byte(manifestText), "Node-1")
	if err != nil {
		t.Fatal(err)
	}
	if pod.Name != "web-node-1" || pod.Namespace != "default" || pod.Spec.NodeName != "Node-1" {
		t.Errorf("it is %s/%s on %s", pod.Namespace, pod.Name, pod.Spec.NodeName)
	}
	if hash := pod.Annotations["kubernetes.io/config.hash"]; len(pod.UID) != 32 || hash != string(pod.UID) || !podstate.IsStatic(pod) {
		t.Errorf("UID %s, annotations %v", pod.UID, pod.Annotations)
	}
	c := pod.Spec.Containers[0]
	if *pod.Spec.TerminationGracePeriodSeconds != 30 || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways ||
		*pod.Spec.Priority != 2_000_001_000 || c.ImagePullPolicy != corev1.PullAlways || c.Ports[0].Protocol != corev1.ProtocolTCP ||
		c.ReadinessProbe.PeriodSeconds != 10 || c.Resources.Requests.Cpu().Value() != 1 {
		t.Errorf("it lacks defaults: %+v", pod.Spec)
	}
	for what, other := range map[string]func() (*corev1.Pod, error){
		"node":    func() (*corev1.Pod, error) { return Parse("web.yaml", []byte(manifestText), "node-2") },
		"file":    func() (*corev1.Pod, error) { return Parse("x.yaml", []byte(manifestText), "Node-1") },
		"content": func() (*corev1.Pod, error) { return Parse("web.yaml", []byte(manifestText+"#"), "Node-1") },
	} {
		if got, err := other(); err != nil || got.UID == pod.UID {
			t.Errorf("another %s: UID %s, %v", what, got.UID, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	head := "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
	for text, want := range map[string]string{
		"kind: Pod":                              `apiVersion "", kind "Pod": want v1 and Pod`,
		"apiVersion: v1\nkind: Pod":              `metadata.name ""`,
		head:                                     "spec.containers: want one or more",
		head + "spec: {container: []}":           `unknown field "spec.container"`,
		head + "spec: {containers: [{name: A}]}": `container name "A"`,
		head + "spec: {containers: [{name: a}, {name: a}]}":                                         `container name "a": is there twice`,
		strings.Replace(head, "web", "../web", 1) + "spec: {containers: [{name: a}]}":               `metadata.name "../web"`,
		strings.Replace(head, "web", "web, namespace: ../x", 1) + "spec: {containers: [{name: a}]}": `metadata.namespace "../x"`,
		strings.Replace(head, "web", "web, uid: ../x", 1) + "spec: {containers: [{name: a}]}":       `metadata.uid "../x"`,
	} {
		if _, err := Parse("f", []byte(text), "n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v\nwant %s", text, err, want)
		}
	}
}

// TD-064: of three static pods of one name the second starts when the first has ended, and
// the third after it; a waiter that has gone meanwhile is passed over.
func TestTD064StaticPodExclusion(t *testing.T) {
	var turns NameQueue
	gone := map[types.UID]bool{}
	ask := func(uid types.UID, want bool) {
		t.Helper()
		if got := turns.Acquire("default/web", uid, func(uid types.UID) bool { return !gone[uid] }); got != want {
			t.Errorf("%s may run: %v, want %v", uid, got, want)
		}
	}
	ask("1", true)
	ask("1", true) // again: it runs
	ask("2", false)
	ask("3", false)
	ask("4", false)
	turns.Release("2") // it never ran
	ask("2", false)
	gone["1"] = true
	ask("2", false) // still being ended
	turns.Release("1")
	ask("3", false) // not its turn
	gone["2"] = true
	ask("2", false)
	ask("4", false)
	ask("3", true)
	turns.Release("3")
	ask("4", true)
}

// TD-065: who may start, one case each. That pods of the API never ask is the loop's to see
// to.
func TestTD065AllowPodStart(t *testing.T) {
	for name, c := range map[string]struct {
		turns NameQueue
		gone  []types.UID
		want  bool
	}{
		"none started":             {want: true},
		"another one started":      {turns: NameQueue{running: map[string]types.UID{"n": "other"}, waiting: map[string][]types.UID{}}},
		"itself started":           {turns: NameQueue{running: map[string]types.UID{"n": "me"}, waiting: map[string][]types.UID{}}, want: true},
		"another name started":     {turns: NameQueue{running: map[string]types.UID{"m": "other"}, waiting: map[string][]types.UID{}}, want: true},
		"first of those who wait":  {turns: NameQueue{running: map[string]types.UID{}, waiting: map[string][]types.UID{"n": {"me", "other"}}}, want: true},
		"not the first":            {turns: NameQueue{running: map[string]types.UID{}, waiting: map[string][]types.UID{"n": {"other", "me"}}}},
		"first after those gone":   {turns: NameQueue{running: map[string]types.UID{}, waiting: map[string][]types.UID{"n": {"a", "b", "me"}}}, gone: []types.UID{"a", "b"}, want: true},
		"is not wanted itself":     {gone: []types.UID{"me"}},
		"has ended while it waits": {turns: NameQueue{running: map[string]types.UID{}, waiting: map[string][]types.UID{"n": {"me"}}}, gone: []types.UID{"me"}},
	} {
		wanted := func(uid types.UID) bool { return !slices.Contains(c.gone, uid) }
		if got := c.turns.Acquire("n", "me", wanted); got != c.want {
			t.Errorf("%s: may run %v, want %v", name, got, c.want)
		}
	}
}

// TestDecide: every state of a static pod and its mirror (KBL-82).
func TestDecide(t *testing.T) {
	pod := func(uid string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "w", UID: types.UID(uid), Annotations: map[string]string{
			podstate.AnnotationHash: uid, podstate.AnnotationSource: podstate.SourceFile,
		}}}
		return p
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "un"}}
	mirror := func(of string) *corev1.Pod { return mirrorFor(pod(of), node) }
	marked := mirror("a")
	marked.DeletionTimestamp = &metav1.Time{}
	leaving := node.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{}
	one := func(p *corev1.Pod) map[string]*corev1.Pod { return map[string]*corev1.Pod{"d/w": p} }
	for name, c := range map[string]struct {
		view View
		want string
	}{
		"no mirror":                  {View{Running: one(pod("a")), Node: node}, "create"},
		"no node":                    {View{Running: one(pod("a"))}, ""},
		"a node that is deleted":     {View{Running: one(pod("a")), Node: leaving}, ""},
		"its mirror":                 {View{Running: one(pod("a")), Mirrors: one(mirror("a")), Node: node}, ""},
		"a mirror of another form":   {View{Running: one(pod("b")), Mirrors: one(mirror("a")), Node: node}, "delete create"},
		"a mirror that is deleted":   {View{Running: one(pod("a")), Mirrors: one(marked), Node: node}, "delete create"},
		"the pod is being ended":     {View{Ending: map[string]bool{"d/w": true}, Mirrors: one(mirror("a")), Node: node}, ""},
		"both are":                   {View{Ending: map[string]bool{"d/w": true}, Mirrors: one(marked), Node: node}, "delete"},
		"the pod has gone":           {View{Mirrors: one(mirror("a")), Node: node}, "delete"},
		"nothing":                    {View{Node: node}, ""},
		"a mirror of another's node": {View{Mirrors: one(mirror("a"))}, "delete"},
	} {
		var got []string
		for _, step := range Decide(c.view) {
			if step.Delete != nil {
				got = append(got, "delete")
			}
			if step.Create != nil {
				got = append(got, "create")
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: steps (-want +got)\n%s", name, diff)
		}
	}
	made := mirror("a")
	if made.UID != "" || made.Annotations[corev1.MirrorPodAnnotationKey] != "a" || made.OwnerReferences[0].UID != "un" || !*made.OwnerReferences[0].Controller {
		t.Errorf("the mirror is %+v", made.ObjectMeta)
	}
}

// TestSource: the directory need not be there; files come, change, are wrong, and go, and
// nothing is told twice.
func TestSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	synctest.Test(t, func(t *testing.T) {
		var told [][]string
		var refused []string
		source := NewSource(Config{
			Dir: dir, Node: "n", Period: time.Second, Log: slog.New(slog.DiscardHandler),
			Replace: func(pods []kinds.Object) {
				names := []string{}
				for _, pod := range pods {
					names = append(names, pod.GetName()+" "+pod.GetLabels()["v"])
				}
				told = append(told, names)
			},
			Refused: func(path string, err error) { refused = append(refused, filepath.Base(path)+": "+err.Error()) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = source.Run(ctx) }()
		time.Sleep(500 * time.Millisecond) // between two looks
		expect := func(what string, want ...[]string) {
			t.Helper()
			time.Sleep(2 * time.Second) // two looks
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("%s (-want +got)\n%s", what, diff)
			}
			told = nil
		}
		expectRefused := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, refused); diff != "" {
				t.Errorf("refused (-want +got)\n%s", diff)
			}
			refused = nil
		}
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		manifest := func(name, v string) string {
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {v: " + v + "}}\nspec: {containers: [{name: c}]}"
		}
		expect("no directory", []string{})
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		expect("an empty one")
		write("a.yaml", manifest("a", "one"))
		write(".b.yaml", manifest("b", "one"))
		expect("a file, and one that is being written", []string{"a-n one"})
		write("a.yaml", manifest("a", "two"))
		expect("a change", []string{"a-n two"})
		write("b.yaml", "kind: Service")
		expect("a file that is wrong", []string{"a-n two"})
		expectRefused(`b.yaml: apiVersion "", kind "Service": want v1 and Pod`)
		write("b.yaml", "kind: Pod\napiVersion: v1\nspec: {containers: [{imag: x}]}")
		expect("a field that is wrong", []string{"a-n two"})
		expectRefused(`b.yaml: unknown field "spec.containers[0].imag"`)
		write("b.yaml", strings.Repeat("#", maxManifest+1))
		expect("one that is too large")
		expectRefused("b.yaml: it has 1048577 bytes: want at most 1048576")
		write("b.yaml", manifest("b", "one"))
		expect("one that is right now", []string{"a-n two", "b-n one"})
		write("b.yaml", "")
		expect("an empty one", []string{"a-n two"})
		expectRefused(`b.yaml: apiVersion "", kind "": want v1 and Pod`)
		if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		expect("removed", []string{})
	})
}
