package sim

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// podCreator creates and deletes a pod, and watches all pods.
type podCreator struct {
	client   Client
	follower Follower
	seen     []string
}

func (v *podCreator) Replace(items []kinds.Object, _ string) {
	for _, item := range items {
		v.seen = append(v.seen, "LIST "+item.GetName())
	}
}

func (v *podCreator) Apply(event watch.Event) {
	if obj, ok := event.Object.(kinds.Object); ok {
		v.seen = append(v.seen, string(event.Type)+" "+obj.GetName())
	}
}

func (v *podCreator) Step(now time.Time, in Input, out Out) {
	if v.client.Step(now, in, out) || v.follower.Step(now, in, out) {
		return
	}
	boot, ok := in.(Boot)
	if !ok {
		return
	}
	pods, _ := kinds.ByResource("pods")
	v.client = newClient(proto.Admin, boot)
	v.follower = Follower{Key: "pods", Client: &v.client, Target: podapi.Target{Kind: pods}, Sink: v}
	v.follower.Start(now, out)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "scripted"}}}}
	err := v.client.Do(now, out, Ask{Verb: proto.VerbCreate, Target: podapi.Target{Kind: pods, Namespace: "default"}, Object: pod}, func(now time.Time, got Outcome, out Out) {
		if got.Err != nil {
			v.seen = append(v.seen, got.Err.Error())
			return
		}
		_ = v.client.Do(now, out, Ask{Verb: proto.VerbDelete, Target: podapi.Target{Kind: pods, Namespace: "default", Name: "p"}, Options: &metav1.DeleteOptions{}}, func(_ time.Time, got Outcome, _ Out) {
			if got.Err != nil {
				v.seen = append(v.seen, got.Err.Error())
			}
		})
	})
	if err != nil {
		v.seen = append(v.seen, err.Error())
	}
}

// TestSlice runs one client and the apiserver.
func TestSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(NewNet(1, FaultRates{}, 0))
		drive := &Drive{seed: 1}
		v := &podCreator{}
		w.Add(APIServer, func() Process { return NewAPIServer(drive, nil, func() {}) }, 0)
		w.Add("user", func() Process { return v }, time.Second)
		if err := w.Run(time.Minute); err != nil {
			t.Fatal(err)
		}
		t.Log(v.seen, w.Steps, len(w.record.events), len(StoreLog(w.Persisted(APIServer, diskStore))))
		for _, e := range w.record.events {
			t.Logf("%v %s %s %+v", e.Wall, e.Process, e.Fact.Name(), e.Fact)
		}
	})
}
