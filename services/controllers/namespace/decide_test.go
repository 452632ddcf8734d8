package namespace

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

var origin = time.Unix(1_700_000_000, 0)

func TestNext(t *testing.T) {
	deleted := &metav1.Time{Time: origin}
	kubernetes := []corev1.FinalizerName{corev1.FinalizerKubernetes}
	for _, row := range []struct {
		name string
		ns   corev1.Namespace
		want Step
	}{
		{"alive", corev1.Namespace{Spec: corev1.NamespaceSpec{Finalizers: kubernetes}}, Nothing},
		{"finalized", corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted}}, Nothing},
		{"no phase", corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted}, Spec: corev1.NamespaceSpec{Finalizers: kubernetes},
		}, MarkPhase},
		{"terminating", corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted}, Spec: corev1.NamespaceSpec{Finalizers: kubernetes},
			Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
		}, Empty},
	} {
		if got := NextStep(&row.ns); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestContentIsEachKindOnceAndPodsAlone(t *testing.T) {
	pods, others := Content(kinds.Served())
	if pods.Resource != "pods" {
		t.Errorf("pods are %v", pods)
	}
	seen := map[schema.GroupResource]bool{}
	for _, kind := range others {
		if seen[kind.GroupResource()] || !kind.Namespaced || kind.GroupResource() == corev1.Resource("pods") {
			t.Errorf("%v does not belong", kind)
		}
		seen[kind.GroupResource()] = true
	}
	if !seen[corev1.Resource("configmaps")] || !seen[schema.GroupResource{Group: "apps", Resource: "deployments"}] {
		t.Error("kinds are missing")
	}
}

func TestPodGrace(t *testing.T) {
	pod := func(grace int64, phase corev1.PodPhase) kinds.Object {
		return &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}, Status: corev1.PodStatus{Phase: phase}}
	}
	pods := []kinds.Object{&corev1.ConfigMap{}, pod(30, corev1.PodRunning), pod(600, corev1.PodFailed), pod(60, corev1.PodPending)}
	for after, want := range map[time.Duration]int64{-24 * time.Hour: 60, 0: 60, 16 * time.Second: 44, time.Hour: 0} {
		if got := PodGrace(pods, origin, origin.Add(after)); got != want {
			t.Errorf("after %v: %d, want %d", after, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	maps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"x.io/y"}}}
	free := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	texts := func(v Verdict) map[corev1.NamespaceConditionType]string {
		m := map[corev1.NamespaceConditionType]string{}
		for _, c := range v.Conditions {
			m[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		return m
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}

	waiting := Evaluate(ns, Sweep{Left: []Leftover{NewLeftover("shop", pods, []kinds.Object{&corev1.Pod{}, &corev1.Pod{}}, 30)}}, origin)
	if waiting.RequeueAfter != 16*time.Second || waiting.Finalize || waiting.Err != nil {
		t.Errorf("waiting for pods: %+v", waiting)
	}
	if got, want := texts(waiting)[corev1.NamespaceContentRemaining],
		"True SomeResourcesRemain: Some resources are remaining: pods. has 2 resource instances"; got != want {
		t.Errorf("got %s", got)
	}
	if got, want := texts(waiting)[corev1.NamespaceFinalizersRemaining],
		"False ContentHasNoFinalizers: All content-preserving finalizers finished"; got != want {
		t.Errorf("got %s", got)
	}

	finalizer := Evaluate(ns, Sweep{Left: []Leftover{NewLeftover("shop", maps, []kinds.Object{held, free}, 0)}}, origin)
	if finalizer.RequeueAfter != 8*time.Second {
		t.Errorf("with finalizers again in %v", finalizer.RequeueAfter)
	}
	if got, want := texts(finalizer)[corev1.NamespaceFinalizersRemaining],
		"True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x.io/y in 1 resource instances"; got != want {
		t.Errorf("got %s", got)
	}

	odd := Evaluate(ns, Sweep{Left: []Leftover{NewLeftover("shop", maps, []kinds.Object{free}, 0)}}, origin)
	if odd.Err == nil || odd.Finalize {
		t.Errorf("%+v: want a failure", odd)
	}
	if got, want := texts(odd)[corev1.NamespaceDeletionContentFailure],
		"True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: "+
			"unexpected items still remain in namespace: shop for gvr: /v1, Resource=configmaps"; got != want {
		t.Errorf("got %s", got)
	}

	blind := Evaluate(ns, Sweep{Discovery: errors.New("no answer")}, origin)
	if blind.Finalize || texts(blind)[corev1.NamespaceDeletionDiscoveryFailure] != "True DiscoveryFailed: no answer" {
		t.Errorf("%+v", blind)
	}
	done := Evaluate(ns, Sweep{}, origin)
	if !done.Finalize || len(done.Conditions) != 5 || !done.Changed {
		t.Errorf("%+v", done)
	}
	ns.Status.Conditions = done.Conditions
	if again := Evaluate(ns, Sweep{}, origin.Add(time.Minute)); again.Changed {
		t.Error("conditions that are the same are written again")
	}
}
