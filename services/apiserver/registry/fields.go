package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/proto/kinds"
)

// selectableFields returns the fields of a group resource that can be selected by, besides
// metadata.name and metadata.namespace (API-72).
func selectableFields(resource string) []string {
	switch resource {
	case "pods":
		return []string{
			"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
			"spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
		}
	case "nodes":
		return []string{"spec.unschedulable"}
	case "namespaces":
		return []string{"status.phase"}
	case "events", "events.events.k8s.io":
		return []string{
			"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
			"involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
			"reason", "reportingComponent", "source", "type",
		}
	case "secrets":
		return []string{"type"}
	case "services":
		return []string{"spec.clusterIP", "spec.type"}
	case "replicationcontrollers":
		return []string{"status.replicas"}
	case "jobs.batch":
		return []string{"status.successful"}
	case "certificatesigningrequests.certificates.k8s.io", "clustertrustbundles.certificates.k8s.io":
		return []string{"spec.signerName"}
	case "podcertificaterequests.certificates.k8s.io":
		return []string{"spec.signerName", "spec.podName", "spec.nodeName"}
	case "resourceslices.resource.k8s.io":
		return []string{"spec.nodeName", "spec.driver", "spec.pool.name"}
	}
	return nil
}

// fieldName returns the name that [Strategy.Fields] uses for a field. Pods had another name for
// their node, and newer Events have others for most of their fields.
func fieldName(kind kinds.Kind, name string) string {
	newer := kind.GroupKind() == schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}
	switch {
	case kind.GroupKind() == schema.GroupKind{Kind: "Pod"} && name == "spec.host":
		return "spec.nodeName"
	case newer && name == "reportingController":
		return "reportingComponent"
	case newer && strings.HasPrefix(name, "regarding."):
		return "involvedObject." + strings.TrimPrefix(name, "regarding.")
	}
	return name
}

// checkSelectable says in upstream's words if a kind cannot be selected by a field.
func checkSelectable(kind kinds.Kind, name string) error {
	known := selectableFields(kind.GroupResource().String())
	switch {
	case kind.Custom && slices.Contains(kind.Selectable, name):
		return nil
	case kind.Custom && name != "metadata.name" && (name != "metadata.namespace" || !kind.Namespaced):
		return fmt.Errorf("field label not supported: %s", name)
	case name == "metadata.name",
		name == "metadata.namespace" && (kind.Namespaced || len(known) == 0),
		slices.Contains(known, name):
		return nil
	case len(known) == 0:
		return fmt.Errorf("%q is not a known field selector: only %q, %q", name, "metadata.name", "metadata.namespace")
	case kind.GroupResource().String() == "jobs.batch":
		return fmt.Errorf("field label %q not supported for Job", name)
	}
	return fmt.Errorf("field label not supported: %s", name)
}

// addSelectable adds the values of selectable fields, for the kinds without a strategy of their
// own.
func addSelectable(set fields.Set, obj kinds.Object) {
	switch o := obj.(type) {
	case *corev1.Secret:
		set["type"] = string(o.Type)
	case *corev1.Service:
		set["spec.clusterIP"] = o.Spec.ClusterIP
		set["spec.type"] = string(o.Spec.Type)
	case *corev1.ReplicationController:
		set["status.replicas"] = strconv.Itoa(int(o.Status.Replicas))
	case *batchv1.Job:
		set["status.successful"] = strconv.Itoa(int(o.Status.Succeeded))
	case *certificatesv1.CertificateSigningRequest:
		set["spec.signerName"] = o.Spec.SignerName
	case *certificatesv1.ClusterTrustBundle:
		set["spec.signerName"] = o.Spec.SignerName
	case *certificatesv1.PodCertificateRequest:
		set["spec.signerName"] = o.Spec.SignerName
		set["spec.podName"] = o.Spec.PodName
		set["spec.nodeName"] = string(o.Spec.NodeName)
	case *resourcev1.ResourceSlice:
		if o.Spec.NodeName != nil {
			set["spec.nodeName"] = *o.Spec.NodeName
		}
		set["spec.driver"] = o.Spec.Driver
		set["spec.pool.name"] = o.Spec.Pool.Name
	}
}
