package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/services/apiserver/webhook"
)

// Faults of admission webhooks.
const (
	// WebhookDenies makes a webhook deny, for a while, what Detail names: an operation and an
	// application. It answers with the code Count, or without a code if Count is 0.
	WebhookDenies ActionKind = "have webhook deny"
	// WebhookFails makes a webhook answer wrongly or not at all for a while; Detail says how.
	WebhookFails ActionKind = "break webhook"
)

// Ways in which a webhook fails.
const (
	hookAway    = "away"
	hookHangs   = "hangs"
	hookFails   = "fails"
	hookGarbage = "babbles"
)

// webhooks answers for the webhooks of a run. Its answers depend only on the script's actions and
// the time. A timeout is not waited for: the error is the same, and comes at once.
type webhooks struct {
	actions []Action
	now     func() time.Duration
}

// hooks returns the webhooks of the run; nil if it has none.
func (c *cluster) hooks() webhook.Caller {
	h := &webhooks{now: c.Now}
	made := false
	for _, action := range c.script.Actions {
		made = made || action.Kind == CreateWebhook
		if action.Kind == WebhookDenies || action.Kind == WebhookFails {
			h.actions = append(h.actions, action)
		}
	}
	if !made {
		return nil
	}
	return h
}

// Call implements [webhook.Caller].
func (h *webhooks) Call(_ context.Context, hook *webhook.Hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	about, err := requestLabels(review.Request)
	if err != nil {
		return nil, err
	}
	answer := &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: defaultAnswer(hook, review.Request, about)}
	now := h.now()
	for _, mood := range h.actions {
		switch {
		case mood.Name != hook.Configuration || now < mood.At || now >= mood.At+mood.For:
		case mood.Kind == WebhookFails:
			return faultyAnswer(mood, hook, answer)
		case mood.denies(review.Request, about):
			answer.Response = denial(mood, review.Request)
		}
	}
	return answer, nil
}

// requestLabels returns the labels of the reviewed object.
func requestLabels(question *admissionv1.AdmissionRequest) (map[string]string, error) {
	raw := question.Object.Raw
	if len(raw) == 0 {
		raw = question.OldObject.Raw
	}
	var about struct {
		Metadata struct {
			Labels map[string]string `json:"labels"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(raw, &about)
	return about.Metadata.Labels, err
}

// labelPrefix begins the names of mutating webhooks. The name up to its first dot is the label that
// the webhook adds.
const labelPrefix = "painted"

// defaultAnswer is the answer of a webhook without a fault. Mutating webhooks label new pods;
// validating ones warn about creations and changes.
func defaultAnswer(hook *webhook.Hook, question *admissionv1.AdmissionRequest, labels map[string]string) *admissionv1.AdmissionResponse {
	said := &admissionv1.AdmissionResponse{UID: question.UID, Allowed: true}
	label, _, _ := strings.Cut(hook.Name, ".")
	switch {
	case !hook.Mutating && question.Operation != admissionv1.Delete:
		said.Warnings = []string{fmt.Sprintf("%s is watched by %s", question.Name, hook.Name)}
	case hook.Mutating && question.Operation == admissionv1.Create && question.Kind.Kind == "Pod" && len(labels) > 0 && labels[label] == "":
		said.PatchType = new(admissionv1.PatchTypeJSONPatch)
		said.Patch = fmt.Appendf(nil, `[{"op":"add","path":"/metadata/labels/%s","value":%q}]`, label, hook.Configuration)
	}
	return said
}

// denies reports whether a webhook's denial covers the request. "DELETE web" covers deletes of the
// pods of web, "DELETE *" those of all pods.
func (d Action) denies(question *admissionv1.AdmissionRequest, labels map[string]string) bool {
	operation, app, _ := strings.Cut(d.Detail, " ")
	return operation == string(question.Operation) && (app == "*" || app == labels["app"])
}

func denial(mood Action, question *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	said := &admissionv1.AdmissionResponse{UID: question.UID, Result: &metav1.Status{Message: "nobody may for now: " + mood.Detail}}
	if mood.Count > 0 {
		said.Result.Code = mood.Count
	}
	return said
}

var errUnreached = errors.New("dial tcp 127.0.0.1:9443: connect: connection refused")

// faultyAnswer returns the answer of a faulty webhook, with the errors of webhook.Client.
func faultyAnswer(mood Action, hook *webhook.Hook, answer *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	where := *hook.ClientConfig.URL + "?timeout=" + hook.Timeout().String()
	switch mood.Detail {
	case hookAway:
		return nil, &url.Error{Op: "Post", URL: where, Err: errUnreached}
	case hookHangs:
		return nil, &url.Error{Op: "Post", URL: where, Err: context.DeadlineExceeded}
	case hookFails:
		return nil, apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, http.MethodPost, schema.GroupResource{}, "", "out of order", 0, true)
	}
	answer.Response = nil
	return answer, nil
}

// The pace of webhooks.
const (
	// hookPause is between two of them.
	hookPause = 9 * time.Minute
	// hookLifetime is how long a webhook exists at most.
	hookLifetime = 6 * time.Minute
	// lastHook is how long before the end, or the end of faults, the last webhook is deleted. A
	// refused client may wait as long before its next try as it has been refused so far.
	lastHook = 6 * time.Minute
)

// drawWebhookActions creates and deletes webhooks in two of five runs. It uses its own dice.
func drawWebhookActions(seed uint64, until time.Duration, actions []Action) (all []Action) {
	if newDice(seed, "hooks", 0).below(5) > 1 {
		return nil
	}
	breaks := hasFaults(actions)
	for n := 1; ; n++ {
		d := newDice(seed, "hook", n)
		made := Action{At: 20*time.Second + time.Duration(n-1)*hookPause + d.between(0, hookPause-hookLifetime), Kind: CreateWebhook}
		made.Name, made.Detail, made.Count = drawWebhook(d, n)
		gone := made.At + d.between(30*time.Second, hookLifetime)
		if gone > until-lastHook {
			return all
		}
		all = append(all, made, Action{At: gone, Kind: DeleteWebhook, Name: made.Name}, Action{At: gone + retried, Kind: DeleteWebhook, Name: made.Name})
		for range 1 + d.below(3) {
			all = append(all, Action{
				At: d.between(made.At, gone), Kind: WebhookDenies, Name: made.Name, For: d.between(5*time.Second, 4*time.Minute), Count: pick[int32](d, 0, 403, 403, 429, 500),
				Detail: pick(d, "DELETE", "DELETE", "DELETE", "CREATE", "UPDATE") + " " + pick(d, replicaName, statefulName, pick(d, podNames()...), "*", "*"),
			})
		}
		for range d.below(3) {
			broken := Action{
				At: d.between(made.At, gone), Kind: WebhookFails, Name: made.Name, For: d.between(time.Second, 90*time.Second),
				Detail: pick(d, hookAway, hookHangs, hookFails, hookGarbage),
			}
			if breaks {
				all = append(all, broken)
			}
		}
	}
}

// drawWebhook returns the n-th webhook of a run: its name, its Detail and the number of webhooks.
func drawWebhook(d *dice, n int) (name, says string, webhooks int32) {
	name = fmt.Sprintf("%s-%d", pick(d, guards, guards, guards, painters), n)
	operations := pick(d, "DELETE", "DELETE,UPDATE", "CREATE,UPDATE,DELETE", "*")
	if strings.HasPrefix(name, painters) {
		operations = pick(d, "CREATE", "CREATE,DELETE", "*")
	}
	says = pick(d, "Fail", "Ignore") + " " + operations + " " + pick(d, "pods", "pods,pods/status", "pods/*") + " " + pick(d, "", "", hookSparesNodes, hookOnlyWeb)
	return name, strings.TrimSpace(says), int32(1 + d.below(2))
}
