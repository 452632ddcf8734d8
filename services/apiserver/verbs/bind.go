package verbs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// bind assigns a pod to a node. An assigned pod cannot be bound again (API-80).
func (a *API) bind(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.CreateOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := invalidOptions("CreateOptions", validation.ValidateCreateOptions(&opts)); err != nil {
		return nil, err
	}
	wanted, warnings, err := decodeBinding(req, opts.FieldValidation)
	if err != nil {
		return nil, err
	}
	wanted, more, err := callHooksOnBody(ctx, a, req, wanted, len(opts.DryRun) > 0)
	if err != nil {
		return nil, err
	}
	if err := checkBinding(req, wanted); err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	for old := a.Store.Snapshot().Get(req.key()); ; {
		if old == nil {
			return nil, req.notFound()
		}
		bound, err := assign(req, old, wanted)
		if err != nil {
			return nil, err
		}
		if len(opts.DryRun) > 0 {
			return successResponse(http.StatusCreated, nil, warnings)
		}
		_, err = a.commit(ctx, req, store.Write{Key: old.Key, Expect: old.Revision, Object: bound})
		if conflict, lost := errors.AsType[*store.ConflictError](err); lost {
			old = conflict.Have
			continue
		}
		if err != nil {
			return nil, err
		}
		return successResponse(http.StatusCreated, nil, warnings)
	}
}

// decodeBinding returns the Binding in a request.
func decodeBinding(req Request, fieldValidation string) (*corev1.Binding, []string, error) {
	kind := kinds.Kind{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Binding"), Resource: "bindings", Namespaced: true,
	}
	obj, warnings, err := registry.DecodeBody(kind, req.Envelope.GetContentType(), req.Envelope.GetBody(), fieldValidation)
	if err != nil {
		return nil, nil, err
	}
	wanted, ok := obj.(*corev1.Binding)
	if !ok {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", obj))
	}
	if err := registry.MatchRequest(kind, wanted, req.Namespace, ""); err != nil {
		return nil, nil, err
	}
	return wanted, warnings, nil
}

// checkBinding refuses a Binding, after the webhooks, that names another pod or no node.
func checkBinding(req Request, wanted *corev1.Binding) error {
	if wanted.Name != req.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if errs := validateTarget(wanted.Target); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Binding"}, wanted.Name, errs)
	}
	return nil
}

func validateTarget(target corev1.ObjectReference) (errs field.ErrorList) {
	at := field.NewPath("target")
	if target.Kind != "" && target.Kind != "Node" {
		errs = append(errs, field.NotSupported(at.Child("kind"), target.Kind, []string{"Node", "<empty>"}))
	}
	if target.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	return errs
}

// assign returns the pod with its node, or an error if it cannot be assigned.
func assign(req Request, old *store.Record, wanted *corev1.Binding) (*corev1.Pod, error) {
	pod, ok := old.Object.(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%s is a %T", old.Key, old.Object))
	}
	if err := checkBindingPreconditions(req, pod, wanted); err != nil {
		return nil, err
	}
	if err := checkAssignable(pod); err != nil {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name, err)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = wanted.Target.Name
	if len(wanted.Annotations) > 0 {
		if bound.Annotations == nil {
			bound.Annotations = map[string]string{}
		}
		maps.Copy(bound.Annotations, wanted.Annotations)
	}
	setScheduled(bound, metav1.Unix(req.Now.Unix(), 0))
	return bound, nil
}

// checkBindingPreconditions compares the pod that the scheduler decided about with the stored one.
func checkBindingPreconditions(req Request, pod *corev1.Pod, wanted *corev1.Binding) error {
	if err := registry.CheckUID(req.Kind, wanted, pod); err != nil {
		return err
	}
	if version := wanted.ResourceVersion; version != "" && version != pod.ResourceVersion {
		return apierrors.NewConflict(req.Kind.GroupResource(), pod.Name, fmt.Errorf(
			"StorageError: invalid object, Code: 4, Key: /registry/%s/%s/%s, ResourceVersion: 0, AdditionalErrorMsg: "+
				"Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s",
			req.Kind.Resource, pod.Namespace, pod.Name, version, pod.ResourceVersion))
	}
	return nil
}

func checkAssignable(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}

// setScheduled makes the condition PodScheduled true. Its transition time is now, unless it was
// true before.
func setScheduled(pod *corev1.Pod, now metav1.Time) {
	podcondition.Set(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, now.Time)
}
