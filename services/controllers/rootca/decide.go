// Package rootca publishes the CA of the gateway's certificate in every namespace, as the ConfigMap
// kube-root-ca.crt, for pods that connect to the API. decide.go plans the ConfigMap; controller.go
// reads and writes.
package rootca

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the ConfigMap's, and Key that of its only entry.
const (
	// Name is the ConfigMap's name, and Key the name of its only entry.
	Name = "kube-root-ca.crt"
	Key  = "ca.crt"
)

// The annotation that describes the ConfigMap.
const (
	descriptionKey = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as " +
		"the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Decide returns the ConfigMap to write; nil if have is right or the namespace is terminating. If
// have is nil the ConfigMap is to be created (syncNamespace).
func Decide(namespace *corev1.Namespace, have *corev1.ConfigMap, authority string) *corev1.ConfigMap {
	if namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	data := map[string]string{Key: authority}
	if have == nil {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: Name, Annotations: map[string]string{descriptionKey: description}},
			Data:       data,
		}
	}
	if maps.Equal(have.Data, data) && have.Annotations[descriptionKey] != "" {
		return nil
	}
	wanted := have.DeepCopy()
	wanted.Data = data
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, descriptionKey, description)
	return wanted
}
