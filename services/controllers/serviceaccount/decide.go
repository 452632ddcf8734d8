// Package serviceaccount gives every namespace the account by which its pods are known unless
// they say otherwise.
package serviceaccount

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Name is the account's.
const Name = "default"

// Decide is the account to make in a namespace, nil when there is nothing to do: it is there, or
// the namespace is on its way out.
func Decide(namespace *corev1.Namespace, have *corev1.ServiceAccount) *corev1.ServiceAccount {
	if have != nil || namespace.DeletionTimestamp != nil || namespace.Status.Phase != corev1.NamespaceActive {
		return nil
	}
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: Name}}
}
