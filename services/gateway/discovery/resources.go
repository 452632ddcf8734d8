package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/podfall/podfall/proto/kinds"
)

// ResourceLists returns for each group and version its resources and their subresources, sorted by
// name. Groups are in the order of their first kinds, which is the order in which clients look
// names up. The gateway's own groups come last. The preferred version of a group comes first.
func ResourceLists(all []kinds.Kind) []metav1.APIResourceList {
	found := map[schema.GroupVersion][]metav1.APIResource{}
	var groups []string
	for _, kind := range all {
		if !slices.Contains(groups, kind.Group) {
			groups = append(groups, kind.Group)
		}
		found[kind.GroupVersion()] = append(found[kind.GroupVersion()], resourcesOf(kind)...)
	}
	for gv, own := range reviewResources() {
		if !slices.Contains(groups, gv.Group) {
			groups = append(groups, gv.Group)
		}
		found[gv] = append(found[gv], own...)
	}
	var versions []schema.GroupVersion
	for gv := range found {
		versions = append(versions, gv)
	}
	slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
		byGroup := cmp.Compare(groupRank(groups, a.Group), groupRank(groups, b.Group))
		return cmp.Or(byGroup, cmp.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	var lists []metav1.APIResourceList
	for _, gv := range versions {
		slices.SortFunc(found[gv], func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
		lists = append(lists, metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: gv.String(), APIResources: found[gv],
		})
	}
	return lists
}

// groupRank is the position of a group. The gateway's own groups come last, because stored kinds
// are looked up first.
func groupRank(groups []string, group string) int {
	if group == authentication || group == authorization {
		return len(groups)
	}
	return slices.Index(groups, group)
}

// resourcesOf returns a kind's resource and its subresources.
func resourcesOf(kind kinds.Kind) []metav1.APIResource {
	own := metav1.APIResource{
		Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Kind,
		Verbs:      metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		ShortNames: kind.ShortNames, Categories: kind.Categories, StorageVersionHash: storageHash(kind),
	}
	all := []metav1.APIResource{own}
	for _, sub := range subresources(kind) {
		if sub.Kind == "" {
			sub.Kind = kind.Kind
		}
		sub.Name, sub.Namespaced = kind.Resource+"/"+sub.Name, kind.Namespaced
		all = append(all, sub)
	}
	return all
}

// storageHash is equal for two resources that are stored as one (upstream's StorageVersionHash).
func storageHash(kind kinds.Kind) string {
	sum := sha256.Sum256([]byte(kind.Group + "/" + kind.StorageVersion + "/" + kind.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// subresources are a kind's subresources: those of the apiserver, and those that the gateway serves
// for containers.
func subresources(kind kinds.Kind) []metav1.APIResource {
	if kind.Custom {
		return customSubresources(kind)
	}
	var doors []metav1.APIResource
	switch kind.GroupResource().String() {
	case "pods":
		doors = podSubresources()
	case "namespaces":
		doors = []metav1.APIResource{subresource("finalize", "update")}
	case "serviceaccounts":
		doors = []metav1.APIResource{withKind(subresource("token", "create"), authentication, "v1", "TokenRequest")}
	case "replicationcontrollers", "deployments.apps", "replicasets.apps", "statefulsets.apps":
		doors = []metav1.APIResource{scaleSubresource()}
	}
	if hasStatus(kind) {
		doors = append(doors, statusSubresource())
	}
	return doors
}

// HasSubresource reports whether a kind has a subresource of a name.
func HasSubresource(kind kinds.Kind, name string) bool {
	return slices.ContainsFunc(subresources(kind), func(door metav1.APIResource) bool { return door.Name == name })
}

func podSubresources() []metav1.APIResource {
	return []metav1.APIResource{
		withKind(subresource("attach", "create", "get"), "", "", "PodAttachOptions"),
		withKind(subresource("binding", "create"), "", "", "Binding"),
		subresource("ephemeralcontainers", "get", "patch", "update"),
		withKind(subresource("eviction", "create"), "policy", "v1", "Eviction"),
		withKind(subresource("exec", "create", "get"), "", "", "PodExecOptions"),
		subresource("log", "get"),
		withKind(subresource("portforward", "create", "get"), "", "", "PodPortForwardOptions"),
		subresource("resize", "get", "patch", "update"),
	}
}

func customSubresources(kind kinds.Kind) []metav1.APIResource {
	var doors []metav1.APIResource
	for _, name := range kind.Subresources {
		switch name {
		case "status":
			doors = append(doors, statusSubresource())
		case "scale":
			doors = append(doors, scaleSubresource())
		}
	}
	return doors
}

func statusSubresource() metav1.APIResource { return subresource("status", "get", "patch", "update") }

func scaleSubresource() metav1.APIResource {
	return withKind(subresource("scale", "get", "patch", "update"), "autoscaling", "v1", "Scale")
}

// subresource returns a subresource with objects of the resource's own kind.
func subresource(name string, verbs ...string) metav1.APIResource {
	return metav1.APIResource{Name: name, Verbs: verbs}
}

// withKind gives a subresource objects of another kind.
func withKind(resource metav1.APIResource, group, version, kind string) metav1.APIResource {
	resource.Group, resource.Version, resource.Kind = group, version, kind
	return resource
}

// hasStatus reports whether objects of a kind have a status.
func hasStatus(kind kinds.Kind) bool {
	obj, err := kinds.New(kind.GroupVersionKind)
	return err == nil && reflect.ValueOf(obj).Elem().FieldByName("Status").IsValid()
}

// The groups of the reviews.
const (
	authentication = "authentication.k8s.io"
	authorization  = "authorization.k8s.io"
)

// reviewResources are the resources that the gateway answers itself; they are not stored.
func reviewResources() map[schema.GroupVersion][]metav1.APIResource {
	review := func(kind string, namespaced bool) metav1.APIResource {
		singular := strings.ToLower(kind)
		return metav1.APIResource{
			Name: singular + "s", SingularName: singular, Namespaced: namespaced, Kind: kind, Verbs: metav1.Verbs{"create"},
		}
	}
	return map[schema.GroupVersion][]metav1.APIResource{
		{Group: authentication, Version: "v1"}: {review("SelfSubjectReview", false), review("TokenReview", false)},
		{Group: authorization, Version: "v1"}: {
			review("LocalSubjectAccessReview", true), review("SelfSubjectAccessReview", false),
			review("SelfSubjectRulesReview", false), review("SubjectAccessReview", false),
		},
	}
}
