package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/podfall/podfall/services/apiserver/admission"
)

// newReview returns the review that a hook gets for an event.
func (m Match) newReview(e Event, uid types.UID) (*admissionv1.AdmissionReview, error) {
	request := &admissionv1.AdmissionRequest{
		UID:             uid,
		Kind:            metav1.GroupVersionKind(e.bodyKind(m.Kind)),
		Resource:        metav1.GroupVersionResource(m.Kind.GroupVersionResource()),
		SubResource:     e.Subresource,
		RequestKind:     new(metav1.GroupVersionKind(e.bodyKind(e.Kind))),
		RequestResource: new(metav1.GroupVersionResource(e.Kind.GroupVersionResource())),

		RequestSubResource: e.Subresource,
		Name:               e.Name,
		Namespace:          e.Namespace,
		Operation:          e.admissionOperation(),
		UserInfo:           admission.UserOf(e.Identity),
		DryRun:             new(e.DryRun),
	}
	if e.Kind.GroupResource() == corev1.Resource("namespaces") {
		request.Namespace = e.Name // as upstream's path has it
	}
	var err error
	if request.Object.Raw, err = encodeAs(e.Object, e.bodyKind(m.Kind)); err != nil {
		return nil, err
	}
	if request.OldObject.Raw, err = encodeAs(e.Old, e.bodyKind(m.Kind)); err != nil {
		return nil, err
	}
	if request.Options.Raw, err = optionsJSON(e.Options); err != nil {
		return nil, err
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request:  request,
	}, nil
}

// optionsJSON encodes a verb's options with their kind and version.
func optionsJSON(options any) ([]byte, error) {
	var kind string
	switch options.(type) {
	case nil:
		return nil, nil
	case metav1.CreateOptions:
		kind = "CreateOptions"
	case metav1.UpdateOptions:
		kind = "UpdateOptions"
	case metav1.PatchOptions:
		kind = "PatchOptions"
	case metav1.DeleteOptions:
		kind = "DeleteOptions"
	default:
		return nil, fmt.Errorf("%T are no options", options)
	}
	data, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	members, err := decodeObject(data)
	if err != nil {
		return nil, err
	}
	members["kind"], members["apiVersion"] = kind, "meta.k8s.io/v1"
	return json.Marshal(members)
}

// decodeObject decodes a JSON object into maps; whole numbers become int64.
func decodeObject(data []byte) (map[string]any, error) {
	var members map[string]any
	err := utiljson.Unmarshal(data, &members)
	return members, err
}

// Verdict is the meaning of a hook's answer.
type Verdict struct {
	// Patch is a JSON patch of the object; empty if the object stays unchanged.
	Patch    []byte
	Warnings []string
	// Refused is the hook's refusal; nil if the hook allows the event.
	Refused error

	// called says that the hook was called.
	called bool
}

var (
	errNoResponse     = errors.New("webhook response was absent")
	errNoPatchType    = errors.New("webhook returned response.patch but not response.patchType")
	errNoPatch        = errors.New("webhook returned response.patchType but not response.patch")
	errPatch          = errors.New("validating webhook may not return response.patch")
	errPatchType      = errors.New("validating webhook may not return response.patchType")
	errReviewVersions = errors.New("webhook does not accept known AdmissionReview versions (v1)")
)

// parseResponse checks and decodes an answer. It is pure. The error says why the answer is invalid.
func (h *Hook) parseResponse(uid types.UID, answer *admissionv1.AdmissionReview) (Verdict, error) {
	response := answer.Response
	if response == nil {
		return Verdict{}, errNoResponse
	}
	if response.UID != uid {
		return Verdict{}, fmt.Errorf("expected response.uid=%q, got %q", uid, response.UID)
	}
	if want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"); answer.GroupVersionKind() != want {
		return Verdict{}, fmt.Errorf("expected webhook response of %s, got %s", want, answer.GroupVersionKind())
	}
	if err := h.checkPatch(response); err != nil {
		return Verdict{}, err
	}
	verdict := Verdict{Warnings: response.Warnings, Patch: response.Patch}
	if bytes.Equal(bytes.TrimSpace(response.Patch), []byte("[]")) {
		verdict.Patch = nil
	}
	if !response.Allowed {
		verdict.Refused = deniedError(h.Name, response.Result)
	}
	return verdict, nil
}

func (h *Hook) checkPatch(response *admissionv1.AdmissionResponse) error {
	switch {
	case !h.Mutating && len(response.Patch) > 0:
		return errPatch
	case !h.Mutating && response.PatchType != nil:
		return errPatchType
	case len(response.Patch) > 0 && response.PatchType == nil:
		return errNoPatchType
	case len(response.Patch) == 0 && response.PatchType != nil:
		return errNoPatch
	case response.PatchType != nil && *response.PatchType != admissionv1.PatchTypeJSONPatch:
		return fmt.Errorf("unsupported patch type %q", *response.PatchType)
	}
	return nil
}

// deniedError returns a hook's status in upstream's words (its ToStatusErr).
func deniedError(name string, result *metav1.Status) error {
	status := metav1.Status{}
	if result != nil {
		status = *result
	}
	const codes = 1000 // HTTP has three digits for them, and no server writes more
	if status.Code < http.StatusBadRequest || status.Code >= codes {
		status.Code = http.StatusBadRequest
	}
	if status.Status == "" || status.Status == metav1.StatusSuccess {
		status.Status = metav1.StatusFailure
	}
	denied := fmt.Sprintf("admission webhook %q denied the request", name)
	switch {
	case status.Message != "":
		status.Message = denied + ": " + status.Message
	case status.Reason != "":
		status.Message = denied + ": " + string(status.Reason)
	default:
		status.Message = denied + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// checkCallable says why a hook cannot be called for an event; nil if it can.
func (h *Hook) checkCallable(e Event) error {
	if e.DryRun {
		class := admissionregistrationv1.SideEffectClassUnknown
		if h.SideEffects != nil {
			class = *h.SideEffects
		}
		if class != admissionregistrationv1.SideEffectClassNone && class != admissionregistrationv1.SideEffectClassNoneOnDryRun {
			return apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.Name))
		}
	}
	if !slices.Contains(h.AdmissionReviewVersions, admissionv1.SchemeGroupVersion.Version) {
		return &CallError{Webhook: h.Name, Err: fmt.Errorf("could not create admission objects: %w", errReviewVersions)}
	}
	return nil
}

// CallError says that a hook could not be called, or did not answer.
type CallError struct {
	Webhook string
	Err     error
}

func (e *CallError) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", e.Webhook, e.Err)
}

func (e *CallError) Unwrap() error { return e.Err }

// applyFailurePolicy returns what an error of a hook means for the request: nil if the failure
// policy ignores the error.
func (h *Hook) applyFailurePolicy(err error) error {
	failed, ok := errors.AsType[*CallError](err)
	switch {
	case !ok:
		return err
	case h.ignoresFailure():
		return nil
	}
	return apierrors.NewInternalError(failed)
}
