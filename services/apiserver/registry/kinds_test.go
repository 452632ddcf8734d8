package registry_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// minimalObject returns the smallest valid object of a kind, with a name that every kind accepts.
func minimalObject(t *testing.T, kind kinds.Kind) kinds.Object {
	t.Helper()
	obj, err := kinds.New(kind.GroupVersionKind)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(minimalContent(kind.GroupResource().String())), obj); err != nil {
		t.Fatal(err)
	}
	obj.SetName("a")
	if kind.Namespaced {
		obj.SetNamespace("b")
	}
	return obj
}

// minimalContent returns what an object needs besides its name to be valid, as JSON; most kinds
// need nothing.
func minimalContent(resource string) string {
	const containers = `"containers":[{"name":"c","image":"i:1"}]`
	const labels = `{"app":"x"}`
	const template = `"template":{"metadata":{"labels":` + labels + `},"spec":{` + containers + `}}`
	const workload = `{"spec":{"selector":{"matchLabels":` + labels + `},` + template + `}}`
	const job = `"spec":{"template":{"spec":{"restartPolicy":"Never",` + containers + `}}}`
	const storage = `"accessModes":["ReadWriteOnce"],`
	switch resource {
	case "pods":
		return `{"spec":{` + containers + `}}`
	case "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps":
		return workload
	case "replicationcontrollers":
		return `{"spec":{` + template + `}}`
	case "jobs.batch":
		return `{` + job + `}`
	case "cronjobs.batch":
		return `{"spec":{"schedule":"* * * * *","jobTemplate":{` + job + `}}}`
	case "services":
		return `{"spec":{"ports":[{"port":80}]}}`
	case "endpointslices.discovery.k8s.io":
		return `{"addressType":"IPv4"}`
	case "persistentvolumes":
		return `{"spec":{` + storage + `"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}`
	case "persistentvolumeclaims":
		return `{"spec":{` + storage + `"resources":{"requests":{"storage":"1Gi"}}}}`
	case "storageclasses.storage.k8s.io":
		return `{"provisioner":"example.com/disk"}`
	}
	return `{}`
}

// TestEveryKind: every kind can be created and updated, and its status only through its
// own subresource.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		if kind.Kind == "Pod" {
			continue // one without containers is refused, and it has tests of its own
		}
		s := registry.For(kind, latest(t))
		obj := minimalObject(t, kind)
		if event, ok := obj.(*corev1.Event); ok {
			event.InvolvedObject.Namespace = "b"
		}
		if kind.Group == "events.k8s.io" {
			continue // TestEvents has one
		}
		if err := registry.BeforeCreate(s, kind, obj, noon, "u"); err != nil {
			t.Errorf("%s: %v", kind.GroupVersionKind, err)
			continue
		}
		if !obj.GetCreationTimestamp().Time.Equal(noon) || obj.GetUID() != "u" {
			t.Errorf("%s: made %v with UID %q", kind.Kind, obj.GetCreationTimestamp(), obj.GetUID())
		}
		obj.SetResourceVersion("7")
		changed, ok := obj.DeepCopyObject().(kinds.Object)
		if !ok {
			t.Fatal(kind.Kind)
		}
		changed.SetLabels(map[string]string{"a": "b"})
		if err := registry.BeforeUpdate(s, kind, changed, obj, ""); err != nil {
			t.Errorf("%s: %v", kind.GroupVersionKind, err)
		}
		if changed.GetGeneration() != obj.GetGeneration() {
			t.Errorf("%s: a label made generation %d", kind.Kind, changed.GetGeneration())
		}
		fields := s.Fields(obj)
		if fields["metadata.name"] != "a" || fields["metadata.namespace"] != obj.GetNamespace() {
			t.Errorf("%s: fields %v", kind.Kind, fields)
		}
	}
}

func TestGenericStatusAndGeneration(t *testing.T) {
	t.Parallel()
	const body = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"b"},` +
		`"spec":{"replicas":1,"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},` +
		`"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"replicas":9}}`
	old := stored(t, "deployments", body)
	if text := document(t, old); old.GetGeneration() != 1 || strings.Contains(text, `"replicas":9`) {
		t.Errorf("created: %s", text)
	}
	apply := func(subresource, patch string) (string, int64) {
		t.Helper()
		obj, _, err := registry.ApplyPatch(kindOf(t, "deployments"), old, types.MergePatchType, []byte(patch), strict)
		if err != nil {
			t.Fatal(err)
		}
		if err := update(t, "deployments", obj, old, subresource); err != nil {
			t.Fatal(err)
		}
		return document(t, obj), obj.GetGeneration()
	}
	both := `{"spec":{"replicas":2},"status":{"replicas":5,"readyReplicas":5}}`
	if text, generation := apply("", both); generation != 2 || strings.Contains(text, "readyReplicas") || !strings.Contains(text, `"replicas":2`) {
		t.Errorf("update: generation %d, %s", generation, text)
	}
	if text, generation := apply("status", both); generation != 1 || !strings.Contains(text, "readyReplicas") || strings.Contains(text, `"replicas":2`) {
		t.Errorf("status: generation %d, %s", generation, text)
	}
}

func TestTraits(t *testing.T) {
	t.Parallel()
	if pods := registry.Subresources(kindOf(t, "pods")); !slices.Equal(pods, []string{"binding", "ephemeralcontainers", "eviction", "resize", "status"}) {
		t.Errorf("subresources of pods: %q", pods)
	}
	if maps := registry.Subresources(kindOf(t, "configmaps")); maps != nil {
		t.Errorf("subresources of configmaps: %q", maps)
	}
	if !registry.ReturnsDeleted(kindOf(t, "pods")) || registry.ReturnsDeleted(kindOf(t, "configmaps")) { // API-05
		t.Error("what a DELETE answers")
	}
	if !registry.AllowsUnconditionalUpdate(kindOf(t, "pods")) || registry.AllowsUnconditionalUpdate(kindOf(t, "leases")) {
		t.Error("updates without a version")
	}
	if registry.CreatesOnUpdate(kindOf(t, "pods")) || !registry.CreatesOnUpdate(kindOf(t, "leases")) { // API-66
		t.Error("updates of what is missing")
	}
}

func TestCreateDropsWhatIsTheServers(t *testing.T) {
	t.Parallel()
	pod := storedPod(t, `/metadata/uid = "mine"`, `/metadata/creationTimestamp = "2020-01-01T00:00:00Z"`,
		`/metadata/generation = 9`, `/metadata/deletionTimestamp = "2020-01-01T00:00:00Z"`,
		`/metadata/deletionGracePeriodSeconds = 5`, `/metadata/selfLink = "x"`, `/status = {"phase":"Running"}`)
	if pod.UID != "uid-1" || !pod.CreationTimestamp.Time.Equal(noon) || pod.Generation != 1 || // API-57
		pod.DeletionTimestamp != nil || pod.DeletionGracePeriodSeconds != nil || // API-56
		pod.GetSelfLink() != "" || pod.Status.Phase != corev1.PodPending {
		t.Errorf("stored %s", document(t, pod))
	}
	pod.ResourceVersion = "5"
	err := registry.BeforeCreate(strategy(t, "pods"), kindOf(t, "pods"), pod, noon, "u")
	if codeOf(err) != 500 || err.Error() != "resourceVersion should not be set on objects to be created" {
		t.Errorf("with a version: %v", err)
	}
}

func TestCheckUIDAndVersion(t *testing.T) {
	t.Parallel()
	pods, old := kindOf(t, "pods"), storedPod(t)
	with := func(uid types.UID, version string) *corev1.Pod {
		obj := old.DeepCopy()
		obj.UID, obj.ResourceVersion = uid, version
		return obj
	}
	const foreign = `Operation cannot be fulfilled on pods "web": StorageError: invalid object, Code: 4, ` +
		`Key: /registry/pods/default/web, ResourceVersion: 0, AdditionalErrorMsg: ` +
		`Precondition failed: UID in precondition: A, UID in object meta: uid-1`
	if err := registry.CheckUID(pods, with("A", "7"), old); codeOf(err) != 409 || err.Error() != foreign {
		t.Errorf("API-63: %v", err)
	}
	for _, uid := range []types.UID{"", "uid-1"} {
		if err := registry.CheckUID(pods, with(uid, "7"), old); err != nil {
			t.Errorf("API-63 %q: %v", uid, err)
		}
	}
	const stale = `Operation cannot be fulfilled on pods "web": the object has been modified; ` +
		`please apply your changes to the latest version and try again`
	if err := registry.CheckVersion(pods, with("uid-1", "6"), old); codeOf(err) != 409 || err.Error() != stale {
		t.Errorf("API-65: %v", err)
	}
	if err := registry.CheckVersion(pods, with("uid-1", "x"), old); codeOf(err) != 422 {
		t.Errorf("API-65 no number: %v", err)
	}
	last := with("uid-1", "")
	if err := registry.CheckVersion(pods, last, old); err != nil || last.ResourceVersion != "7" {
		t.Errorf("API-65 the last writer: %q, %v", last.ResourceVersion, err)
	}
	err := registry.CheckVersion(kindOf(t, "leases"), with("uid-1", ""), old)
	const missing = `leases.coordination.k8s.io "web" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`
	if codeOf(err) != 422 || err.Error() != missing {
		t.Errorf("API-65 a lease: %v", err)
	}
}

func TestGenerateName(t *testing.T) {
	t.Parallel()
	if got := registry.GenerateName("web-", "abcde"); got != "web-abcde" {
		t.Error(got)
	}
	if got := registry.GenerateName(strings.Repeat("x", 80), "abcde"); len(got) != 63 || !strings.HasSuffix(got, "xabcde") {
		t.Error(got)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	const body = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"spec":{"podCIDR":"10.0.0.0/24","providerID":"x"},` +
		`"status":{"capacity":{"cpu":"2","pods":"110"}}}`
	old := asType[*corev1.Node](t, stored(t, "nodes", body))
	if cpu := old.Status.Allocatable["cpu"]; cpu.String() != "2" || len(old.Spec.PodCIDRs) != 1 {
		t.Errorf("stored %s", document(t, old))
	}
	for _, tt := range []struct{ change, subresource, want string }{
		{`/spec/unschedulable = true`, "", "ok"},
		{`/spec/taints = [{"key":"a","effect":"NoExecute"}]`, "", "ok"},
		{`/spec/taints = [{"key":"a","effect":"NoExecute"},{"key":"a","effect":"NoExecute","value":"b"}]`, "", `metadata.taints[1]: Duplicate value: {"key":"a","value":"b","effect":"NoExecute"}: taints must be unique by key and effect pair`},
		{`/spec/taints = [{"key":"a b","value":"c d","effect":""}]`, "", "metadata.taints[0].key: Invalid value"},
		{`/spec/taints = [{"key":"a","effect":"Sometimes"}]`, "", `metadata.taints[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		{`/spec/podCIDRs = ["10.0.1.0/24"]`, "", `spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`},
		{`/spec/providerID = "y"`, "", "spec.providerID: Invalid value: null: field cannot be modified once set"},
		{`/spec/providerID = ""`, "", "spec.providerID: Invalid value: null: field cannot be cleared once set"},
		{`/status/capacity = {"cpu":"-1"}`, "status", `status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`},
		{`/status/addresses = [{"type":"Hostname","address":"a"},{"type":"Hostname","address":"a"}]`, "status", "status.addresses[1]: Duplicate value"},
		{`/status/capacity = {"cpu":"-1"}`, "", "ok"}, // ignored: it is not the status subresource
		{`/spec/providerID = "y"`, "status", "ok"},
	} {
		obj := decode(t, "nodes", changed(t, document(t, old), tt.change))
		if got := causes(update(t, "nodes", obj, old, tt.subresource)); !strings.Contains(got, tt.want) {
			t.Errorf("%s through %q: %s\nwant %s", tt.change, tt.subresource, got, tt.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	old := asType[*corev1.Namespace](t, stored(t, "namespaces",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"},"status":{"phase":"Terminating"}}`))
	if old.Status.Phase != corev1.NamespaceActive || !slices.Equal(old.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"}) ||
		old.Labels["kubernetes.io/metadata.name"] != "a" {
		t.Errorf("stored %s", document(t, old))
	}
	obj := old.DeepCopy()
	obj.Spec.Finalizers, obj.Labels, obj.Status.Phase = nil, nil, corev1.NamespaceTerminating
	if err := update(t, "namespaces", obj, old, ""); err != nil || len(obj.Spec.Finalizers) != 1 || obj.Status.Phase != corev1.NamespaceActive ||
		obj.Labels["kubernetes.io/metadata.name"] != "a" {
		t.Errorf("update: %v, %s", err, document(t, obj))
	}
	obj = old.DeepCopy()
	obj.Spec.Finalizers = nil
	if err := update(t, "namespaces", obj, old, "finalize"); err != nil || len(obj.Spec.Finalizers) != 0 {
		t.Errorf("finalize: %v, %s", err, document(t, obj))
	}
	obj = old.DeepCopy()
	obj.Status.Phase = corev1.NamespaceTerminating
	if got := causes(update(t, "namespaces", obj, old, "status")); got != "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty" {
		t.Errorf("status: %s", got)
	}
	bad := decode(t, "namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a.b"}}`)
	if err := registry.BeforeCreate(strategy(t, "namespaces"), kindOf(t, "namespaces"), bad, noon, "u"); codeOf(err) != 422 {
		t.Errorf("a namespace with a dot: %v", err)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	const body = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"n1","namespace":"kube-node-lease"},` +
		`"spec":{"holderIdentity":"n1","leaseDurationSeconds":40,"renewTime":"2026-05-04T12:00:00.000000Z"}}`
	old := stored(t, "leases", body)
	for _, tt := range []struct{ change, want string }{
		{`/spec/renewTime = "2026-05-04T12:00:10.000000Z"`, "ok"},
		{`/spec/leaseDurationSeconds = 0`, "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"},
		{`/spec/leaseTransitions = -1`, "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"},
	} {
		obj := decode(t, "leases", changed(t, document(t, old), tt.change))
		if got := causes(update(t, "leases", obj, old, "")); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.change, got, tt.want)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const old = `{"apiVersion":"v1","kind":"Event","metadata":{"name":"a","namespace":"b"},"involvedObject":{"kind":"Pod","namespace":"b"}}`
	const mismatch = "involvedObject.namespace: Invalid value: %: does not match event.namespace"
	for _, tt := range []struct{ alias, body, want string }{
		{"events", changed(t, old), "ok"},
		{"events", changed(t, old, `/involvedObject/namespace = "c"`), strings.Replace(mismatch, "%", `"c"`, 1)},
		{"events", changed(t, old, `/involvedObject/namespace = ""`), strings.Replace(mismatch, "%", `""`, 1)},
		{"events", changed(t, old, `/involvedObject/namespace = ""`, `/metadata/namespace = "default"`), "ok"},
		{"events", changed(t, old, `/eventTime = "2026-05-04T12:00:00.000000Z"`), "reportingComponent: Required value\n" +
			"reportingComponent: Invalid value"},
		{"events", changed(t, old, `/eventTime = "2026-05-04T12:00:00.000000Z"`, `/reportingComponent = "k"`, `/reportingInstance = "i"`,
			`/action = "a"`, `/reason = "r"`), "ok"},
		{"events.events.k8s.io", `{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"a","namespace":"b"},` +
			`"regarding":{"namespace":"b"}}`, "ok"},
	} {
		obj := decode(t, tt.alias, tt.body)
		got := causes(registry.BeforeCreate(strategy(t, tt.alias), kindOf(t, tt.alias), obj, noon, "u"))
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s\nwant %s", tt.body, got, tt.want)
		}
	}
}

// TestMetadataOfAnyKind: the rules of metadata hold for kinds without a strategy too.
func TestMetadataOfAnyKind(t *testing.T) {
	t.Parallel()
	old := stored(t, "configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}`)
	old.SetDeletionTimestamp(&metav1.Time{Time: noon})
	obj, ok := old.DeepCopyObject().(kinds.Object)
	if !ok {
		t.Fatal("no object")
	}
	obj.SetFinalizers([]string{"example.com/x"})
	obj.SetDeletionTimestamp(nil)
	got := causes(update(t, "configmaps", obj, old, ""))
	if !strings.Contains(got, "no new finalizers can be added") || obj.GetDeletionTimestamp() == nil { // API-55, API-56
		t.Errorf("%s, deletionTimestamp %v", got, obj.GetDeletionTimestamp())
	}
	for _, tt := range [][2]string{
		{"services", "1a"}, {"configmaps", "A"}, {"configmaps", "a/b"}, {"roles", "a/b"}, {"roles", ".."}, {"events", "a%b"},
	} {
		obj := minimalObject(t, kindOf(t, tt[0]))
		obj.SetName(tt[1])
		if err := registry.BeforeCreate(strategy(t, tt[0]), kindOf(t, tt[0]), obj, noon, "u"); codeOf(err) != 422 {
			t.Errorf("T10: %s named %q: %v", tt[0], tt[1], err)
		}
	}
}
