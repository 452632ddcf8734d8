package proto

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// ScopeFor returns the scope of a watch of resource in namespace (empty for all) under the
// selectors of options. Selectors are in canonical form, so that equal selectors form one group.
// Watcher and apiserver both compute the scope and so agree on one subject. Errors are those of a
// bad request.
func ScopeFor(resource, namespace string, options *metav1.ListOptions) (WatchScope, error) {
	if options.LabelSelector == "" && options.FieldSelector == "" {
		return WatchScope{Resource: resource, Namespace: namespace}, nil
	}
	byLabel, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return WatchScope{}, apierrors.NewBadRequest(fmt.Sprintf("unable to parse labelSelector %q: %v", options.LabelSelector, err))
	}
	byField, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return WatchScope{}, apierrors.NewBadRequest(fmt.Sprintf("unable to parse fieldSelector %q: %v", options.FieldSelector, err))
	}
	return WatchScope{
		Resource: resource, Namespace: namespace,
		LabelSelector: byLabel.String(), FieldSelector: byField.String(),
	}, nil
}

// SubresourceRenew requests, with the verb watch and the same options, that a group is kept. The
// answer is a bare Response.
const SubresourceRenew = "renew"
