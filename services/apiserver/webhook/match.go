package webhook

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// Match is a hook that matches an event, and the version in which it does.
type Match struct {
	*Hook
	Kind kinds.Kind
}

// Matches reports whether a hook is to be called for an event; versions are those in which the kind
// is served. It is pure. The error is about the hook's selectors or the event's namespace. It is
// returned only if the rules match, as in upstream's ShouldCallHook.
func (h *Hook) Matches(e Event, versions []kinds.Kind) (Match, bool, error) {
	if isExempt(e) {
		return Match{}, false, nil
	}
	kind, ok := h.matchRule(e, versions)
	if !ok {
		return Match{}, false, nil
	}
	if h.selectorErr != nil {
		return Match{}, false, apierrors.NewInternalError(h.selectorErr)
	}
	if !h.selectsObject(e) {
		return Match{}, false, nil
	}
	ok, err := h.selectsNamespace(e)
	return Match{Hook: h, Kind: kind}, ok, err
}

// isExempt reports whether an event is about admission configuration. No hook is called for it,
// because a hook could block every write, also the one that repairs the hook.
func isExempt(e Event) bool {
	if e.Kind.Group != admissionregistrationv1.GroupName {
		return false
	}
	switch e.Kind.Resource {
	case "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "validatingadmissionpolicies",
		"validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
		return true
	}
	return false
}

// matchRule finds a rule that names the requested kind. If there is none and matchPolicy is
// Equivalent, it finds one that names the kind in another version.
func (h *Hook) matchRule(e Event, versions []kinds.Kind) (kinds.Kind, bool) {
	for i := range h.Rules {
		if ruleApplies(&h.Rules[i], e, e.Kind) {
			return e.Kind, true
		}
	}
	if h.MatchPolicy != nil && *h.MatchPolicy == admissionregistrationv1.Exact {
		return kinds.Kind{}, false
	}
	for i := range h.Rules {
		for _, kind := range versions {
			if kind.Version != e.Kind.Version && ruleApplies(&h.Rules[i], e, kind) {
				return kind, true
			}
		}
	}
	return kinds.Kind{}, false
}

// ruleApplies is upstream's rules.Matcher.
func ruleApplies(r *admissionregistrationv1.RuleWithOperations, e Event, kind kinds.Kind) bool {
	operation := admissionregistrationv1.OperationType(e.admissionOperation())
	return inScope(r.Scope, e) &&
		(slices.Contains(r.Operations, admissionregistrationv1.OperationAll) || slices.Contains(r.Operations, operation)) &&
		exactOrAny(r.APIGroups, kind.Group) && exactOrAny(r.APIVersions, kind.Version) &&
		slices.ContainsFunc(r.Resources, func(pattern string) bool {
			resource, subresource, _ := strings.Cut(pattern, "/")
			return (resource == "*" || resource == kind.Resource) && (subresource == "*" || subresource == e.Subresource)
		})
}

func exactOrAny(listed []string, value string) bool {
	return slices.Contains(listed, "*") || slices.Contains(listed, value)
}

// inScope treats namespaces as cluster-scoped.
func inScope(scope *admissionregistrationv1.ScopeType, e Event) bool {
	if scope == nil || *scope == admissionregistrationv1.AllScopes {
		return true
	}
	return (*scope == admissionregistrationv1.NamespacedScope) == e.Kind.Namespaced
}

// selectsObject matches the object selector with the new and the old object: either is enough.
func (h *Hook) selectsObject(e Event) bool {
	if h.objects.Empty() {
		return true
	}
	return e.Object != nil && h.objects.Matches(labels.Set(e.Object.GetLabels())) ||
		e.Old != nil && h.objects.Matches(labels.Set(e.Old.GetLabels()))
}

// selectsNamespace matches the namespace selector with the object's namespace, or with the object
// if it is a namespace.
func (h *Hook) selectsNamespace(e Event) (bool, error) {
	isNamespace := e.Kind.GroupResource() == corev1.Resource("namespaces")
	if h.namespaces.Empty() || !e.Kind.Namespaced && !isNamespace {
		return true, nil
	}
	if isNamespace {
		of := e.Object
		if of == nil || e.Subresource != "" || e.Verb == proto.VerbDelete {
			of = e.Old
		}
		return of != nil && h.namespaces.Matches(labels.Set(of.GetLabels())), nil
	}
	if e.NamespaceObject == nil {
		return false, apierrors.NewNotFound(corev1.Resource("namespaces"), e.Namespace)
	}
	return h.namespaces.Matches(labels.Set(e.NamespaceObject.Labels)), nil
}
