package verbs_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	ar "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/store"
	"github.com/podfall/podfall/services/apiserver/verbs"
	"github.com/podfall/podfall/services/apiserver/webhook"
)

// slowHook allows everything, and takes its time.
type slowHook time.Duration

func (s slowHook) Call(_ context.Context, _ *webhook.Hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	time.Sleep(time.Duration(s))
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	return review, nil
}

// TestDeleteAfterASlowHook: the deadline counts from when the webhooks have answered, and not from
// when they were asked, so that it is never before the mark.
func TestDeleteAfterASlowHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		catalog := &webhook.Catalog{}
		r := newRig(t, func(cfg *verbs.Config, disk *store.Config) {
			cfg.Hooks = &webhook.Dispatcher{
				Catalog: catalog, Caller: slowHook(8 * time.Second), NewUID: func() types.UID { return "u" },
				Versions: func(kind kinds.Kind) []kinds.Kind { return []kinds.Kind{kind} },
			}
			told := disk.OnCommit
			disk.OnCommit = func(s *store.Snapshot, e []store.Event) { told(s, e); catalog.OnCommit(e) }
		})
		r.pod("p")
		r.ok(call{verb: proto.VerbCreate, resource: webhook.ValidatingResource, body: &ar.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "slow"},
			Webhooks: []ar.ValidatingWebhook{{
				Name: "slow.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(ar.SideEffectClassNone),
				ClientConfig: ar.WebhookClientConfig{URL: new("https://127.0.0.1/slow")},
				Rules: []ar.RuleWithOperations{{
					Operations: []ar.OperationType{ar.Delete},
					Rule:       ar.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}},
			}},
		}})
		before := r.revision()
		r.ok(deletePod("p", grace(5)))
		equal(t, "events", r.since(before), "MODIFIED p +5s grace=5 gen=2")
	})
}
