package eviction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// podUsing makes a pod that uses and asks for so much.
func podUsing(name, memory, asks string, priority int32) Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Priority: &priority, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(asks)},
		}}},
	}}
	return Pod{Spec: p, Uses: map[string]corev1.ResourceList{"c": {corev1.ResourceMemory: resource.MustParse(memory)}}}
}

// TestRank: who uses more than he asks for goes first, then who matters less, then who
// exceeds by more; pids know no requests.
func TestRank(t *testing.T) {
	pods := []Pod{
		podUsing("within, low", "1Gi", "2Gi", 0), podUsing("over by 1, high", "2Gi", "1Gi", 100), podUsing("over by 1, low", "2Gi", "1Gi", 0),
		podUsing("over by 3, low", "4Gi", "1Gi", 0), podUsing("within, high", "1Gi", "2Gi", 100),
	}
	for signal, want := range map[Signal][]string{
		MemoryAvailable: {"over by 3, low", "over by 1, low", "over by 1, high", "within, low", "within, high"},
		PIDAvailable:    {"within, low", "over by 1, low", "over by 3, low", "over by 1, high", "within, high"},
	} {
		var got []string
		for _, pod := range Rank(pods, signal) {
			got = append(got, pod.Spec.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", signal, diff)
		}
	}
	pods[3].Spec.Annotations = map[string]string{podstate.AnnotationSource: podstate.SourceFile}
	if first, _ := findVictim(pods, MemoryAvailable); first.Spec.Name != "over by 1, low" {
		t.Errorf("the victim is %s", first.Spec.Name)
	}
	if _, found := findVictim(pods[3:4], MemoryAvailable); found {
		t.Error("a critical pod is a victim")
	}
}

// TestLook: a soft threshold waits for its grace, a hard one does not, a pressure is
// reported for its transition after it has gone, and what recovers begins anew.
func TestLook(t *testing.T) {
	cfg := Config{
		Limits: Limits{Thresholds: []Threshold{
			{Signal: NodefsAvailable, Percent: 10},
			{Signal: MemoryAvailable, Quantity: resource.MustParse("200"), Grace: 30 * time.Second},
			{Signal: MemoryAvailable, Quantity: resource.MustParse("100")},
		}, MaxPodGrace: 60},
		Timing: Timing{Transition: 5 * time.Minute},
	}
	began := time.Unix(1000, 0)
	var state State
	look := func(at time.Duration, memory, disk int64, pressures, starved string) {
		t.Helper()
		var finding Finding
		state, finding = state.Observe(map[Signal]Observation{
			MemoryAvailable: {memory, 1000}, NodefsAvailable: {disk, 1000},
		}, cfg, began.Add(at))
		var names []string
		for _, one := range finding.Pressures {
			names = append(names, string(one))
		}
		got := "nothing"
		if finding.Starved != nil {
			got = string(finding.Starved.Signal) + " " + finding.Starved.Grace.String()
		}
		if strings.Join(names, " ") != pressures || got != starved {
			t.Errorf("after %v: %v, %s, want %s, %s", at, names, got, pressures, starved)
		}
	}
	look(0, 1000, 100, "", "nothing") // exactly the threshold is enough
	look(10*time.Second, 150, 1000, "MemoryPressure", "nothing")
	look(30*time.Second, 150, 1000, "MemoryPressure", "nothing")
	look(40*time.Second, 150, 1000, "MemoryPressure", "memory.available 30s")
	look(50*time.Second, 50, 50, "DiskPressure MemoryPressure", "memory.available 0s") // hard before soft, memory first
	look(60*time.Second, 1000, 50, "DiskPressure MemoryPressure", "nodefs.available 0s")
	look(70*time.Second, 150, 1000, "DiskPressure MemoryPressure", "nothing") // begins anew
	look(80*time.Second, 1000, 1000, "DiskPressure MemoryPressure", "nothing")
	look(360*time.Second, 1000, 1000, "MemoryPressure", "nothing")
	look(370*time.Second, 1000, 1000, "", "nothing")
}

func TestGrace(t *testing.T) {
	cfg := Config{Limits: Limits{MaxPodGrace: 60}}
	pod := func(grace int64) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}}
	}
	hard, soft := Threshold{}, Threshold{Grace: time.Second}
	for _, c := range []struct {
		threshold Threshold
		pod       *corev1.Pod
		want      int64
	}{{hard, pod(30), 1}, {soft, pod(30), 30}, {soft, pod(600), 60}, {soft, &corev1.Pod{}, 60}} {
		if got := c.threshold.grace(c.pod, cfg); got != c.want {
			t.Errorf("grace of %+v is %d, want %d", c.threshold, got, c.want)
		}
	}
}

// TestExceeds: an emptyDir, a pod and a container beyond their limits.
func TestExceeds(t *testing.T) {
	limit := func(text string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(text)}}
	}
	size := resource.MustParse("1Mi")
	spec := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{UsageAnnotation + "a": "ephemeral-storage=600Mi, memory=x"}},
		Spec: corev1.PodSpec{
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}},
			Containers: []corev1.Container{{Name: "a", Resources: limit("1Gi")}, {Name: "b", Resources: limit("500Mi")}},
		},
	}
	for _, c := range []struct {
		uses    string
		volumes int64
		want    string
	}{
		{"ephemeral-storage=600Mi", 1 << 20, ""},
		{"ephemeral-storage=600Mi", 1<<20 + 1, `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `},
		{"ephemeral-storage=1100Mi", 0, `Container a exceeded its local ephemeral storage limit "1Gi". `},
		{"ephemeral-storage=2Gi", 0, "Pod ephemeral local storage usage exceeds the total limit of containers 1524Mi. "},
		{"ephemeral-storage=lots", 0, ""},
	} {
		spec.Annotations[UsageAnnotation+"a"] = c.uses
		if got := FindExcess(Pod{Spec: spec, Uses: UsageOf(spec)}, map[string]int64{"v": c.volumes}); got != c.want {
			t.Errorf("%s, %d: %q, want %q", c.uses, c.volumes, got, c.want)
		}
	}
}
