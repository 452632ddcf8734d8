package registry_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// TestPodDefaults shows a small Pod as it is stored.
func TestPodDefaults(t *testing.T) {
	t.Parallel()
	runCases(t, "testdata/pod_defaults.txt", func(t *testing.T, changes []string) string {
		pod := storedPod(t, changes...)
		pod.TypeMeta, pod.CreationTimestamp = metav1.TypeMeta{}, metav1.Time{}
		data, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	})
}

// TestCheckGracefulDelete is upstream's table of the same name, TD-001.
func TestCheckGracefulDelete(t *testing.T) {
	t.Parallel()
	thirty, minus, five, zero := int64(30), int64(-1), int64(5), int64(0)
	tests := []struct {
		id        string
		phase     corev1.PodPhase
		node      string
		tgps, ask *int64
		want      int64
	}{
		{"TD-001 pending on a node", corev1.PodPending, "n1", nil, &thirty, 30},
		{"TD-001 failed", corev1.PodFailed, "n1", nil, &thirty, 0},
		{"TD-001 pending on no node", corev1.PodPending, "", nil, &thirty, 0},
		{"TD-001 succeeded", corev1.PodSucceeded, "n1", nil, &thirty, 0},
		{"TD-001 no phase, on no node", "", "", nil, &thirty, 0},
		{"TD-001 a negative grace of its own", "", "n1", &minus, nil, 1},
		{"API-11 its own", corev1.PodRunning, "n1", &thirty, nil, 30},
		{"API-11 neither", corev1.PodRunning, "n1", nil, nil, 0},
		{"API-11 the one asked for wins", corev1.PodRunning, "n1", &thirty, &five, 5},
		{"API-13 negative", corev1.PodRunning, "n1", &thirty, &minus, 1},
		{"API-13 zero", corev1.PodRunning, "n1", &thirty, &zero, 0},
		{"API-14 zero of its own", corev1.PodRunning, "n1", &zero, nil, 0},
	}
	for _, tt := range tests {
		pod := &corev1.Pod{
			Spec:   corev1.PodSpec{NodeName: tt.node, TerminationGracePeriodSeconds: tt.tgps},
			Status: corev1.PodStatus{Phase: tt.phase},
		}
		if got, ok := strategy(t, "pods").Graceful(pod, tt.ask); got != tt.want || !ok {
			t.Errorf("%s: %d, %t, want %d", tt.id, got, ok, tt.want)
		}
	}
	for _, alias := range []string{"nodes", "leases", "events", "namespaces", "deployments"} {
		obj, _ := kinds.New(kindOf(t, alias).GroupVersionKind)
		if _, ok := strategy(t, alias).Graceful(obj, &thirty); ok {
			t.Errorf("%s are deleted gracefully", alias)
		}
	}
}

func TestGenerationAndGraceOfNewPods(t *testing.T) {
	t.Parallel()
	pod := storedPod(t, "/metadata/generation = 100", "/spec/terminationGracePeriodSeconds = -1")
	if pod.Generation != 1 {
		t.Errorf("TD-032: generation %d", pod.Generation)
	}
	if *pod.Spec.TerminationGracePeriodSeconds != 1 {
		t.Errorf("TD-031: grace %d", *pod.Spec.TerminationGracePeriodSeconds)
	}
	// TD-024: what an older server stored is read as 1 when it is next written.
	old := storedPod(t)
	old.Spec.TerminationGracePeriodSeconds = new(int64(-1))
	obj := old.DeepCopy()
	if err := update(t, "pods", obj, old, ""); err != nil || *obj.Spec.TerminationGracePeriodSeconds != 1 {
		t.Errorf("TD-024: grace %d, %v", *obj.Spec.TerminationGracePeriodSeconds, err)
	}
	template := stored(t, "podtemplates", `{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"a","namespace":"b"},`+
		`"template":{"spec":{"containers":[{"name":"a","image":"b"}],"terminationGracePeriodSeconds":-1}}}`)
	if got := *registry.PodTemplate(template).Spec.TerminationGracePeriodSeconds; got != -1 {
		t.Errorf("API-14: a template's grace became %d", got)
	}
}

func TestOlderReleasesCountNoGenerations(t *testing.T) {
	t.Parallel()
	compat, err := proto.CompatFor("v1.22")
	if err != nil {
		t.Fatal(err)
	}
	s, kind := registry.For(kindOf(t, "pods"), compat), kindOf(t, "pods")
	pod := asType[*corev1.Pod](t, decode(t, "pods", podJSON))
	if err := registry.BeforeCreate(s, kind, pod, noon, "u"); err != nil || pod.Generation != 0 {
		t.Errorf("created with generation %d, %v", pod.Generation, err)
	}
	pod.ResourceVersion = "7"
	obj := pod.DeepCopy()
	obj.Spec.Containers[0].Image = "b"
	if err := registry.BeforeUpdate(s, kind, obj, pod, ""); err != nil || obj.Generation != 0 {
		t.Errorf("updated to generation %d, %v", obj.Generation, err)
	}
}

func TestPodWarnings(t *testing.T) {
	t.Parallel()
	pod := storedPod(
		t, `/metadata/name = "web.a"`,
		`/spec/initContainers/0 = {"name":"side","image":"b","restartPolicy":"Always","startupProbe":{"tcpSocket":{"port":1}}}`,
		`/spec/containers/0/lifecycle = {"preStop":{"sleep":{"seconds":1}},"postStart":{"sleep":{"seconds":1}}}`,
		`/spec/containers/0/livenessProbe = {"tcpSocket":{"port":1}}`,
		`/spec/containers/0/readinessProbe = {"tcpSocket":{"port":1}}`,
		`/spec/containers/0/env = [{"name":"A"},{"name":"A"}]`,
		`/spec/imagePullSecrets = [{"name":""},{"name":"a"},{"name":"a"}]`,
	)
	want := []string{
		`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`,
		`spec.imagePullSecrets[0].name: invalid empty name ""`,
		`spec.imagePullSecrets[2].name: duplicate name "a"`,
	}
	got := strategy(t, "pods").Warnings(pod)
	if len(got) == 0 || !strings.HasPrefix(got[0], "metadata.name: this is used in the Pod's hostname") {
		t.Fatalf("got %q", got)
	}
	if diff := cmp.Diff(want, got[1:]); diff != "" {
		t.Error(diff)
	}
	grouped := storedPod(t)
	grouped.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(1000))}
	if got := strategy(t, "pods").Warnings(grouped); len(got) != 0 {
		t.Errorf("a scripted pod with an fsGroup: %q", got)
	}
	grouped.Spec.RuntimeClassName = new("process")
	if got := strategy(t, "pods").Warnings(grouped); len(got) != 1 || !strings.HasPrefix(got[0], "spec.securityContext.fsGroup: podfall gives volumes to no group") {
		t.Errorf("a pod with an fsGroup: %q", got)
	}
	if quiet := strategy(t, "pods").Warnings(storedPod(t)); quiet != nil {
		t.Errorf("a plain pod: %q", quiet)
	}
}

// TestManifests: what people run is accepted, and so are the Pods its templates make.
func TestManifests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/manifests/*.yaml")
	if err != nil || len(files) < 9 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for text := range strings.SplitSeq("\n"+string(data), "\n---") {
				if strings.TrimSpace(text) != "" {
					acceptManifest(t, text)
				}
			}
		})
	}
}

func acceptManifest(t *testing.T, text string) {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(body, &head); err != nil {
		t.Fatal(err)
	}
	group, version, grouped := strings.Cut(head.APIVersion, "/")
	if !grouped {
		group, version = "", head.APIVersion
	}
	alias := head.Kind + "." + version + "." + group
	obj := decode(t, alias, string(body))
	if err := registry.MatchRequest(kindOf(t, alias), obj, "default", ""); err != nil {
		t.Fatal(err)
	}
	if err := registry.BeforeCreate(strategy(t, alias), kindOf(t, alias), obj, noon, "u"); err != nil {
		t.Fatalf("%s %s: %v", alias, obj.GetName(), err)
	}
	if template := registry.PodTemplate(obj); template != nil {
		pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pod.Name, pod.Namespace = obj.GetName()+"-x", "default"
		if set, ok := obj.(*appsv1.StatefulSet); ok { // its controller adds these
			for _, claim := range set.Spec.VolumeClaimTemplates {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name})
			}
		}
		if err := registry.BeforeCreate(strategy(t, "pods"), kindOf(t, "pods"), pod, noon, "u"); err != nil {
			t.Errorf("a Pod of %s %s: %v", alias, obj.GetName(), err)
		}
	}
}

// drawPod makes a Pod with some of the things that Pods have, right and wrong.
func drawPod(t *rapid.T) *corev1.Pod {
	var parts []string
	options := []string{
		`/spec/terminationGracePeriodSeconds = -1`, `/spec/terminationGracePeriodSeconds = 0`,
		`/spec/hostNetwork = true`, `/spec/restartPolicy = "Never"`, `/spec/dnsPolicy = "Default"`,
		`/spec/serviceAccount = "old"`, `/spec/serviceAccountName = "new"`, `/spec/nodeName = "n1"`,
		`/spec/containers/0/image = "a/b@sha256:0123"`, `/spec/containers/0/image = "host:5000/b"`,
		`/spec/containers/0/ports = [{"containerPort":80},{"name":"x","containerPort":81,"protocol":"UDP"}]`,
		`/spec/containers/0/resources = {"limits":{"cpu":"0.0001","memory":"1Gi"}}`,
		`/spec/containers/0/resources = {"limits":{"cpu":"2"},"requests":{"cpu":"1"}}`,
		`/spec/containers/0/livenessProbe = {"httpGet":{"port":80}}`, `/spec/containers/0/startupProbe = {"grpc":{"port":80}}`,
		`/spec/containers/0/lifecycle = {"preStop":{"httpGet":{"port":"x"}}}`,
		`/spec/containers/0/env = [{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]`,
		`/spec/containers/1 = {"name":"b","image":"c:latest"}`,
		`/spec/initContainers/0 = {"name":"i","image":"c","restartPolicy":"Always"}`,
		`/spec/volumes = [{"name":"v"},{"name":"w","hostPath":{"path":"/x"}},{"name":"c","configMap":{"name":"c"}}]`,
		`/spec/volumes = [{"name":"p","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}},{"name":"s","secret":{"secretName":"s"}}]`,
		`/spec/tolerations = [{"operator":"Exists"}]`, `/spec/tolerations = [{"key":"node.kubernetes.io/not-ready","operator":"Exists"}]`,
		`/spec/schedulingGates = [{"name":"a"}]`, `/spec/priorityClassName = "system-node-critical"`,
		`/spec/enableServiceLinks = false`, `/metadata/labels = {"a":"b"}`, `/spec/overhead = {"cpu":"1m"}`,
	}
	for _, option := range options {
		if rapid.Bool().Draw(t, option) {
			parts = append(parts, option)
		}
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal([]byte(changed(t, podJSON, parts...)), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestPreparingTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	s, kind := strategy(t, "pods"), kindOf(t, "pods")
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		s.PrepareForCreate(pod, noon)
		once := pod.DeepCopy()
		s.PrepareForCreate(pod, noon)
		if diff := cmp.Diff(once, pod); diff != "" {
			t.Fatal(diff)
		}
		if len(s.Validate(pod)) > 0 {
			return
		}
		data, err := kinds.Encode(pod)
		if err != nil {
			t.Fatal(err)
		}
		back, err := kinds.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		pod.TypeMeta = asType[*corev1.Pod](t, back).TypeMeta
		if !equality.Semantic.DeepEqual(pod, back) {
			t.Fatal(cmp.Diff(pod, back))
		}
		// A Pod may always become itself, and that is no change of its spec.
		pod.UID, pod.ResourceVersion = "u", "1"
		pod.CreationTimestamp.Time = noon
		again := pod.DeepCopy()
		if err := registry.BeforeUpdate(s, kind, again, pod, ""); err != nil || again.Generation != pod.Generation {
			t.Fatalf("generation %d to %d, %v", pod.Generation, again.Generation, err)
		}
	})
}
