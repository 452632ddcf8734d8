package registry

import (
	"reflect"

	"github.com/podfall/podfall/proto/kinds"
)

// ReturnsDeleted reports whether a DELETE of this kind is answered with the removed object. Other
// kinds answer with a Status of success (API-05).
func ReturnsDeleted(kind kinds.Kind) bool {
	switch kind.GroupResource().String() {
	case "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas",
		"serviceaccounts", "services",
		"deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io",
		"resourcepoolstatusrequests.resource.k8s.io", "resourceslices.resource.k8s.io",
		"csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "storageclasses.storage.k8s.io",
		"volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io":
		return true
	}
	return false
}

// AllowsUnconditionalUpdate reports whether an update without a resourceVersion overwrites the
// stored object (API-65).
func AllowsUnconditionalUpdate(kind kinds.Kind) bool {
	switch kind.GroupResource().String() {
	case "clustertrustbundles.certificates.k8s.io", "podcertificaterequests.certificates.k8s.io",
		"runtimeclasses.node.k8s.io", "poddisruptionbudgets.policy",
		"podgroups.scheduling.k8s.io", "compositepodgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io",
		"storageversionmigrations.storagemigration.k8s.io", "resourcepoolstatusrequests.resource.k8s.io",
		"csidrivers.storage.k8s.io", "csistoragecapacities.storage.k8s.io",
		"volumeattachments.storage.k8s.io", "csinodes.storage.k8s.io":
		return false
	}
	switch kind.Group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "internal.apiserver.k8s.io",
		"lifecycle.k8s.io":
		return false
	}
	return !kind.Custom
}

// CreatesOnUpdate reports whether an update of a missing object creates it. For other kinds it is a
// 404 (API-66).
func CreatesOnUpdate(kind kinds.Kind) bool {
	switch kind.GroupResource().String() {
	case "endpoints", "events", "events.events.k8s.io", "limitranges", "services", "runtimeclasses.node.k8s.io":
		return true
	}
	return kind.Group == "rbac.authorization.k8s.io" || kind.Group == "coordination.k8s.io"
}

// Subresources returns the subresources of a kind. Strategies handle "status" and, for namespaces,
// "finalize"; the verbs handle the others.
func Subresources(kind kinds.Kind) []string {
	if kind.Custom {
		return kind.Subresources
	}
	var subresources []string
	switch kind.GroupResource().String() {
	case "pods":
		subresources = []string{"binding", "ephemeralcontainers", "eviction", "resize"}
	case "namespaces":
		subresources = []string{"finalize"}
	case "serviceaccounts":
		subresources = []string{"token"}
	case "replicationcontrollers", "deployments.apps", "replicasets.apps", "statefulsets.apps":
		subresources = []string{"scale"}
	}
	if hasStatus(kind) {
		subresources = append(subresources, "status")
	}
	return subresources
}

// hasStatus reports whether objects of the kind have a status, which only the status subresource
// writes.
func hasStatus(kind kinds.Kind) bool {
	made, known := kinds.Scheme().AllKnownTypes()[kind.GroupVersionKind]
	if !known {
		return false
	}
	_, has := made.FieldByName("Status")
	return has
}

// countsGeneration reports whether metadata.generation counts the changes of the kind's objects,
// from 1. For other kinds it stays 0.
func countsGeneration(kind kinds.Kind) bool {
	switch kind.Group {
	case "admissionregistration.k8s.io", "extensions", "flowcontrol.apiserver.k8s.io", "lifecycle.k8s.io":
		return true
	}
	switch kind.GroupResource().String() {
	case "podtemplates", "replicationcontrollers",
		"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
		"jobs.batch", "cronjobs.batch", "horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy",
		"endpointslices.discovery.k8s.io", "ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io",
		"networkpolicies.networking.k8s.io", "priorityclasses.scheduling.k8s.io",
		"deviceclasses.resource.k8s.io", "devicetaintrules.resource.k8s.io", "resourceslices.resource.k8s.io":
		return true
	}
	return false
}

// structField returns a field of obj's struct by its Go name; the zero Value if there is none.
func structField(obj kinds.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}
