// Package registry holds what the API knows of each kind: its defaults, its validation, what an
// update may not change, and which fields can be selected by. It is pure: it takes objects and
// returns objects and errors. The verbs read and write the store.
//
// A write passes through here in this order:
//
//	body or patch                           decode.go, patch.go
//	  -> BeforeCreate / BeforeUpdate        write.go: one order of steps for all kinds
//	       metadata that the server keeps   meta.go
//	       the kind's Strategy              a file per kind, over rules.go or generic.go
//	  -> the store
//
// Options of lists and watches are read in listoptions.go, fields.go and continue.go. Small
// differences between kinds are in traits.go.
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

// Strategy holds the API's rules for the objects of one kind. Objects are in the kind's preferred
// version. The methods that prepare change obj only and never old. obj then shares what it takes
// over from old, so later changes of obj must not write to the shared parts; neither may its
// encoding (the store ensures that).
type Strategy interface {
	// PrepareForCreate drops what a client may not set and sets the defaults. It is idempotent.
	PrepareForCreate(obj kinds.Object, now time.Time)
	// Validate returns everything that is wrong with a prepared object, its metadata included.
	Validate(obj kinds.Object) field.ErrorList
	// PrepareForUpdate restores what an update of this subresource ("" is the object itself) may
	// not change, and sets the defaults.
	PrepareForUpdate(obj, old kinds.Object, subresource string)
	// ValidateUpdate returns why a prepared object may not replace old.
	ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList
	// Warnings returns sentences for the client that creates obj.
	Warnings(obj kinds.Object) []string
	// Fields returns the values that field selectors see. Every kind has metadata.name, and
	// metadata.namespace if it is namespaced.
	Fields(obj kinds.Object) fields.Set
	// Graceful returns the grace in seconds of a delete that requests grace; nil requests none in
	// particular (API-11). ok is false if the kind has no graceful deletion.
	Graceful(obj kinds.Object, grace *int64) (seconds int64, ok bool)
}

// DeletePreparer is a Strategy that adds finalizers to its objects when they are deleted.
type DeletePreparer interface {
	// PrepareForDelete returns obj with the finalizers that the server adds before the first
	// DELETE; obj itself if there are none to add. obj is not changed.
	PrepareForDelete(obj kinds.Object, now time.Time) kinds.Object
}

// Strategies returns the strategies of all built-in kinds in the release that compat imitates,
// keyed as in the store.
func Strategies(compat proto.Compat) map[string]Strategy {
	all := map[string]Strategy{}
	for _, kind := range kinds.All() {
		all[kind.GroupResource().String()] = For(kind, compat)
	}
	return all
}

// For returns the strategy of a kind in the release that compat imitates. The result may be kept
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

// workloadStrategy returns the strategy of a kind that creates or counts Pods; nil for other kinds.
func workloadStrategy(common generic) Strategy {
	switch common.kind.GroupResource().String() {
	case "replicasets.apps":
		return ruleStrategy[*appsv1.ReplicaSet]{common, replicaSetRules()}
	case "replicationcontrollers":
		return ruleStrategy[*corev1.ReplicationController]{common, replicationControllerRules()}
	case "statefulsets.apps":
		return ruleStrategy[*appsv1.StatefulSet]{common, statefulSetRules()}
	case "daemonsets.apps":
		return ruleStrategy[*appsv1.DaemonSet]{common, daemonSetRules()}
	case "jobs.batch":
		return ruleStrategy[*batchv1.Job]{common, jobRules()}
	case "cronjobs.batch":
		return ruleStrategy[*batchv1.CronJob]{common, cronJobRules()}
	case "poddisruptionbudgets.policy":
		return ruleStrategy[*policyv1.PodDisruptionBudget]{common, disruptionBudgetRules()}
	}
	return nil
}

// plainStrategy returns the strategy of the other kinds with rules of their own; nil for other
// kinds.
func plainStrategy(common generic) Strategy {
	switch common.kind.GroupResource().String() {
	case "services":
		return ruleStrategy[*corev1.Service]{common, serviceRules()}
	case "endpoints":
		return ruleStrategy[*corev1.Endpoints]{common, endpointsRules()} //nolint:staticcheck // deprecated, and still served
	case "endpointslices.discovery.k8s.io":
		return ruleStrategy[*discoveryv1.EndpointSlice]{common, endpointSliceRules()}
	case "limitranges":
		return ruleStrategy[*corev1.LimitRange]{common, limitRangeRules()}
	case "persistentvolumes":
		return ruleStrategy[*corev1.PersistentVolume]{common, volumeRules()}
	case "persistentvolumeclaims":
		return ruleStrategy[*corev1.PersistentVolumeClaim]{common, claimRules()}
	case "storageclasses.storage.k8s.io":
		return ruleStrategy[*storagev1.StorageClass]{common, storageClassRules()}
	case "configmaps":
		return ruleStrategy[*corev1.ConfigMap]{common, configMapRules()}
	case "secrets":
		return ruleStrategy[*corev1.Secret]{common, secretRules()}
	case "priorityclasses.scheduling.k8s.io":
		return ruleStrategy[*schedulingv1.PriorityClass]{common, priorityClassRules()}
	}
	return nil
}

// policyStrategy returns the strategy of the kinds that have defaults only; nil for other kinds.
func policyStrategy(common generic) Strategy {
	switch common.kind.GroupResource().String() {
	case "networkpolicies.networking.k8s.io":
		return ruleStrategy[*networkingv1.NetworkPolicy]{common, networkPolicyRules()}
	case "rolebindings.rbac.authorization.k8s.io":
		return ruleStrategy[*rbacv1.RoleBinding]{common, roleBindingRules()}
	case "clusterrolebindings.rbac.authorization.k8s.io":
		return ruleStrategy[*rbacv1.ClusterRoleBinding]{common, clusterRoleBindingRules()}
	case "horizontalpodautoscalers.autoscaling":
		return ruleStrategy[*autoscalingv2.HorizontalPodAutoscaler]{common, autoscalerRules()}
	case "validatingwebhookconfigurations.admissionregistration.k8s.io":
		return ruleStrategy[*admissionregistrationv1.ValidatingWebhookConfiguration]{common, validatingWebhookRules()}
	case "mutatingwebhookconfigurations.admissionregistration.k8s.io":
		return ruleStrategy[*admissionregistrationv1.MutatingWebhookConfiguration]{common, mutatingWebhookRules()}
	}
	return nil
}
