package proto

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// ScopeFor is the scope of a watch of resource in namespace (empty for all) under the
// selectors of options, in the canonical form that makes equal selectors one group.
// Watcher and apiserver both derive it, so that they meet on one subject. Its errors
// are those of a bad request.
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

// SubresourceRenew is what the verb watch is asked for, with the same options, to keep
// a group alive; it is answered with a bare Response.
const SubresourceRenew = "renew"
