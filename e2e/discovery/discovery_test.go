// Package discovery compares what discovery announces with what the apiserver serves.
package discovery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/directory"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/gateway/discovery"
)

const crontabs = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
	"metadata":{"name":"crontabs.stable.example.com"},
	"spec":{"group":"stable.example.com","scope":"Namespaced","names":{"plural":"crontabs","kind":"CronTab"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},
		"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}},
		"schema":{"openAPIV3Schema":{"type":"object","properties":{
			"spec":{"type":"object","properties":{"replicas":{"type":"integer"}}},
			"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}},
	{"name":"v1beta1","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

// TestAnnouncesWhatIsServed asks the apiserver for every verb of every kind, in every
// version, and of every subresource that any kind has: what it answers is announced, and
// nothing else. What leads to containers is served by the gateway and the kubelets.
func TestAnnouncesWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := stage.New(t, stage.Config{APIOnly: true})
		dir := directory.New()
		crd, _ := kinds.ByResource("customresourcedefinitions.apiextensions.k8s.io")
		if _, err := cluster.API().CreateRaw(t.Context(), podapi.Target{Kind: crd}, kinds.ContentTypeJSON, []byte(crontabs), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := dir.Load(t.Context(), cluster.API()); err != nil {
			t.Fatal(err)
		}
		announced := map[string]metav1.Verbs{}
		doors := []string{""}
		for _, list := range discovery.ResourceLists(dir.All()) {
			for _, resource := range list.APIResources {
				announced[list.GroupVersion+" "+resource.Name] = resource.Verbs
				_, door, _ := strings.Cut(resource.Name, "/")
				if !slices.Contains(doors, door) {
					doors = append(doors, door)
				}
			}
		}
		if len(doors) < 12 {
			t.Fatalf("only %q are announced of any kind", doors)
		}
		for _, kind := range dir.All() {
			for _, door := range doors {
				compare(t, cluster.API(), kind, door, announced)
			}
		}
	})
}

// compare asks for one resource or subresource in every way.
func compare(t *testing.T, api *podapi.Client, kind kinds.Kind, door string, announced map[string]metav1.Verbs) {
	t.Helper()
	name := kind.Resource
	if door != "" {
		name += "/" + door
	}
	if slices.Contains([]string{"attach", "exec", "log", "portforward"}, door) {
		return
	}
	verbs := announced[kind.GroupVersion().String()+" "+name]
	for verb, ask := range asks(api, kind, door) {
		err := ask(t)
		if want, got := slices.Contains(verbs, verb), isServed(err); want != got {
			t.Errorf("%s of %s in %s: announced %t, served %t: %v", verb, name, kind.GroupVersion(), want, got, err)
		}
	}
}

// isServed reports whether an answer is about an object, or its absence, and not about the
// path.
func isServed(err error) bool {
	nowhere := apierrors.IsNotFound(err) && strings.HasPrefix(err.Error(), "the server could not find the requested resource")
	return !nowhere && !apierrors.IsMethodNotSupported(err)
}

// asks are requests that change nothing, by verb: about an object that there is not, or with
// a body that is none.
func asks(api *podapi.Client, kind kinds.Kind, door string) map[string]func(*testing.T) error {
	all := podapi.Target{Kind: kind, Subresource: door}
	if kind.Namespaced {
		all.Namespace = "default"
	}
	one, made := all, all
	one.Name = "nothing"
	if door != "" {
		made = one
	}
	none := metav1.ListOptions{LabelSelector: "no=one"}
	ways := map[string]func(*testing.T) error{
		"get": func(t *testing.T) error { _, err := api.Get(t.Context(), one, metav1.GetOptions{}); return err },
		"create": func(t *testing.T) error {
			_, err := api.CreateRaw(t.Context(), made, kinds.ContentTypeJSON, []byte("[]"), metav1.CreateOptions{})
			return err
		},
		"update": func(t *testing.T) error {
			_, err := api.UpdateRaw(t.Context(), one, kinds.ContentTypeJSON, []byte("[]"), metav1.UpdateOptions{})
			return err
		},
		"patch": func(t *testing.T) error {
			_, err := api.Patch(t.Context(), one, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			return err
		},
	}
	if door != "" {
		return ways
	}
	ways["delete"] = func(t *testing.T) error { _, err := api.Delete(t.Context(), one, metav1.DeleteOptions{}); return err }
	ways["deletecollection"] = func(t *testing.T) error {
		_, err := api.DeleteCollection(t.Context(), all, metav1.DeleteOptions{}, none)
		return err
	}
	ways["list"] = func(t *testing.T) error { _, err := api.List(t.Context(), all, none); return err }
	ways["watch"] = func(t *testing.T) error {
		stream, err := api.Watch(t.Context(), all, none)
		if err == nil {
			stream.Stop()
		}
		return err
	}
	return ways
}
