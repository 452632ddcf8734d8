package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
)

// amounts reads "cpu=1 memory=1Gi".
func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for word := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(word, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

// wantAmounts compares a list with what amounts reads.
func wantAmounts(t *testing.T, what string, got corev1.ResourceList, want string) {
	t.Helper()
	if !kinds.Equal(got, amounts(want)) {
		t.Errorf("%s: %v, want %s", what, got, want)
	}
}

func podOf(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
}

func containerOf(requests, limits string) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}
}

func rangesOf(items ...corev1.LimitRangeItem) classes {
	return classes{ranges: []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: items}}}}
}

// TestLimitRangeDefaults is API-91: containers get what they lack, and the annotation says what.
func TestLimitRangeDefaults(t *testing.T) {
	only := []string{admission.LimitRanger}
	known := rangesOf(corev1.LimitRangeItem{
		Type: corev1.LimitTypeContainer, Default: amounts("cpu=1 memory=1Gi"), DefaultRequest: amounts("cpu=500m memory=1Gi"),
	}, corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts("cpu=9")})
	pod := podOf(containerOf("cpu=100m", "memory=2Gi"), containerOf("cpu=1 memory=1", "cpu=1 memory=1"))
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	for range 2 { // the second run changes nothing
		if err := admission.SetDefaults(only, attributes(t, proto.VerbCreate, "pods", "p"), pod, nil, known); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range [][2]string{{"cpu=100m memory=1Gi", "cpu=1 memory=2Gi"}, {"cpu=1 memory=1", "cpu=1 memory=1"}} {
		wantAmounts(t, "requests", pod.Spec.Containers[i].Resources.Requests, want[0])
		wantAmounts(t, "limits", pod.Spec.Containers[i].Resources.Limits, want[1])
	}
	wantAmounts(t, "requests of the init container", pod.Spec.InitContainers[0].Resources.Requests, "cpu=500m memory=1Gi")
	want := "LimitRanger plugin set: memory request for container c; cpu limit for container c; " +
		"cpu, memory request for init container i; cpu, memory limit for init container i"
	if got := pod.Annotations["kubernetes.io/limit-ranger"]; got != want {
		t.Errorf("the annotation is %q, want %q", got, want)
	}
	update := podOf(corev1.Container{Name: "c"})
	if err := admission.SetDefaults(only, attributes(t, proto.VerbUpdate, "pods", "p"), update, update, known); err != nil || update.Spec.Containers[0].Resources.Limits != nil {
		t.Errorf("an update got %v, %v", update.Spec.Containers[0].Resources, err)
	}
}

// TestLimitRangeChecks is API-91: the words of upstream's constraints.
func TestLimitRangeChecks(t *testing.T) {
	item := func(of corev1.LimitType, least, most, ratio string) corev1.LimitRangeItem {
		return corev1.LimitRangeItem{Type: of, Min: amounts(least), Max: amounts(most), MaxLimitRequestRatio: amounts(ratio)}
	}
	const container, whole = corev1.LimitTypeContainer, corev1.LimitTypePod
	for _, row := range []struct {
		item corev1.LimitRangeItem
		pod  *corev1.Pod
		want string
	}{
		{item(container, "cpu=100m", "cpu=1", ""), podOf(containerOf("cpu=100m", "cpu=1")), ""},
		{item(container, "cpu=100m", "", ""), podOf(containerOf("", "")), "minimum cpu usage per Container is 100m.  No request is specified"},
		{item(container, "cpu=100m", "", ""), podOf(containerOf("cpu=99m", "")), "minimum cpu usage per Container is 100m, but request is 99m"},
		{item(container, "cpu=100m", "", ""), podOf(containerOf("cpu=100m", "cpu=50m")), "minimum cpu usage per Container is 100m, but limit is 50m"},
		{item(container, "", "memory=1Gi", ""), podOf(containerOf("memory=1Gi", "")), "maximum memory usage per Container is 1Gi.  No limit is specified"},
		{item(container, "", "memory=1Gi", ""), podOf(containerOf("", "memory=2Gi")), "maximum memory usage per Container is 1Gi, but limit is 2Gi"},
		{item(container, "", "memory=1Gi", ""), podOf(containerOf("memory=3Gi", "memory=1Gi")), "maximum memory usage per Container is 1Gi, but request is 3Gi"},
		{item(container, "", "", "cpu=2"), podOf(containerOf("cpu=0", "cpu=1")), "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{item(container, "", "", "cpu=2"), podOf(containerOf("cpu=1", "")), "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		{item(container, "", "", "cpu=2"), podOf(containerOf("cpu=1", "cpu=2001m")), "cpu max limit to request ratio per Container is 2, but provided ratio is 2.001000"},
		{item(container, "", "", "cpu=2500m"), podOf(containerOf("cpu=1", "cpu=2500m")), ""},
		{item(whole, "", "cpu=1", ""), podOf(containerOf("", "cpu=600m"), containerOf("", "cpu=600m")), "maximum cpu usage per Pod is 1, but limit is 1200m"},
		{
			item(container, "cpu=1", "cpu=2", ""), podOf(containerOf("", "")),
			"[minimum cpu usage per Container is 1.  No request is specified, maximum cpu usage per Container is 2.  No limit is specified]",
		},
	} {
		if row.want != "" {
			row.want = `pods "p" is forbidden: ` + row.want
		}
		err := admission.Check([]string{admission.LimitRanger}, attributes(t, proto.VerbCreate, "pods", "p"), row.pod, nil, rangesOf(row.item))
		if got := text(err); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}

// TestLimitRangeChecksClaims is API-91: claims are checked when they are created and when they grow,
// but not while they are being deleted.
func TestLimitRangeChecksClaims(t *testing.T) {
	known := rangesOf(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Min: amounts("storage=2Gi"), Max: amounts("storage=5Gi")})
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: amounts(size)},
		}}
	}
	deleted := claim("storage=3Gi")
	deleted.DeletionTimestamp = &metav1.Time{}
	for _, row := range []struct {
		verb proto.Verb
		size string
		old  kinds.Object
		want string
	}{
		{proto.VerbCreate, "storage=2Gi", nil, ""},
		{proto.VerbCreate, "storage=1Gi", nil, "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"},
		{proto.VerbCreate, "", nil, "[minimum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified, " +
			"maximum storage usage per PersistentVolumeClaim is 5Gi.  No request is specified]"},
		{proto.VerbUpdate, "storage=6Gi", claim("storage=3Gi"), "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"},
		{proto.VerbUpdate, "storage=6Gi", deleted, ""},
	} {
		if row.want != "" {
			row.want = `persistentvolumeclaims "c" is forbidden: ` + row.want
		}
		a := attributes(t, row.verb, "persistentvolumeclaims", "c")
		if got := text(admission.Check([]string{admission.LimitRanger}, a, claim(row.size), row.old, known)); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}
