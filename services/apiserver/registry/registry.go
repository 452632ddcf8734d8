// Package registry holds what the API knows of each kind: the defaults it fills in, what
// it refuses, what an update may not change, and what can be selected by. It is pure.
// Objects go in and objects and errors come out; the verbs read and write the store.
//
// A write passes through here in this order:
//
//	body or patch                           decode.go, patch.go
//	  -> BeforeCreate / BeforeUpdate        write.go: one order of steps for all kinds
//	       metadata that the server keeps   meta.go
//	       the kind's Strategy              a file per kind, over rules.go or generic.go
//	  -> the store
//
// What a list or a watch asks for is read in listoptions.go, fields.go and continue.go; how
// kinds differ in small ways stands in traits.go.
package registry

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Strategy is what one kind has to say about its objects. Objects come in the kind's
// preferred version; the methods that prepare change obj and nothing else, and old is
// never changed: what obj takes over from it, the two share. Nothing that is done to obj
// later may write to that, also not its encoding (the store sees to that).
type Strategy interface {
	// PrepareForCreate drops what a client may not set and fills in the defaults. Doing
	// it twice changes nothing more.
	PrepareForCreate(obj kinds.Object, now time.Time)
	// Validate is everything wrong with a prepared object, its metadata included.
	Validate(obj kinds.Object) field.ErrorList
	// PrepareForUpdate puts back what this subresource ("" is the object itself) may not
	// change, and fills in the defaults.
	PrepareForUpdate(obj, old kinds.Object, subresource string)
	// ValidateUpdate is everything that keeps a prepared object from replacing old.
	ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList
	// Warnings are sentences for whoever creates obj.
	Warnings(obj kinds.Object) []string
	// Fields are the values that field selectors see. Every kind has metadata.name, and
	// metadata.namespace when it has namespaces.
	Fields(obj kinds.Object) fields.Set
	// Graceful is the grace in seconds of a delete that asks for grace seconds, or for
	// none in particular when grace is nil (API-11). ok is false when the kind has no
	// graceful deletion.
	Graceful(obj kinds.Object, grace *int64) (seconds int64, ok bool)
}

// Holder is a Strategy that holds its objects back when they are deleted.
type Holder interface {
	// PrepareForDelete is obj as its first DELETE finds it, with the finalizers that the
	// server itself wants; obj itself when there is nothing to add. obj is not changed.
	PrepareForDelete(obj kinds.Object, now time.Time) kinds.Object
}

// Strategies are those of all built-in kinds in the release that compat imitates, by their
// keys in the store.
func Strategies(compat proto.Compat) map[string]Strategy {
	all := map[string]Strategy{}
	for _, kind := range kinds.All() {
		all[kind.GroupResource().String()] = For(kind, compat)
	}
	return all
}

// For is the strategy of a kind in the release that compat imitates. Its result may be kept
// and shared.
func For(kind kinds.Kind, compat proto.Compat) Strategy {
	common := generic{kind: kinds.Preferred(kind)}
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		return podStrategy{generic: common, compat: compat}
	case schema.GroupKind{Kind: "Node"}:
		return nodeStrategy{common}
	case schema.GroupKind{Kind: "Namespace"}:
		return namespaceStrategy{common}
	case schema.GroupKind{Kind: "Event"}, schema.GroupKind{Group: "events.k8s.io", Kind: "Event"}:
		return eventStrategy{common}
	case schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"}:
		return leaseStrategy{common}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		return newDeploymentStrategy(common)
	}
	if strategy := workloadStrategy(common); strategy != nil {
		return strategy
	}
	if strategy := plainStrategy(common); strategy != nil {
		return strategy
	}
	if strategy := policyStrategy(common); strategy != nil {
		return strategy
	}
	return common
}

// workloadStrategy is the strategy of a kind that makes Pods or keeps count of them.
func workloadStrategy(common generic) Strategy {
	switch common.kind.GroupResource().String() {
	case "replicasets.apps":
		return ruled[*appsv1.ReplicaSet]{common, replicaSetRules()}
	case "replicationcontrollers":
		return ruled[*corev1.ReplicationController]{common, replicationControllerRules()}
	case "statefulsets.apps":
		return ruled[*appsv1.StatefulSet]{common, statefulSetRules()}
	case "daemonsets.apps":
		return ruled[*appsv1.DaemonSet]{common, daemonSetRules()}
	case "jobs.batch":
		return ruled[*batchv1.Job]{common, jobRules()}
	case "cronjobs.batch":
		return ruled[*batchv1.CronJob]{common, cronJobRules()}
	case "poddisruptionbudgets.policy":
		return ruled[*policyv1.PodDisruptionBudget]{common, disruptionBudgetRules()}
	}
	return nil
}

// plainStrategy is the strategy of the other kinds with rules of their own.
func plainStrategy(common generic) Strategy {
	switch common.kind.GroupResource().String() {
	case "services":
		return ruled[*corev1.Service]{common, serviceRules()}
	case "endpoints":
		return ruled[*corev1.Endpoints]{common, endpointsRules()} //nolint:staticcheck // deprecated, and still served
	case "endpointslices.discovery.k8s.io":
		return ruled[*discoveryv1.EndpointSlice]{common, endpointSliceRules()}
	case "persistentvolumes":
		return ruled[*corev1.PersistentVolume]{common, volumeRules()}
	case "persistentvolumeclaims":
		return ruled[*corev1.PersistentVolumeClaim]{common, claimRules()}
	case "storageclasses.storage.k8s.io":
		return ruled[*storagev1.StorageClass]{common, storageClassRules()}
	case "configmaps":
		return ruled[*corev1.ConfigMap]{common, configMapRules()}
	case "secrets":
		return ruled[*corev1.Secret]{common, secretRules()}
	case "priorityclasses.scheduling.k8s.io":
		return ruled[*schedulingv1.PriorityClass]{common, priorityClassRules()}
	}
	return nil
}

// policyStrategy is the strategy of the kinds that have defaults and nothing else.
func policyStrategy(common generic) Strategy {
	switch common.kind.GroupResource().String() {
	case "networkpolicies.networking.k8s.io":
		return ruled[*networkingv1.NetworkPolicy]{common, networkPolicyRules()}
	case "rolebindings.rbac.authorization.k8s.io":
		return ruled[*rbacv1.RoleBinding]{common, roleBindingRules()}
	case "clusterrolebindings.rbac.authorization.k8s.io":
		return ruled[*rbacv1.ClusterRoleBinding]{common, clusterRoleBindingRules()}
	case "horizontalpodautoscalers.autoscaling":
		return ruled[*autoscalingv2.HorizontalPodAutoscaler]{common, autoscalerRules()}
	case "validatingwebhookconfigurations.admissionregistration.k8s.io":
		return ruled[*admissionregistrationv1.ValidatingWebhookConfiguration]{common, validatingWebhookRules()}
	case "mutatingwebhookconfigurations.admissionregistration.k8s.io":
		return ruled[*admissionregistrationv1.MutatingWebhookConfiguration]{common, mutatingWebhookRules()}
	}
	return nil
}
