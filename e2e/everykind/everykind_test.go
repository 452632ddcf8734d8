// Package everykind takes every built-in kind through its life: created, read, listed,
// watched, updated, patched in three ways and deleted, over the bus, by its own version.
package everykind

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

func TestEveryKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := stage.New(t, stage.Config{APIOnly: true})
		served := kinds.All()
		if len(served) < 60 {
			t.Fatalf("the table has %d kinds: where are the others?", len(served))
		}
		for number, kind := range served {
			life := lifecycle{t: t, api: cluster.API(), kind: kind, name: fmt.Sprintf("x%d", number)}
			if kind.Kind == "CustomResourceDefinition" {
				life.name += ".example.com" // its name says what it defines
			}
			life.run()
		}
	})
}

// lifecycle is the test of one object's lifecycle.
type lifecycle struct {
	t    *testing.T
	api  *podapi.Client
	kind kinds.Kind
	name string
}

func (l lifecycle) target(name string) podapi.Target {
	target := podapi.Target{Kind: l.kind, Name: name}
	if l.kind.Namespaced {
		target.Namespace = "default"
	}
	return target
}

func (l lifecycle) run() {
	t, ctx := l.t, l.t.Context()
	what := l.kind.String()
	list, err := l.api.List(ctx, l.target(""), metav1.ListOptions{})
	if err != nil {
		t.Errorf("%s: list: %v", what, err)
		return
	}
	before := len(list.Items)
	stream, err := l.api.Watch(ctx, l.target(""), metav1.ListOptions{
		ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=" + l.name,
	})
	if err != nil {
		t.Errorf("%s: watch: %v", what, err)
		return
	}
	defer stream.Stop()
	if _, err := l.api.Create(ctx, l.target(l.name), l.minimalObject(), metav1.CreateOptions{}); err != nil {
		t.Errorf("%s: create: %v", what, err)
		return
	}
	l.wantEvent(stream, watch.Added, "")
	if list, err = l.api.List(ctx, l.target(""), metav1.ListOptions{}); err != nil || len(list.Items) != before+1 {
		t.Errorf("%s: list has %d items (%v), want %d", what, len(list.Items), err, before+1)
	}
	obj, err := l.api.Get(ctx, l.target(l.name), metav1.GetOptions{})
	if err != nil || obj.GetUID() == "" || obj.GetObjectKind().GroupVersionKind() != l.kind.GroupVersionKind {
		t.Errorf("%s: get: %v, %+v", what, err, obj)
		return
	}
	obj.SetLabels(map[string]string{"by": "update"})
	if _, err := l.api.Update(ctx, l.target(l.name), obj, metav1.UpdateOptions{}); err != nil {
		t.Errorf("%s: update: %v", what, err)
	}
	l.wantEvent(stream, watch.Modified, "update")
	for _, patch := range []struct {
		by   string
		kind types.PatchType
		data string
	}{
		{"json", types.JSONPatchType, `[{"op":"replace","path":"/metadata/labels/by","value":"json"}]`},
		{"merge", types.MergePatchType, `{"metadata":{"labels":{"by":"merge"}}}`},
		{"strategic", types.StrategicMergePatchType, `{"metadata":{"labels":{"by":"strategic"}}}`},
	} {
		if _, err := l.api.Patch(ctx, l.target(l.name), patch.kind, []byte(patch.data), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %s patch: %v", what, patch.by, err)
		}
		l.wantEvent(stream, watch.Modified, patch.by)
	}
	l.deleteObject(stream)
}

// deleteObject deletes the object. The namespace controller is not running, so a namespace's
// finalizer is removed through /finalize.
func (l lifecycle) deleteObject(stream watch.Interface) {
	t, ctx := l.t, l.t.Context()
	what := l.kind.String()
	background := metav1.DeletePropagationBackground // jobs orphan what they own unless told
	if _, err := l.api.Delete(ctx, l.target(l.name), metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Errorf("%s: delete: %v", what, err)
		return
	}
	switch l.kind.Resource {
	case "pods":
		l.wantEvent(stream, watch.Modified, "strategic") // the mark (API-41)
	case "customresourcedefinitions":
		l.wantEvent(stream, watch.Modified, "strategic") // its resources go first
	case "namespaces":
		l.wantEvent(stream, watch.Modified, "strategic")
		obj, err := l.api.Get(ctx, l.target(l.name), metav1.GetOptions{})
		namespace, ok := obj.(*corev1.Namespace)
		if err != nil || !ok || namespace.Status.Phase != corev1.NamespaceTerminating {
			t.Errorf("%s: after its delete: %v, %+v", what, err, obj)
			return
		}
		namespace.Spec.Finalizers = nil
		target := l.target(l.name)
		target.Subresource = "finalize"
		if _, err := l.api.Update(ctx, target, namespace, metav1.UpdateOptions{}); err != nil {
			t.Errorf("%s: finalize: %v", what, err)
		}
	}
	l.wantEvent(stream, watch.Deleted, "strategic")
	if _, err := l.api.Get(ctx, l.target(l.name), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: get after the delete: %v, want NotFound", what, err)
	}
}

// wantEvent reads the next event of the watch.
func (l lifecycle) wantEvent(stream watch.Interface, kind watch.EventType, by string) {
	l.t.Helper()
	synctest.Wait()
	select {
	case event := <-stream.ResultChan():
		obj, ok := event.Object.(kinds.Object)
		if event.Type != kind || !ok || obj.GetLabels()["by"] != by {
			l.t.Errorf("%s: the watch shows %s %+v, want %s by %q", l.kind, event.Type, event.Object, kind, by)
		}
	default:
		l.t.Errorf("%s: the watch shows nothing, want %s", l.kind, kind)
	}
}

// minimalObject returns the smallest valid object of the kind.
func (l lifecycle) minimalObject() kinds.Object {
	obj, err := kinds.New(l.kind.GroupVersionKind)
	if err != nil {
		l.t.Fatal(err)
	}
	obj.SetName(l.name)
	if l.kind.Namespaced {
		obj.SetNamespace("default")
	}
	if err := json.Unmarshal([]byte(minimalFields(l.kind.GroupResource().String())), obj); err != nil {
		l.t.Fatal(err)
	}
	switch typed := obj.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		typed.Spec.Names.Plural, typed.Spec.Group, _ = strings.Cut(l.name, ".")
	case *corev1.Event:
		typed.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}
	case *eventsv1.Event:
		typed.Regarding = corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}
		typed.EventTime, typed.ReportingController, typed.ReportingInstance = metav1.NowMicro(), "example.com/c", "i"
		typed.Action, typed.Reason, typed.Type = "Did", "Done", corev1.EventTypeNormal
	}
	return obj
}

// minimalFields returns as JSON what an object needs besides its name to be valid; most kinds need
// nothing.
func minimalFields(resource string) string {
	const containers = `"containers":[{"name":"c","image":"i:1"}]`
	const labels = `{"app":"x"}`
	const template = `"template":{"metadata":{"labels":` + labels + `},"spec":{` + containers + `}}`
	const workload = `{"spec":{"selector":{"matchLabels":` + labels + `},` + template + `}}`
	const job = `"spec":{"template":{"spec":{"restartPolicy":"Never",` + containers + `}}}`
	const storage = `"accessModes":["ReadWriteOnce"],`
	switch resource {
	case "pods":
		return `{"spec":{` + containers + `}}`
	case "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps":
		return workload
	case "replicationcontrollers":
		return `{"spec":{` + template + `}}`
	case "jobs.batch":
		return `{` + job + `}`
	case "cronjobs.batch":
		return `{"spec":{"schedule":"* * * * *","jobTemplate":{` + job + `}}}`
	case "customresourcedefinitions.apiextensions.k8s.io":
		return `{"spec":{"scope":"Cluster","names":{"kind":"X"},"versions":[{"name":"v1","served":true,"storage":true,
			"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	case "services":
		return `{"spec":{"ports":[{"port":80}]}}`
	case "endpointslices.discovery.k8s.io":
		return `{"addressType":"IPv4"}`
	case "persistentvolumes":
		return `{"spec":{` + storage + `"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}`
	case "persistentvolumeclaims":
		return `{"spec":{` + storage + `"resources":{"requests":{"storage":"1Gi"}}}}`
	case "storageclasses.storage.k8s.io":
		return `{"provisioner":"example.com/disk"}`
	}
	return `{}`
}
