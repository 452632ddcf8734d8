package verbs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/admission"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// The lifetimes of a token, in seconds.
const (
	defaultLifetime = 60 * 60
	minLifetime     = 10 * 60
	maxLifetime     = 1 << 32
)

// token answers a TokenRequest. The token has the usual form but grants nothing: it is not signed,
// and no podfall process accepts it.
func (a *API) token(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.CreateOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := invalidOptions("CreateOptions", validation.ValidateCreateOptions(&opts)); err != nil {
		return nil, err
	}
	wanted, warnings, err := decodeTokenRequest(req, opts.FieldValidation)
	if err != nil {
		return nil, err
	}
	account := a.Store.Snapshot().Get(req.key())
	if account == nil {
		return nil, req.notFound()
	}
	wanted.Name, wanted.Namespace = req.Name, req.Namespace
	wanted, more, err := callHooksOnBody(ctx, a, req, wanted, len(opts.DryRun) > 0)
	if err != nil {
		return nil, err
	}
	if err := admission.AdmitToken(req.Attributes, wanted, a.boundPod(wanted)); err != nil {
		return nil, err
	}
	if err := checkTokenLifetime(req, wanted); err != nil {
		return nil, err
	}
	warnings = append(warnings, more...)
	wanted.CreationTimestamp = metav1.Unix(req.Now.Unix(), 0)
	expires := req.Now.Add(time.Duration(*wanted.Spec.ExpirationSeconds) * time.Second)
	token, err := inertToken(wanted, account.Object, req.Now, expires)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	wanted.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.Unix(expires.Unix(), 0)}
	return unstoredResponse(http.StatusCreated, tokenKind(), wanted, warnings)
}

// boundPod returns the pod to which a token is to be bound; nil if there is none.
func (a *API) boundPod(wanted *authenticationv1.TokenRequest) *corev1.Pod {
	ref := wanted.Spec.BoundObjectRef
	if ref == nil {
		return nil
	}
	record := a.Store.Snapshot().Get(store.Key{Resource: "pods", Namespace: wanted.Namespace, Name: ref.Name})
	if record == nil {
		return nil
	}
	pod, _ := record.Object.(*corev1.Pod)
	return pod
}

func tokenKind() kinds.Kind {
	return kinds.Kind{
		GroupVersionKind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), Resource: "tokenrequests", Namespaced: true,
	}
}

// decodeTokenRequest returns the TokenRequest in a request, with its defaults.
func decodeTokenRequest(req Request, fieldValidation string) (*authenticationv1.TokenRequest, []string, error) {
	obj, warnings, err := registry.DecodeBody(
		tokenKind(), req.Envelope.GetContentType(), req.Envelope.GetBody(), fieldValidation)
	if err != nil {
		return nil, nil, err
	}
	wanted, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest object: %T", obj))
	}
	if wanted.Name != "" && wanted.Name != req.Name {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf(
			"requested ServiceAccount name %q does not match name in URL (%q)", wanted.Name, req.Name))
	}
	if err := registry.MatchRequest(tokenKind(), wanted, req.Namespace, ""); err != nil {
		return nil, nil, err
	}
	if wanted.Spec.ExpirationSeconds == nil {
		wanted.Spec.ExpirationSeconds = new(int64(defaultLifetime))
	}
	return wanted, warnings, nil
}

// checkTokenLifetime refuses a TokenRequest, after the webhooks, with an invalid lifetime.
func checkTokenLifetime(req Request, wanted *authenticationv1.TokenRequest) error {
	var errs field.ErrorList
	at := field.NewPath("spec", "expirationSeconds")
	if wanted.Spec.ExpirationSeconds == nil {
		errs = append(errs, field.Required(at, ""))
		return apierrors.NewInvalid(tokenKind().GroupKind(), req.Name, errs)
	}
	switch seconds := *wanted.Spec.ExpirationSeconds; {
	case seconds < minLifetime:
		errs = append(errs, field.Invalid(at, seconds, "may not specify a duration less than 10 minutes"))
	case seconds > maxLifetime:
		errs = append(errs, field.Invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(tokenKind().GroupKind(), req.Name, errs)
	}
	return nil
}

// inertToken returns a JSON web token of the account with the algorithm "none".
func inertToken(wanted *authenticationv1.TokenRequest, account kinds.Object, now, expires time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{
		"aud": wanted.Spec.Audiences, "iss": "podfall", "iat": now.Unix(), "exp": expires.Unix(),
		"sub": "system:serviceaccount:" + wanted.Namespace + ":" + wanted.Name,
		"kubernetes.io": map[string]any{
			"namespace":      wanted.Namespace,
			"serviceaccount": map[string]any{"name": wanted.Name, "uid": account.GetUID()},
		},
	})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(claims) + ".", nil
}
