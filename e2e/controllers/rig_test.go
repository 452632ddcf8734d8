// Package controllers has whole clusters whose controllers are on, in virtual time: what
// workloads do about pods that are deleted, nodes that are lost, and views that are old.
package controllers

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/view"
)

// rig is a cluster and what a test does to it.
type rig struct {
	t       *testing.T
	cluster *stage.Cluster
	api     *podapi.Client
	watched sync.WaitGroup
}

// workloads are the controllers that most tests want.
func workloads() []string {
	return []string{
		"scheduler", "deployment", "replicaset", "replicationcontroller", "statefulset", "daemonset", "job", "cronjob", "ttl-after-finished",
	}
}

// bubble runs a test on a cluster in virtual time.
func bubble(t *testing.T, cfg stage.Config, test func(r *rig)) {
	t.Helper()
	valved(t, cfg, nil, func(r *rig, _ *view.EventGate) { test(r) })
}

// valved is bubble with a valve before what the controllers see, if one is made: in the
// bubble, whose it has to be.
func valved(t *testing.T, cfg stage.Config, made func() *view.EventGate, test func(r *rig, v *view.EventGate)) {
	t.Helper()
	if cfg.Controllers == nil {
		cfg.Controllers = workloads()
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := cfg
		if made != nil {
			cfg.Valve = made()
		}
		r := &rig{t: t, cluster: stage.New(t, cfg)}
		r.api = r.cluster.API()
		ctx, cancel := context.WithCancel(t.Context())
		r.cluster.Trace().WatchPods(ctx, r.api, &r.watched)
		defer r.watched.Wait()
		defer cancel()
		test(r, cfg.Valve)
	})
}

func (r *rig) kind(resource string) kinds.Kind {
	kind, ok := kinds.ByResource(resource)
	if !ok {
		r.t.Fatalf("no kind %s", resource)
	}
	return kind
}

func (r *rig) at(resource, name string) podapi.Target {
	return podapi.Target{Kind: r.kind(resource), Namespace: "default", Name: name}
}

// create stores an object in the namespace default.
func (r *rig) create(resource string, obj kinds.Object) {
	r.t.Helper()
	obj.SetNamespace("default")
	if _, err := r.api.Create(r.t.Context(), r.at(resource, ""), obj, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// merge changes an object by a merge patch.
func (r *rig) merge(resource, name, patch string) {
	r.t.Helper()
	if _, err := r.api.Patch(r.t.Context(), r.at(resource, name), types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// remove deletes a pod with its own grace.
func (r *rig) remove(name string) {
	r.t.Helper()
	if _, err := r.api.Delete(r.t.Context(), r.at("pods", name), metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// get reads an object.
func get[T kinds.Object](r *rig, resource, name string) T {
	r.t.Helper()
	obj, err := r.api.Get(r.t.Context(), r.at(resource, name), metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	typed, ok := obj.(T)
	if !ok {
		r.t.Fatalf("%s %s is a %T", resource, name, obj)
	}
	return typed
}

// list reads all objects of a kind.
func list[T kinds.Object](r *rig, resource string) []T {
	r.t.Helper()
	target := r.at(resource, "")
	page, err := r.api.List(r.t.Context(), target, metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []T
	for _, item := range page.Items {
		if typed, ok := item.(T); ok {
			all = append(all, typed)
		}
	}
	return all
}

// pods reads the pods.
func (r *rig) pods() []*corev1.Pod { r.t.Helper(); return list[*corev1.Pod](r, "pods") }

// until waits, for an hour at most, until is says that what is so.
func (r *rig) until(what string, is func() bool) time.Duration {
	r.t.Helper()
	begin := time.Now()
	for time.Since(begin) < time.Hour {
		r.cluster.Settle()
		if is() {
			return time.Since(begin)
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.t.Fatalf("after an hour not yet: %s; pods:\n%s", what, r.describe())
	return 0
}

// running waits until n pods are ready and there is no other.
func (r *rig) running(n int) {
	r.t.Helper()
	r.until(fmt.Sprintf("%d pods ready and no other", n), func() bool {
		pods := r.pods()
		for _, pod := range pods {
			if !ready(pod) || pod.DeletionTimestamp != nil {
				return false
			}
		}
		return len(pods) == n
	})
}

func (r *rig) describe() string {
	var b strings.Builder
	for _, pod := range r.pods() {
		fmt.Fprintf(&b, "%s %s node=%s ready=%v deleting=%v\n", pod.Name, pod.Status.Phase, pod.Spec.NodeName, ready(pod), pod.DeletionTimestamp != nil)
	}
	return b.String()
}

func ready(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// events are the texts of the events about an object, in the order of their making.
func (r *rig) events(name string) []string {
	r.t.Helper()
	var texts []string
	for _, event := range list[*corev1.Event](r, "events") {
		if event.InvolvedObject.Name == name {
			texts = append(texts, event.Reason+": "+event.Message)
		}
	}
	return texts
}

// template is a pod's, whose container behaves as script says.
func template(app, script string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
	if script != "" {
		t.Annotations = map[string]string{"script.podfall.io/main": script}
	}
	t.Spec.Containers = []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}
	return t
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// deployment is the Deployment web.
func deployment(replicas int32) *appsv1.Deployment {
	const name = "web"
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, "")},
	}
}
