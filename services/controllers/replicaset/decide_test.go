package replicaset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func set(replicas int32) *appsv1.ReplicaSet {
	s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 3}}
	s.Spec.Replicas = &replicas
	s.Spec.Template.Labels = map[string]string{"app": "web"}
	return s
}

func pods(n int, edit ...func(*corev1.Pod)) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range n {
		p := &corev1.Pod{}
		p.Name, p.Labels = fmt.Sprintf("web-%d", i), map[string]string{"app": "web"}
		for _, e := range edit {
			e(p)
		}
		all = append(all, p)
	}
	return all
}

func ready(since time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}
	}
}

func TestDecide(t *testing.T) {
	deleting := set(3)
	deleting.DeletionTimestamp = &metav1.Time{Time: now}
	unset := set(0)
	unset.Spec.Replicas = nil
	for _, c := range []struct {
		name           string
		view           View
		create, delete int
	}{
		{"as many as asked for", View{Set: set(2), Active: pods(2)}, 0, 0},
		{"some missing", View{Set: set(3), Active: pods(1)}, 2, 0},
		{"nothing said is one", View{Set: unset}, 1, 0},
		{"terminating ones do not count (CTL-30)", View{Set: set(1), Terminating: pods(1)}, 1, 0},
		{"too many", View{Set: set(1), Active: pods(4)}, 0, 3},
		{"to none", View{Set: set(0), Active: pods(4)}, 0, 4},
		{"a view that is known to be old", View{Set: set(3), Stale: true}, 0, 0},
		{"a set that is being deleted", View{Set: deleting}, 0, 0},
		{"not all at once", View{Set: set(1200)}, Burst, 0},
		{"nor down", View{Set: set(0), Active: pods(1200)}, 0, Burst},
	} {
		plan := Decide(c.view, now)
		if plan.Create != c.create || len(plan.Delete) != c.delete {
			t.Errorf("%s: create %d and delete %d, want %d and %d", c.name, plan.Create, len(plan.Delete), c.create, c.delete)
		}
	}
}

func TestStatus(t *testing.T) {
	odd := pods(1)
	odd[0].Labels = nil
	slow := set(4)
	slow.Spec.MinReadySeconds = 60
	failed := set(2)
	failed.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Reason: "FailedCreate", Message: "old"}}
	for _, c := range []struct {
		name   string
		view   View
		failed error
		want   string
	}{
		{"counts", View{Set: set(4), Active: append(pods(2, ready(time.Second)), odd...), Terminating: pods(2)}, nil, "3 labeled 2 ready 2 available 2 terminating 2"},
		{"not long enough", View{Set: slow, Active: append(pods(1, ready(59*time.Second)), pods(1, ready(time.Minute))...)}, nil, "2 labeled 2 ready 2 available 1 terminating 0"},
		{"refused", View{Set: set(1)}, errors.New("quota"), "0 labeled 0 ready 0 available 0 terminating 0 FailedCreate quota"},
		{"refused to go", View{Set: set(0), Active: pods(1)}, errors.New("no"), "1 labeled 1 ready 0 available 0 terminating 0 FailedDelete no"},
		{"still refused", View{Set: failed}, errors.New("new"), "0 labeled 0 ready 0 available 0 terminating 0 FailedCreate old"},
		{"no longer refused", View{Set: failed}, nil, "0 labeled 0 ready 0 available 0 terminating 0"},
	} {
		s := Status(c.view, c.failed, now)
		got := fmt.Sprintf("%d labeled %d ready %d available %d terminating %d",
			s.Replicas, s.FullyLabeledReplicas, s.ReadyReplicas, s.AvailableReplicas, *s.TerminatingReplicas)
		for _, condition := range s.Conditions {
			got += " " + condition.Reason + " " + condition.Message
		}
		if got != c.want || s.ObservedGeneration != 3 {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	v := View{Set: slow, Active: append(pods(1, ready(59*time.Second)), pods(1, ready(time.Minute))...)}
	if wait := RecheckAfter(v, now); wait != time.Second {
		t.Errorf("looks again after %v, want 1s", wait)
	}
}
