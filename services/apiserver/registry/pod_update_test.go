package registry_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodUpdate(t *testing.T) {
	t.Parallel()
	runCases(t, "testdata/pod_update.txt", func(t *testing.T, lines []string) string {
		old, obj, subresource := updateCase(t, lines)
		return causes(update(t, "pods", obj, old, subresource))
	})
}

// updateCase splits a case at its arrow. What a create would drop is put into the stored
// Pod afterwards.
func updateCase(t *testing.T, lines []string) (old, obj *corev1.Pod, subresource string) {
	t.Helper()
	var create, afterwards, ask []string
	into := &create
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "->"):
			subresource = strings.TrimSpace(strings.TrimPrefix(line, "->"))
			into = &ask
		case into == &create && (strings.HasPrefix(line, "/status") || strings.HasPrefix(line, "/metadata/deletion")):
			afterwards = append(afterwards, line)
		default:
			*into = append(*into, line)
		}
	}
	before := document(t, storedPod(t, create...))
	before = changed(t, before, afterwards...)
	old = asType[*corev1.Pod](t, decode(t, "pods", before))
	return old, asType[*corev1.Pod](t, decode(t, "pods", changed(t, before, ask...))), subresource
}

// TestPodUpdateKeeps are the changes that are dropped without a word.
func TestPodUpdateKeeps(t *testing.T) {
	t.Parallel()
	_, deleting, _ := updateCase(t, []string{
		`/metadata/deletionTimestamp = "2026-05-04T12:00:30Z"`, `/metadata/deletionGracePeriodSeconds = 30`, "->",
	})
	tests := []struct {
		rule, subresource string
		old               *corev1.Pod
		change            func(*corev1.Pod)
		kept              func(*corev1.Pod) bool
	}{
		{
			"API-56 a cleared deadline", "", deleting,
			func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = nil, nil },
			func(p *corev1.Pod) bool {
				return p.DeletionTimestamp.Equal(deleting.DeletionTimestamp) && *p.DeletionGracePeriodSeconds == 30
			},
		},
		{
			"API-56 a moved deadline", "status", deleting,
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
			func(p *corev1.Pod) bool { return p.DeletionTimestamp.Equal(deleting.DeletionTimestamp) },
		},
		{
			"API-56 a deadline through status", "status", storedPod(t),
			func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
			func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil },
		},
		{
			"API-57 creation and generation", "", storedPod(t),
			func(p *corev1.Pod) { p.CreationTimestamp, p.Generation = metav1.Time{}, 70 },
			func(p *corev1.Pod) bool { return p.CreationTimestamp.Time.Equal(noon) && p.Generation == 1 },
		},
		{
			"API-57 no UID", "", storedPod(t),
			func(p *corev1.Pod) { p.UID = "" },
			func(p *corev1.Pod) bool { return p.UID == "uid-1" },
		},
		{
			"API-71 spec through status", "status", storedPod(t),
			func(p *corev1.Pod) { p.Spec = corev1.PodSpec{} },
			func(p *corev1.Pod) bool { return len(p.Spec.Containers) == 1 && p.Generation == 1 },
		},
		{
			"API-71 owners through status", "status", storedPod(t),
			func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} },
			func(p *corev1.Pod) bool { return p.OwnerReferences == nil },
		},
		{
			"API-71 finalizers through status", "status", storedPod(t),
			func(p *corev1.Pod) { p.Finalizers = []string{"example.com/x"} },
			func(p *corev1.Pod) bool { return len(p.Finalizers) == 1 },
		},
		{
			"status through the object", "", storedPod(t),
			func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
			func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodPending },
		},
		{
			"API-73 the observed generation", "status", observed(storedPod(t)),
			func(p *corev1.Pod) { p.Status.ObservedGeneration, p.Status.Conditions[0].ObservedGeneration = 0, 0 },
			func(p *corev1.Pod) bool {
				return p.Status.ObservedGeneration == 1 && p.Status.Conditions[0].ObservedGeneration == 1
			},
		},
		{
			"one address makes two fields", "status", storedPod(t),
			func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" },
			func(p *corev1.Pod) bool { return len(p.Status.PodIPs) == 1 },
		},
	}
	for _, tt := range tests {
		before := tt.old.DeepCopy()
		obj := tt.old.DeepCopy()
		tt.change(obj)
		if err := update(t, "pods", obj, tt.old, tt.subresource); err != nil {
			t.Errorf("%s: %v", tt.rule, err)
		}
		if !tt.kept(obj) {
			t.Errorf("%s: became %+v", tt.rule, obj)
		}
		if document(t, before) != document(t, tt.old) {
			t.Errorf("%s: the stored object changed", tt.rule)
		}
	}
}

func observed(pod *corev1.Pod) *corev1.Pod {
	pod.Status.ObservedGeneration = 1
	pod.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "True", ObservedGeneration: 1}}
	return pod
}

func TestPodGenerationCountsSpecs(t *testing.T) {
	t.Parallel()
	old := storedPod(t)
	obj := old.DeepCopy()
	obj.Spec.Containers[0].Image = "nginx:2"
	if err := update(t, "pods", obj, old, ""); err != nil || obj.Generation != 2 {
		t.Errorf("a new image: generation %d, %v", obj.Generation, err)
	}
	obj = old.DeepCopy()
	obj.Labels = map[string]string{"a": "b"}
	if err := update(t, "pods", obj, old, ""); err != nil || obj.Generation != 1 {
		t.Errorf("a new label: generation %d, %v", obj.Generation, err)
	}
}

func TestPodUpdateMessage(t *testing.T) {
	t.Parallel()
	old := storedPod(t)
	obj := old.DeepCopy()
	obj.Spec.TerminationGracePeriodSeconds = new(int64(1))
	err := update(t, "pods", obj, old, "")
	const want = "Pod \"web\" is invalid: spec: Forbidden: pod updates may not change fields other than " +
		"`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
		"`spec.tolerations` (only additions to existing tolerations)," +
		"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("got %v", err)
	}
	for _, line := range []string{"-   \"terminationGracePeriodSeconds\": 30", "+   \"terminationGracePeriodSeconds\": 1"} {
		if rest := strings.ReplaceAll(err.Error(), "\n- ", "\n-  "); !strings.Contains(rest, strings.TrimLeft(line, "-+ ")) {
			t.Errorf("no line %q in\n%s", line, err)
		}
	}
}

// TestPodUpdateSaysItOnce: the causes repeat a metadata rule, the message does not (API-55).
func TestPodUpdateSaysItOnce(t *testing.T) {
	t.Parallel()
	old, obj, _ := updateCase(t, []string{
		`/metadata/deletionTimestamp = "2026-05-04T12:00:30Z"`, `/metadata/deletionGracePeriodSeconds = 30`,
		"->", `/metadata/finalizers = ["example.com/x"]`,
	})
	err := update(t, "pods", obj, old, "")
	const want = `Pod "web" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object ` +
		`is being deleted, found new finalizers []string{"example.com/x"}`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if got := strings.Count(causes(err), "no new finalizers"); got != 2 {
		t.Errorf("%d causes, want 2", got)
	}
}
