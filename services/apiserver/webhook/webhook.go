// Package webhook calls admission webhooks: those that MutatingWebhookConfigurations and
// ValidatingWebhookConfigurations in the store name.
//
//	store -> Catalog          catalog.go: the hooks, in the order in which they are called
//	Event                     event.go: what is about to happen, as a hook is told of it
//	  -> Select               match.go, condition.go: which hooks want to know (pure)
//	  -> review, Verdict      review.go: the question, and what an answer means (pure)
//	Dispatcher                dispatch.go asks one after the other, or all at once;
//	                          call.go is the only file that speaks to anybody
//
// A DELETE is asked about as well (API-07), the kubelet's last one too.
//
// # Blocking
//
// A call is waited for as long as its timeoutSeconds on the wall, because whoever answers
// lives there, and by its own request only: nothing is held meanwhile.
//
// # Errors
//
// A refusal is the status that the hook gave, with upstream's words in front. A hook that
// cannot be reached, or does not answer as it should, is passed over or is a 500, as its
// failurePolicy says.
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

	// Configuration is the name of the object that the hook is in.
	Configuration string
	// Mutating hooks may change what they are asked about.
	Mutating bool
	// Reinvoke says that the hook wants to see what others have made of its object.
	Reinvoke bool

	namespaces, objects labels.Selector
	// broken is why the selectors cannot be read, if they cannot.
	broken error
	// conditions compiles the matchConditions when they are first needed.
	conditions func() ([]condition, error)
}

// Timeout is how long an answer is waited for, on the wall.
func (h *Hook) Timeout() time.Duration {
	const usual = 10
	if h.TimeoutSeconds == nil {
		return usual * time.Second
	}
	return time.Duration(*h.TimeoutSeconds) * time.Second
}

// ignores reports whether a hook that fails is passed over.
func (h *Hook) ignores() bool {
	return h.FailurePolicy != nil && *h.FailurePolicy == admissionregistrationv1.Ignore
}

// hooksIn are the hooks of a configuration, in its order.
func hooksIn(obj kinds.Object) []*Hook {
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
	h.namespaces, badNamespaces = selector(w.NamespaceSelector)
	h.objects, badObjects = selector(w.ObjectSelector)
	h.broken = cmp.Or(badNamespaces, badObjects)
	h.conditions = sync.OnceValues(func() ([]condition, error) { return compileConditions(w.MatchConditions) })
	return h
}

// selector selects everything when it says nothing.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// sorted are hooks in the order in which they are called: that of their configurations'
// names, and in each its own.
func sorted(byConfiguration map[string][]*Hook) []*Hook {
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
