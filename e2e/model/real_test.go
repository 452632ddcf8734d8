package model

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

// apiserver sends the model's requests to an apiserver, and translates the answers.
type apiserver struct {
	t    *testing.T
	api  *podapi.Client
	uids map[types.UID]int
	seen map[Key]kinds.Object // as it was stored last
	made int
}

func newAPIServer(t *testing.T, api *podapi.Client) *apiserver {
	return &apiserver{t: t, api: api, uids: map[types.UID]int{}, seen: map[Key]kinds.Object{}}
}

// revision returns the store's current revision.
func (r *apiserver) revision() int64 {
	list, err := r.api.List(r.t.Context(), target(Key{Kind: Pod}, ""), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return parseRevision(r.t, list.ResourceVersion)
}

func target(key Key, subresource string) podapi.Target {
	kind, _ := kinds.ByResource(string(key.Kind))
	return podapi.Target{Kind: kind, Namespace: "default", Name: key.Name, Subresource: subresource}
}

func (r *apiserver) send(request Request) Answer {
	r.t.Helper()
	ctx := r.t.Context()
	at := target(request.Key, "")
	switch request.Verb {
	case List:
		at.Name = ""
		list, err := r.api.List(ctx, at, metav1.ListOptions{})
		if err != nil {
			r.t.Fatal(err)
		}
		all := map[string]int64{}
		for _, item := range list.Items {
			all[item.GetName()] = parseRevision(r.t, item.GetResourceVersion())
		}
		return Answer{Code: 200, Revisions: all}
	case Create:
		obj, err := r.api.Create(ctx, at, objectFor(request), metav1.CreateOptions{DryRun: dryRun(request)})
		return r.translate(201, obj, err, request)
	case Get:
		obj, err := r.api.Get(ctx, at, metav1.GetOptions{})
		return r.translate(200, obj, err, request)
	case Put:
		obj, err := r.api.Update(ctx, at, r.withChanges(request), metav1.UpdateOptions{})
		return r.translate(200, obj, err, request)
	case Phase:
		patch := []byte(`{"status":{"phase":"` + request.Text + `"}}`)
		obj, err := r.api.Patch(ctx, target(request.Key, "status"), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return r.translate(200, obj, err, request)
	case Bind:
		return r.bind(request)
	case Delete:
		obj, err := r.api.Delete(ctx, at, r.deleteOptions(request))
		return r.deleteAnswer(obj, err, request)
	case Tick:
	}
	r.t.Fatalf("no verb %s", request.Verb)
	return Answer{}
}

func dryRun(request Request) []string {
	if request.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func objectFor(request Request) kinds.Object {
	meta := metav1.ObjectMeta{Namespace: "default", Name: request.Key.Name, Finalizers: request.Finalizers}
	if request.Label != "" {
		meta.Labels = map[string]string{"l": request.Label}
	}
	if request.Key.Kind == ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: meta}
	}
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i:1"}}, NodeName: request.Node,
		TerminationGracePeriodSeconds: request.Grace,
	}}
}

// withChanges returns the stored object with the request's label and finalizers.
func (r *apiserver) withChanges(request Request) kinds.Object {
	at := target(request.Key, "")
	obj, err := r.api.Get(r.t.Context(), at, metav1.GetOptions{})
	if err != nil {
		obj = objectFor(request)
	}
	obj.SetLabels(nil)
	if request.Label != "" {
		obj.SetLabels(map[string]string{"l": request.Label})
	}
	obj.SetFinalizers(request.Finalizers)
	switch request.Condition {
	case StaleRevision:
		obj.SetResourceVersion("1")
	case Always, OtherUID:
		obj.SetResourceVersion("")
	case Holds:
	}
	return obj
}

func (r *apiserver) bind(request Request) Answer {
	_, err := r.api.Create(r.t.Context(), target(request.Key, "binding"), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: request.Key.Name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: request.Node},
	}, metav1.CreateOptions{})
	if err != nil {
		return r.translate(0, nil, err, request)
	}
	obj, err := r.api.Get(r.t.Context(), target(request.Key, ""), metav1.GetOptions{})
	return r.translate(200, obj, err, request)
}

func (r *apiserver) deleteOptions(request Request) metav1.DeleteOptions {
	options := metav1.DeleteOptions{GracePeriodSeconds: request.Grace, DryRun: dryRun(request)}
	if request.Policy != "" {
		policy := metav1.DeletionPropagation(request.Policy)
		options.PropagationPolicy = &policy
	}
	switch request.Condition {
	case OtherUID:
		options.Preconditions = metav1.NewUIDPreconditions("other")
	case StaleRevision:
		options.Preconditions = metav1.NewRVDeletionPrecondition("1").Preconditions
	case Holds:
		if obj, err := r.api.Get(r.t.Context(), target(request.Key, ""), metav1.GetOptions{}); err == nil {
			options.Preconditions = metav1.NewUIDPreconditions(string(obj.GetUID()))
			version := obj.GetResourceVersion()
			options.Preconditions.ResourceVersion = &version
		}
	case Always:
	}
	return options
}

// deleteAnswer translates the answer to a delete. A config map is answered with a Status (API-05);
// its last state is taken from the model.
func (r *apiserver) deleteAnswer(obj runtime.Object, err error, request Request) Answer {
	if status, ok := obj.(*metav1.Status); ok && err == nil {
		if status.Details == nil || status.Details.Name != request.Key.Name || status.Details.Kind != "configmaps" {
			r.t.Errorf("API-05: details = %+v, want those of the config map", status.Details)
		}
		return Answer{Code: 200}
	}
	typed, _ := obj.(kinds.Object)
	return r.translate(200, typed, err, request)
}

// translate translates an answer into the model's.
func (r *apiserver) translate(code int, obj kinds.Object, err error, request Request) Answer {
	r.t.Helper()
	if err != nil {
		status, ok := err.(apierrors.APIStatus)
		if !ok {
			r.t.Fatalf("%+v: %v", request, err)
		}
		return Answer{Code: int(status.Status().Code), Reason: string(status.Status().Reason)}
	}
	return Answer{Code: code, Object: r.read(obj)}
}

func (r *apiserver) read(obj kinds.Object) *Object {
	number, known := r.uids[obj.GetUID()]
	revision := int64(0)
	if obj.GetResourceVersion() != "" {
		revision = parseRevision(r.t, obj.GetResourceVersion())
	}
	switch {
	case !known && revision == 0:
		number = -1 // a dry run's
	case !known:
		number = r.made
		r.uids[obj.GetUID()] = number
		r.made++
	}
	o := &Object{
		Number: number, Revision: revision, Generation: obj.GetGeneration(), Label: obj.GetLabels()["l"], Finalizers: obj.GetFinalizers(),
	}
	if deadline := obj.GetDeletionTimestamp(); deadline != nil {
		o.Deadline = deadline.Unix()
	}
	if grace := obj.GetDeletionGracePeriodSeconds(); grace != nil {
		o.Grace, o.HasGrace = *grace, true
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		o.TGPS, o.Node, o.Phase = *pod.Spec.TerminationGracePeriodSeconds, pod.Spec.NodeName, string(pod.Status.Phase)
	}
	return o
}

func parseRevision(t *testing.T, version string) int64 {
	t.Helper()
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}
