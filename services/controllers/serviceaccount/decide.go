// Package serviceaccount gives every namespace the default account of its pods.
package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the account's.
const Name = "default"

// Decide returns the account to create in a namespace; nil if it exists or the namespace is
// terminating.
func Decide(namespace *corev1.Namespace, have *corev1.ServiceAccount) *corev1.ServiceAccount {
	if have != nil || namespace.DeletionTimestamp != nil || namespace.Status.Phase != corev1.NamespaceActive {
		return nil
	}
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: Name}}
}
