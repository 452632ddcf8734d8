// Package webhook calls the admission webhooks that the stored MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations name.
//
//	store -> Catalog          catalog.go: the hooks, in the order in which they are called
//	Event                     event.go: what is about to happen, as a hook sees it
//	  -> Matches              match.go, condition.go: which hooks are called (pure)
//	  -> review, Verdict      review.go: the question, and what an answer means (pure)
//	Dispatcher                dispatch.go calls one hook after the other, or all at once;
//	                          call.go is the only file that opens connections
//
// Hooks are called for a DELETE as well (API-07), also for the kubelet's last one.
//
// # Blocking
//
// A call may take its timeoutSeconds in wall-clock time, because the webhook runs outside of the
// cluster's clock. Only its own request waits for it; no lock is held meanwhile.
//
// # Errors
//
// A refusal is the status that the hook returned, with upstream's words in front. If a hook cannot
// be reached or returns no valid answer, its failurePolicy decides: it is ignored, or the request
// fails with a 500.
package webhook

import (
	"cmp"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podfall/podfall/proto/kinds"
)

// Hook is one webhook of a configuration, ready to be matched. It is immutable.
type Hook struct {
	admissionregistrationv1.ValidatingWebhook

	// Configuration is the name of the object that defines the hook.
	Configuration string
	// Mutating says that the hook may change the object.
	Mutating bool
	// Reinvoke says that the hook is called again if later hooks have changed its object.
	Reinvoke bool

	namespaces, objects labels.Selector
	// selectorErr says why the selectors cannot be parsed; nil if they can.
	selectorErr error
	// conditions compiles the matchConditions when they are first needed.
	conditions func() ([]condition, error)
}

// Timeout is how long a call may take, in wall-clock time.
func (h *Hook) Timeout() time.Duration {
	const usual = 10
	if h.TimeoutSeconds == nil {
		return usual * time.Second
	}
	return time.Duration(*h.TimeoutSeconds) * time.Second
}

// ignoresFailure reports whether the failure policy is Ignore.
func (h *Hook) ignoresFailure() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionregistrationv1.Ignore
}

// hooksOf returns the hooks of a configuration, in its order.
func hooksOf(obj kinds.Object) []*Hook {
	var hooks []*Hook
	switch configuration := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range configuration.Webhooks {
			hooks = append(hooks, newHook(configuration.Name, w))
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range configuration.Webhooks {
			h := newHook(configuration.Name, admissionregistrationv1.ValidatingWebhook{
				Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
				MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
				SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
				AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
			})
			h.Mutating = true
			h.Reinvoke = w.ReinvocationPolicy != nil && *w.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy
			hooks = append(hooks, h)
		}
	}
	return hooks
}

func newHook(configuration string, w admissionregistrationv1.ValidatingWebhook) *Hook {
	h := &Hook{ValidatingWebhook: w, Configuration: configuration}
	var badNamespaces, badObjects error
	h.namespaces, badNamespaces = parseSelector(w.NamespaceSelector)
	h.objects, badObjects = parseSelector(w.ObjectSelector)
	h.selectorErr = cmp.Or(badNamespaces, badObjects)
	h.conditions = sync.OnceValues(func() ([]condition, error) { return compileConditions(w.MatchConditions) })
	return h
}

// parseSelector returns a selector that matches everything if s is nil.
func parseSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// sortHooks returns hooks in the order in which they are called: by the names of their
// configurations, and in each configuration by position.
func sortHooks(byConfiguration map[string][]*Hook) []*Hook {
	var all []*Hook
	names := make([]string, 0, len(byConfiguration))
	for name := range byConfiguration {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		all = append(all, byConfiguration[name]...)
	}
	return all
}
