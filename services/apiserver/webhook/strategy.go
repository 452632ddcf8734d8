package webhook

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/registry"
)

// Strategy returns the strategy of a kind. For the two kinds of webhook configurations it adds
// upstream's validation to common, which has their defaults.
func Strategy(kind kinds.Kind, common registry.Strategy) registry.Strategy {
	switch kind.GroupResource().String() {
	case MutatingResource, ValidatingResource:
		return configurationStrategy{common}
	}
	return common
}

type configurationStrategy struct{ registry.Strategy }

func (s configurationStrategy) Validate(obj kinds.Object) field.ErrorList {
	return append(s.Strategy.Validate(obj), validate(obj)...)
}

func (s configurationStrategy) ValidateUpdate(obj, old kinds.Object, subresource string) field.ErrorList {
	return append(s.Strategy.ValidateUpdate(obj, old, subresource), validate(obj)...)
}

// validate returns everything that is wrong with the webhooks of a configuration, in upstream's
// words (its ValidateMutatingWebhookConfiguration and ValidateValidatingWebhookConfiguration).
func validate(obj kinds.Object) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("webhooks")
	seen := map[string]bool{}
	mutating, _ := obj.(*admissionregistrationv1.MutatingWebhookConfiguration)
	for i, h := range hooksOf(obj) {
		where := at.Index(i)
		errs = append(errs, h.validate(where)...)
		if seen[h.Name] {
			errs = append(errs, field.Duplicate(where.Child("name"), h.Name))
		}
		seen[h.Name] = true
		if mutating == nil {
			continue
		}
		if policy := mutating.Webhooks[i].ReinvocationPolicy; policy != nil {
			errs = append(errs, oneOf(where.Child("reinvocationPolicy"), *policy,
				admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
		}
	}
	return errs
}

func oneOf[T ~string](at *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

func (h *Hook) validate(at *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(at.Child("name"), h.Name)
	errs = append(errs, h.validateVersions(at.Child("admissionReviewVersions"))...)
	for i := range h.Rules {
		errs = append(errs, validateRule(&h.Rules[i], at.Child("rules").Index(i))...)
	}
	if h.FailurePolicy != nil {
		errs = append(errs, oneOf(at.Child("failurePolicy"), *h.FailurePolicy, admissionregistrationv1.Fail, admissionregistrationv1.Ignore)...)
	}
	if h.MatchPolicy != nil {
		errs = append(errs, oneOf(at.Child("matchPolicy"), *h.MatchPolicy, admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	if h.SideEffects == nil {
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	} else {
		errs = append(errs, oneOf(at.Child("sideEffects"), *h.SideEffects,
			admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun)...)
	}
	if h.TimeoutSeconds != nil && (*h.TimeoutSeconds < 1 || *h.TimeoutSeconds > 30) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *h.TimeoutSeconds, "the timeout value must be between 1 and 30 seconds"))
	}
	opts := metavalidation.LabelSelectorValidationOptions{}
	errs = append(errs, metavalidation.ValidateLabelSelector(h.NamespaceSelector, opts, at.Child("namespaceSelector"))...)
	errs = append(errs, metavalidation.ValidateLabelSelector(h.ObjectSelector, opts, at.Child("objectSelector"))...)
	errs = append(errs, validateClient(&h.ClientConfig, at.Child("clientConfig"))...)
	return append(errs, h.validateConditions(at.Child("matchConditions"))...)
}

func (h *Hook) validateVersions(at *field.Path) field.ErrorList {
	versions := h.AdmissionReviewVersions
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of v1, v1beta1")}
	}
	if !slices.Contains(versions, admissionv1.SchemeGroupVersion.Version) {
		return field.ErrorList{field.Invalid(at, versions, "must include v1, the one that podfall sends")}
	}
	return nil
}

func validateRule(r *admissionregistrationv1.RuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(at.Child("operations"), ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionregistrationv1.OperationAll) {
		errs = append(errs, field.Invalid(at.Child("operations"), r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i, operation := range r.Operations {
		errs = append(errs, oneOf(at.Child("operations").Index(i), operation, admissionregistrationv1.OperationAll,
			admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Delete, admissionregistrationv1.Update)...)
	}
	for name, values := range map[string][]string{"apiGroups": r.APIGroups, "apiVersions": r.APIVersions} {
		switch {
		case len(values) == 0:
			errs = append(errs, field.Required(at.Child(name), ""))
		case len(values) > 1 && slices.Contains(values, "*"):
			errs = append(errs, field.Invalid(at.Child(name), values, "if '*' is present, must not specify other "+map[string]string{
				"apiGroups": "API groups", "apiVersions": "API versions",
			}[name]))
		}
	}
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(at.Child("resources"), ""))
	}
	for i, resource := range r.Resources {
		if resource == "" {
			errs = append(errs, field.Required(at.Child("resources").Index(i), ""))
		}
		if resource == "*/*" && len(r.Resources) > 1 {
			errs = append(errs, field.Invalid(at.Child("resources"), r.Resources, "if '*/*' is present, must not specify other resources"))
		}
	}
	if r.Scope != nil {
		errs = append(errs, oneOf(at.Child("scope"), *r.Scope,
			admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope)...)
	}
	return errs
}

func validateClient(client *admissionregistrationv1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case client.URL != nil:
		return validateURL(*client.URL, at.Child("url"))
	}
	var errs field.ErrorList
	for name, value := range map[string]string{"name": client.Service.Name, "namespace": client.Service.Namespace} {
		if value == "" {
			errs = append(errs, field.Required(at.Child("service", name), "service "+name+" is required"))
		}
	}
	if port := client.Service.Port; port != nil && (*port < 1 || *port > 65535) {
		errs = append(errs, field.Invalid(at.Child("service", "port"), *port, "port is not valid: must be between 1 and 65535, inclusive"))
	}
	if path := client.Service.Path; path != nil && !strings.HasPrefix(*path, "/") {
		errs = append(errs, field.Invalid(at.Child("service", "path"), *path, "must start with a '/'"))
	}
	return errs
}

// validateURL is upstream's ValidateWebhookURL.
func validateURL(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	parsed, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if parsed.Scheme != "https" {
		errs = append(errs, field.Invalid(at, parsed.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if parsed.Host == "" {
		errs = append(errs, field.Invalid(at, parsed.Host, "host must be specified"+form))
	}
	if parsed.User != nil {
		errs = append(errs, field.Invalid(at, parsed.User.String(), "user information is not permitted in the URL"))
	}
	if parsed.Fragment != "" {
		errs = append(errs, field.Invalid(at, parsed.Fragment, "fragments are not permitted in the URL"))
	}
	if parsed.RawQuery != "" {
		errs = append(errs, field.Invalid(at, parsed.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// validateConditions compiles the conditions, so that a bad one is refused instead of failing
// later.
func (h *Hook) validateConditions(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	const most = 64
	if len(h.MatchConditions) > most {
		errs = append(errs, field.TooMany(at, len(h.MatchConditions), most))
	}
	seen := map[string]bool{}
	for i, c := range h.MatchConditions {
		where := at.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(where.Child("name"), ""))
		} else if wrong := validation.IsQualifiedName(c.Name); len(wrong) > 0 {
			errs = append(errs, field.Invalid(where.Child("name"), c.Name, strings.Join(wrong, ",")))
		}
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(where.Child("name"), c.Name))
		}
		seen[c.Name] = true
		if strings.TrimSpace(c.Expression) == "" {
			errs = append(errs, field.Required(where.Child("expression"), ""))
			continue
		}
		if _, err := compileConditions(h.MatchConditions[i : i+1]); err != nil {
			errs = append(errs, field.Invalid(where.Child("expression"), c.Expression, fmt.Sprint(conditionCause(err))))
		}
	}
	return errs
}

func conditionCause(err error) error {
	if named, ok := err.(*conditionError); ok { //nolint:errorlint // compileConditions returns it bare
		return named.err
	}
	return err
}
