package kinds_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/podfall/podfall/proto/kinds"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "u-1", Finalizers: []string{"example.com/hold"},
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local()),
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers:                    []corev1.Container{{Name: "app", Image: "nginx"}},
		},
	}
}

func TestEncodeDecode(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.Served() {
		obj, err := kinds.New(k.GroupVersionKind)
		if err != nil {
			t.Fatal(err)
		}
		obj.SetName("x")
		obj.SetLabels(map[string]string{"a": "1", "b": "2"})
		data, err := kinds.Encode(obj)
		if err != nil {
			t.Errorf("%s: %v", k.GroupVersionKind, err)
			continue
		}
		back, err := kinds.Decode(data)
		if err != nil {
			t.Errorf("%s: %v", k.GroupVersionKind, err)
			continue
		}
		if back.GetObjectKind().GroupVersionKind() != k.GroupVersionKind || !cmp.Equal(back.GetLabels(), obj.GetLabels()) {
			t.Errorf("%s came back as %v", k.GroupVersionKind, back)
		}
	}
}

func TestEncodeKeepsEveryField(t *testing.T) {
	t.Parallel()
	want := pod()
	data, err := kinds.Encode(want) // no apiVersion and kind inside: the Go type names them
	if err != nil {
		t.Fatal(err)
	}
	back, err := kinds.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if diff := cmp.Diff(want, back); diff != "" {
		t.Errorf("changed on the way (-sent +read):\n%s", diff)
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	if _, err := kinds.Encode(&metav1.PartialObjectMetadata{}); err == nil {
		t.Error("a kind outside the scheme was encoded")
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	t.Parallel()
	whole, err := kinds.Encode(pod())
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if obj, err := kinds.Decode(whole[:n]); err == nil && n < 12 {
			t.Errorf("the first %d bytes alone decoded as %v", n, obj)
		}
	}
	for name, data := range map[string][]byte{
		"nothing":           nil,
		"JSON":              []byte(`{"apiVersion":"v1","kind":"Pod"}`),
		"another magic":     append([]byte("k9s\x00"), whole[4:]...),
		"only the magic":    []byte("k8s\x00"),
		"length past end":   []byte("k8s\x00\x0a\xff\xff\xff\xff\x0f"),
		"endless varint":    []byte("k8s\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"an unknown kind":   []byte("k8s\x00\x0a\x0d\x0a\x02v1\x12\x07Nothing\x12\x00"),
		"a damaged payload": []byte("k8s\x00\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x02\x0a\xff"),
	} {
		if obj, err := kinds.Decode(data); err == nil {
			t.Errorf("%s decoded as %v", name, obj)
		}
	}
}

func TestDecodeRefusesWhatHasNoMetadata(t *testing.T) {
	t.Parallel()
	data, err := kinds.Encode(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Message: "no"})
	if err != nil {
		t.Fatal(err)
	}
	if obj, err := kinds.Decode(data); err == nil {
		t.Errorf("Decode gave %T", obj)
	}
	answer, err := kinds.DecodeAny(data)
	if status, ok := answer.(*metav1.Status); err != nil || !ok || status.Message != "no" {
		t.Errorf("DecodeAny gave %v, %v", answer, err)
	}
}

// FuzzDecode: no bytes make the decoder panic, and what it reads it can write again.
func FuzzDecode(f *testing.F) {
	for _, obj := range []kinds.Object{pod(), &appsv1.Deployment{}, &corev1.Node{}, &corev1.Event{}} {
		data, err := kinds.Encode(obj)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		obj, err := kinds.Decode(data)
		if err != nil {
			return
		}
		if _, err := kinds.Encode(obj); err != nil {
			t.Errorf("read, but cannot be written: %v", err)
		}
	})
}

func TestConvert(t *testing.T) {
	t.Parallel()
	from := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 1 << 60},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
	}
	beta := schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"}
	old, lost, err := kinds.Convert(from, beta)
	if err != nil || len(lost) > 0 || old.GetObjectKind().GroupVersionKind() != beta {
		t.Fatalf("Convert = %v, %v, %v", old, lost, err)
	}
	back, lost, err := kinds.Convert(old, beta.GroupKind().WithVersion("v1"))
	if err != nil || len(lost) > 0 {
		t.Fatalf("and back: %v, %v", lost, err)
	}
	from.TypeMeta = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}
	if diff := cmp.Diff(from, back); diff != "" {
		t.Errorf("there and back (-sent +read):\n%s", diff)
	}
	if same, _, err := kinds.Convert(from, from.GroupVersionKind()); err != nil || same != kinds.Object(from) {
		t.Errorf("to its own version: %v, %v", same, err)
	}
	if _, _, err := kinds.Convert(from, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}); err == nil {
		t.Error("a Deployment became a Pod")
	}
}

func TestConvertNamesWhatIsLost(t *testing.T) {
	t.Parallel()
	old := &networkingv1beta1.Ingress{Spec: networkingv1beta1.IngressSpec{
		IngressClassName: new("nginx"), Backend: &networkingv1beta1.IngressBackend{ServiceName: "web"},
	}}
	converted, lost, err := kinds.Convert(old, networkingv1.SchemeGroupVersion.WithKind("Ingress"))
	if err != nil {
		t.Fatal(err)
	}
	if now, ok := converted.(*networkingv1.Ingress); !ok || *now.Spec.IngressClassName != "nginx" {
		t.Errorf("converted to %v", converted)
	}
	if want := []string{`unknown field "spec.backend"`}; !cmp.Equal(lost, want) {
		t.Errorf("lost %q, want %q", lost, want)
	}
}

// TestConvertAutoscalers: what the first version says of the CPU is a metric of the second.
func TestConvertAutoscalers(t *testing.T) {
	t.Parallel()
	gvk := autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")
	v1 := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: gvk.Kind},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web"},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 4, TargetCPUUtilizationPercentage: ptr.To[int32](80),
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{CurrentReplicas: 3, CurrentCPUUtilizationPercentage: ptr.To[int32](70)},
	}
	converted, lost, err := kinds.Convert(v1, gvk)
	v2, ok := converted.(*autoscalingv2.HorizontalPodAutoscaler)
	if err != nil || len(lost) > 0 || !ok || *v2.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Fatalf("%+v, %q, %v", converted, lost, err)
	}
	back, lost, err := kinds.Convert(v2, v1.GroupVersionKind())
	if diff := cmp.Diff(kinds.Object(v1), back); err != nil || len(lost) > 0 || diff != "" {
		t.Errorf("and back: %q, %v (-sent +read):\n%s", lost, err, diff)
	}
	v2.Spec.Metrics = append(v2.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType})
	if _, lost, err := kinds.Convert(v2, v1.GroupVersionKind()); err != nil || !cmp.Equal(lost, []string{`unknown field "spec.metrics"`}) {
		t.Errorf("more metrics: %q, %v", lost, err)
	}
}

// TestConvertEvents: an Event is the same in both of its groups.
func TestConvertEvents(t *testing.T) {
	t.Parallel()
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC).Local())
	core := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "ns"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p"},
		Reason: "Killing", Message: "m", Source: corev1.EventSource{Component: "kubelet"}, Count: 3, Type: "Normal",
		EventTime: at, Series: &corev1.EventSeries{Count: 2, LastObservedTime: at}, Action: "Stop",
		Related: &corev1.ObjectReference{Name: "r"}, ReportingController: "c", ReportingInstance: "i",
		FirstTimestamp: metav1.NewTime(at.Time), LastTimestamp: metav1.NewTime(at.Time),
	}
	for _, version := range []string{"v1", "v1beta1"} {
		to := schema.GroupVersionKind{Group: "events.k8s.io", Version: version, Kind: "Event"}
		newer, lost, err := kinds.Convert(core, to)
		if err != nil || len(lost) > 0 || newer.GetObjectKind().GroupVersionKind() != to {
			t.Fatalf("%s: %v, %v, %v", version, newer, lost, err)
		}
		back, lost, err := kinds.Convert(newer, corev1.SchemeGroupVersion.WithKind("Event"))
		if err != nil || len(lost) > 0 {
			t.Fatalf("%s and back: %v, %v", version, lost, err)
		}
		want := core.DeepCopy()
		want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
		if version != "v1" { // it has been through JSON, whose times are whole seconds
			want.FirstTimestamp, want.LastTimestamp = *core.FirstTimestamp.DeepCopy(), *core.LastTimestamp.DeepCopy()
			want.FirstTimestamp.Time, want.LastTimestamp.Time = at.Truncate(time.Second), at.Truncate(time.Second)
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Errorf("%s there and back (-sent +read):\n%s", version, diff)
		}
	}
}
