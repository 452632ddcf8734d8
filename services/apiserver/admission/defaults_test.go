package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/admission"
)

type classes struct {
	priority []*schedulingv1.PriorityClass
	storage  []*storagev1.StorageClass
	runtime  []*nodev1.RuntimeClass
	accounts []*corev1.ServiceAccount
	ranges   []*corev1.LimitRange
}

func (c classes) PriorityClasses() []*schedulingv1.PriorityClass { return c.priority }
func (c classes) StorageClasses() []*storagev1.StorageClass      { return c.storage }
func (c classes) RuntimeClasses() []*nodev1.RuntimeClass         { return c.runtime }
func (c classes) LimitRanges(string) []*corev1.LimitRange        { return c.ranges }
func (c classes) ServiceAccount(namespace, name string) *corev1.ServiceAccount {
	for _, account := range c.accounts {
		if account.Namespace == namespace && account.Name == name {
			return account
		}
	}
	return nil
}

// TestDefaultTolerationSeconds is CTL-04.
func TestDefaultTolerationSeconds(t *testing.T) {
	only := []string{admission.DefaultTolerationSeconds}
	short := func(tolerations []corev1.Toleration) string {
		var texts []string
		for _, one := range tolerations {
			text := strings.TrimPrefix(one.Key, "node.kubernetes.io/") + ":" + string(one.Effect)
			if one.TolerationSeconds != nil {
				text += fmt.Sprintf(" %d", *one.TolerationSeconds)
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", ")
	}
	for _, row := range []struct {
		has  []corev1.Toleration
		want string
	}{
		{nil, "not-ready:NoExecute 300, unreachable:NoExecute 300"},
		{[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, ":"},
		{[]corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}}, "not-ready:NoExecute, unreachable:NoExecute 300"},
		{[]corev1.Toleration{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}, "not-ready:NoSchedule, not-ready:NoExecute 300, unreachable:NoExecute 300"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: row.has}}
		for range 2 { // twice is as once
			if err := admission.SetDefaults(only, attributes(t, proto.VerbCreate, "pods", "p"), pod, nil, classes{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := short(pod.Spec.Tolerations); got != row.want {
			t.Errorf("%s: got %s, want %s", short(row.has), got, row.want)
		}
	}
	pod := &corev1.Pod{}
	if err := admission.SetDefaults(nil, attributes(t, proto.VerbCreate, "pods", "p"), pod, nil, classes{}); err != nil || pod.Spec.Tolerations != nil {
		t.Errorf("switched off: %v", pod.Spec.Tolerations)
	}
}

func TestPriority(t *testing.T) {
	class := func(name string, value int32, global bool) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: global}
	}
	never := corev1.PreemptNever
	known := classes{priority: []*schedulingv1.PriorityClass{class("high", 100, false), class("usual", 5, true), {
		ObjectMeta: metav1.ObjectMeta{Name: "meek"}, Value: 7, PreemptionPolicy: &never,
	}}}
	for _, row := range []struct {
		name  string
		given *int32
		with  classes
		want  string
	}{
		{"", nil, classes{}, " 0 PreemptLowerPriority"},
		{"", nil, known, "usual 5 PreemptLowerPriority"},
		{"high", nil, known, "high 100 PreemptLowerPriority"},
		{"meek", nil, known, "meek 7 Never"},
		{"system-node-critical", nil, classes{}, "system-node-critical 2000001000 PreemptLowerPriority"},
		{"none", nil, known, `pods "p" is forbidden: no PriorityClass with name none was found`},
		{"high", new(int32(3)), known, `pods "p" is forbidden: the integer value of priority (3) must not be provided in pod spec; ` +
			`priority admission controller computed 100 from the given PriorityClass name`},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: row.name, Priority: row.given}}
		err := admission.SetDefaults([]string{admission.Priority}, attributes(t, proto.VerbCreate, "pods", "p"), pod, nil, row.with)
		got := text(err)
		if err == nil {
			got = fmt.Sprintf("%s %d %s", pod.Spec.PriorityClassName, *pod.Spec.Priority, *pod.Spec.PreemptionPolicy)
		}
		if got != row.want {
			t.Errorf("%q: got %s, want %s", row.name, got, row.want)
		}
	}
}

func TestStorageDefaults(t *testing.T) {
	class := func(name, isDefault string, age time.Duration) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault},
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0).Add(-age)),
		}}
	}
	known := classes{storage: []*storagev1.StorageClass{class("a", "true", time.Hour), class("b", "true", time.Minute), class("c", "false", 0)}}
	for given, want := range map[string]string{"-": "b", "": "", "x": "x"} {
		claim := &corev1.PersistentVolumeClaim{}
		if given != "-" {
			claim.Spec.StorageClassName = &given
		}
		a := attributes(t, proto.VerbCreate, "persistentvolumeclaims", "c")
		if err := admission.SetDefaults(admission.Plugins(), a, claim, nil, known); err != nil || *claim.Spec.StorageClassName != want {
			t.Errorf("%q: %v %v", given, claim.Spec.StorageClassName, err)
		}
		if fmt.Sprint(claim.Finalizers) != "[kubernetes.io/pvc-protection]" {
			t.Errorf("finalizers %v", claim.Finalizers)
		}
	}
	volume := &corev1.PersistentVolume{}
	if err := admission.SetDefaults(admission.Plugins(), attributes(t, proto.VerbCreate, "persistentvolumes", "v"), volume, nil, known); err != nil ||
		fmt.Sprint(volume.Finalizers) != "[kubernetes.io/pv-protection]" {
		t.Errorf("finalizers %v %v", volume.Finalizers, err)
	}
}
