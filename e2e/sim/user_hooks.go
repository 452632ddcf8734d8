package sim

import (
	"fmt"
	"slices"
	"strings"

	ar "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// User actions on admission webhooks.
const (
	// CreateWebhook creates a configuration of Count webhooks. Detail holds the failurePolicy, the
	// operations, the resources and the exemption: "Fail CREATE,DELETE pods/* spares-nodes".
	CreateWebhook ActionKind = "create webhook"
	DeleteWebhook ActionKind = "delete webhook"
)

// The beginnings of names: those of configurations of webhooks that validate, and that mutate.
const (
	guards   = "guard"
	painters = "painter"
)

// Whom a webhook spares.
const (
	hookSparesNodes = "spares-nodes"
	hookOnlyWeb     = "only-web"
)

// hookResource is the resource of a configuration, by its name.
func hookResource(name string) string {
	if strings.HasPrefix(name, painters) {
		return webhook.MutatingResource
	}
	return webhook.ValidatingResource
}

// webhookRequest returns the request of an action on webhooks.
func webhookRequest(action Action) Ask {
	resource := hookResource(action.Name)
	if action.Kind == DeleteWebhook {
		return Ask{Verb: proto.VerbDelete, Target: podapi.Target{Kind: kindOfResource(resource), Name: action.Name}, Options: &metav1.DeleteOptions{}}
	}
	meta := metav1.ObjectMeta{Name: action.Name}
	if resource == webhook.ValidatingResource {
		return createRequest(resource, "", &ar.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: webhooksFor(action)})
	}
	made := &ar.MutatingWebhookConfiguration{ObjectMeta: meta}
	for _, w := range webhooksFor(action) {
		made.Webhooks = append(made.Webhooks, ar.MutatingWebhook{
			Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy, ObjectSelector: w.ObjectSelector,
			SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions,
			MatchConditions: w.MatchConditions, ReinvocationPolicy: new(ar.IfNeededReinvocationPolicy),
		})
	}
	return createRequest(resource, "", made)
}

// webhooksFor returns the webhooks of a configuration.
func webhooksFor(action Action) (all []ar.ValidatingWebhook) {
	says := append(strings.Fields(action.Detail), "", "", "", "")
	var operations []ar.OperationType
	for one := range strings.SplitSeq(says[1], ",") {
		operations = append(operations, ar.OperationType(one))
	}
	for i := range max(action.Count, 1) {
		one := ar.ValidatingWebhook{
			Name: fmt.Sprintf("%s%d.example.com", labelPrefix, i), FailurePolicy: new(ar.FailurePolicyType(says[0])),
			ClientConfig: ar.WebhookClientConfig{URL: new("https://127.0.0.1:9443/" + action.Name)}, SideEffects: new(ar.SideEffectClassNone),
			TimeoutSeconds: new(int32(2)), AdmissionReviewVersions: []string{"v1"},
			Rules: []ar.RuleWithOperations{{Operations: operations, Rule: ar.Rule{
				APIGroups: []string{corev1.GroupName}, APIVersions: []string{"v1"}, Resources: slices.Collect(strings.SplitSeq(says[2], ",")),
			}}},
		}
		switch says[3] {
		case hookSparesNodes:
			one.MatchConditions = []ar.MatchCondition{{Name: hookSparesNodes, Expression: `!("system:nodes" in request.userInfo.groups)`}}
		case hookOnlyWeb:
			one.ObjectSelector = selector(replicaName)
		}
		all = append(all, one)
	}
	return all
}
