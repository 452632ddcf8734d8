package client_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/podapi"
)

// matches reports whether an object belongs to a collection under selectors.
func matches(collection podapi.Target, opts metav1.ListOptions, t podapi.Target, obj runtime.Object) (bool, error) {
	if collection.Kind.GroupResource() != t.Kind.GroupResource() || (collection.Namespace != "" && collection.Namespace != t.Namespace) {
		return false, nil
	}
	byLabel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return false, apierrors.NewBadRequest(err.Error())
	}
	known := fieldsOf(obj)
	for _, requirement := range byField.Requirements() {
		if !known.Has(requirement.Field) {
			return false, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", requirement.Field))
		}
	}
	meta := obj.(metav1.Object) //nolint:errcheck,forcetypeassert // only objects are stored
	return byLabel.Matches(labels.Set(meta.GetLabels())) && byField.Matches(known), nil
}

func fieldsOf(obj runtime.Object) fields.Set {
	meta := obj.(metav1.Object) //nolint:errcheck,forcetypeassert // only objects are stored
	set := fields.Set{"metadata.name": meta.GetName(), "metadata.namespace": meta.GetNamespace()}
	switch typed := obj.(type) {
	case *corev1.Pod:
		set["spec.nodeName"] = typed.Spec.NodeName
		set["status.phase"] = string(typed.Status.Phase)
	case *corev1.Event:
		about := typed.InvolvedObject
		set["involvedObject.name"] = about.Name
		set["involvedObject.namespace"] = about.Namespace
		set["involvedObject.kind"] = about.Kind
		set["involvedObject.uid"] = string(about.UID)
		set["involvedObject.apiVersion"] = about.APIVersion
	}
	return set
}
