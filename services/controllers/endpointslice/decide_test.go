package endpointslice

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "s", Labels: map[string]string{"a": "b"}}}
	s.Spec.Selector = map[string]string{"app": "web"}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}}
	for _, c := range change {
		c(s)
	}
	return s
}

// pods reads "a b- c~ d- ~": ready, not ready (-), terminating (~), both (-~), without an
// address (?), Failed (!).
func podsOf(text string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, word := range strings.Fields(text) {
		name := strings.TrimRight(word, "-~?!")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
		pod.Spec.NodeName = "n1"
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.%d.%d", i/200, i%200+1)}
		ready := corev1.ConditionTrue
		for _, mark := range word[len(name):] {
			switch mark {
			case '-':
				ready = corev1.ConditionFalse
			case '~':
				pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			case '?':
				pod.Status.PodIP = ""
			case '!':
				pod.Status.Phase = corev1.PodFailed
			}
		}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		pods = append(pods, pod)
	}
	return pods
}

func describe(slices ...*discoveryv1.EndpointSlice) string {
	var texts []string
	for _, slice := range slices {
		words := []string{}
		for _, e := range slice.Endpoints {
			words = append(words, fmt.Sprintf("%s:%s%s%s", e.TargetRef.Name, mark(e.Conditions.Ready, "r"), mark(e.Conditions.Serving, "s"), mark(e.Conditions.Terminating, "t")))
		}
		texts = append(texts, fmt.Sprintf("%d ports [%s]", len(slice.Ports), strings.Join(words, " ")))
	}
	return strings.Join(texts, ", ")
}

func mark(set *bool, letter string) string {
	if set != nil && *set {
		return letter
	}
	return "-"
}

func TestConditions(t *testing.T) {
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	for _, row := range []struct {
		pods    string
		service *corev1.Service
		want    string
	}{
		{"a b- c~ d-~ e? f!", service(), "1 ports [a:rs- b:--- c:-st d:--t]"},
		{"a b- c~ d-~", service(publish), "1 ports [a:rs- b:r-- c:rst d:r-t]"},
		{"", service(), "0 ports []"},
		{"e?", service(), "0 ports []"},
		{"a", service(func(s *corev1.Service) { s.Spec.Ports, s.Spec.ClusterIP = nil, corev1.ClusterIPNone }), "0 ports [a:rs-]"},
		{"a", service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("none") }), "0 ports []"},
	} {
		plan := Decide(View{Service: row.service, Pods: podsOf(row.pods)})
		if got := describe(plan.Creates...); got != row.want || len(plan.Updates)+len(plan.Deletes) > 0 {
			t.Errorf("%s: %s, want %s", row.pods, got, row.want)
		}
	}
	view := View{Service: service(), Pods: podsOf("a"), Zones: map[string]string{"n1": "z1"}}
	view.Pods[0].Spec.Hostname, view.Pods[0].Spec.Subdomain = "web-0", "web"
	slice := Decide(view).Creates[0]
	e := slice.Endpoints[0]
	if *e.Zone != "z1" || *e.NodeName != "n1" || *e.Hostname != "web-0" || *slice.Ports[0].Port != 8080 || slice.GenerateName != "web-" {
		t.Errorf("%+v", slice)
	}
	if got := fmt.Sprint(slice.Labels); got !=
		"map[a:b endpointslice.kubernetes.io/managed-by:endpointslice-controller.k8s.io kubernetes.io/service-name:web]" {
		t.Errorf("labels %s", got)
	}
}

// TestReconcile keeps what is there, fills what has room, and writes only what differs.
func TestReconcile(t *testing.T) {
	var words []string
	for i := range 250 {
		words = append(words, fmt.Sprintf("p%03d", i))
	}
	view := View{Service: service(), Pods: podsOf(strings.Join(words, " "))}
	plan := Decide(view)
	if len(plan.Creates) != 3 || len(plan.Creates[2].Endpoints) != 50 {
		t.Fatalf("%d slices", len(plan.Creates))
	}
	for i, slice := range plan.Creates {
		slice.Name = fmt.Sprintf("web-%d", i)
	}
	view.Slices = plan.Creates
	if again := Decide(view); len(again.Creates)+len(again.Updates)+len(again.Deletes) > 0 {
		t.Errorf("the same is written again: %+v", again)
	}
	view.Pods = append(view.Pods[1:], podsOf("new")...)
	plan = Decide(view)
	if len(plan.Updates) != 1 || len(plan.Creates)+len(plan.Deletes) > 0 || plan.Updates[0].Name != "web-0" || len(plan.Updates[0].Endpoints) != 100 {
		t.Errorf("one out, one in: %s", describe(plan.Updates...))
	}
	view.Pods = view.Pods[:50]
	if plan = Decide(view); len(plan.Updates) != 1 || len(plan.Deletes) != 2 {
		t.Errorf("200 out: %d updates, %d deletes", len(plan.Updates), len(plan.Deletes))
	}
	view.Pods = nil
	if plan = Decide(view); len(plan.Creates) != 1 || len(plan.Deletes) != 3 {
		t.Errorf("all out: %d creates, %d deletes", len(plan.Creates), len(plan.Deletes))
	}
	view.Slices = plan.Creates
	if plan = Decide(view); len(plan.Creates)+len(plan.Updates)+len(plan.Deletes) > 0 {
		t.Errorf("the placeholder is written again: %+v", plan)
	}
}

func TestEndpoints(t *testing.T) {
	view := View{Service: service(), Pods: podsOf("a b- c~")}
	got := DecideEndpoints(view, nil)
	if text := fmt.Sprint(got.Subsets); !strings.Contains(text, "10.0.0.1") || len(got.Subsets) != 1 ||
		len(got.Subsets[0].Addresses) != 1 || len(got.Subsets[0].NotReadyAddresses) != 1 || got.Subsets[0].Ports[0].Port != 8080 {
		t.Errorf("%+v", got.Subsets)
	}
	if again := DecideEndpoints(view, got); again != nil {
		t.Errorf("the same is written again: %+v", again)
	}
	view.Service.Spec.PublishNotReadyAddresses = true
	if got = DecideEndpoints(view, nil); len(got.Subsets[0].Addresses) != 3 {
		t.Errorf("published: %+v", got.Subsets)
	}
	named := service(func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "m", Port: 9, TargetPort: intstr.FromString("metrics")})
	})
	pods := podsOf("a b")
	pods[0].Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9090}}}}
	if got = DecideEndpoints(View{Service: named, Pods: pods}, nil); len(got.Subsets) != 2 {
		t.Errorf("two sets of ports: %+v", got.Subsets)
	}
}
