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

// What becomes of admission webhooks.
const (
	// HookDenies has a webhook deny what its Ways say, an operation and an application, for a
	// time. It answers with the code Count, or gives none when zero.
	HookDenies What = "have webhook deny"
	// HookBreaks has a webhook not answer, or wrongly, for a time; its Ways say how.
	HookBreaks What = "break webhook"
)

// How a webhook breaks.
const (
	hookAway    = "away"
	hookHangs   = "hangs"
	hookFails   = "fails"
	hookBabbles = "babbles"
)

// hooks plays the webhooks of a life: what they answer, and whether they do, is a function of
// the life's deeds and its time. Where the product waits until a webhook's time is over, nobody
// waits here: the error is the same, and comes at once.
type hooks struct {
	moods []Deed
	now   func() time.Duration
}

// hooks are those of the life; nil when it has none, so that nobody is asked.
func (c *cluster) hooks() webhook.Caller {
	h := &hooks{now: c.Now}
	made := false
	for _, deed := range c.script.Deeds {
		made = made || deed.Do == CreateHook
		if deed.Do == HookDenies || deed.Do == HookBreaks {
			h.moods = append(h.moods, deed)
		}
	}
	if !made {
		return nil
	}
	return h
}

// Call implements [webhook.Caller].
func (h *hooks) Call(_ context.Context, hook *webhook.Hook, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	about, err := labelled(review.Request)
	if err != nil {
		return nil, err
	}
	answer := &admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: allowing(hook, review.Request, about)}
	now := h.now()
	for _, mood := range h.moods {
		switch {
		case mood.Name != hook.Configuration || now < mood.At || now >= mood.At+mood.For:
		case mood.Do == HookBreaks:
			return brokenAnswer(mood, hook, answer)
		case mood.denies(review.Request, about):
			answer.Response = denying(mood, review.Request)
		}
	}
	return answer, nil
}

// labelled are the labels of what a webhook is asked about.
func labelled(question *admissionv1.AdmissionRequest) (map[string]string, error) {
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

// painted is how the names of webhooks begin: up to its first dot, the name of one is the label
// that it gives.
const painted = "painted"

// allowing is the answer of a webhook that is in no mood: one that mutates labels new pods,
// and one that validates warns those who make or change them.
func allowing(hook *webhook.Hook, question *admissionv1.AdmissionRequest, labels map[string]string) *admissionv1.AdmissionResponse {
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

// denies reports whether a mood is about what is asked: DELETE web is the deletes of the pods
// of web, and DELETE * those of all.
func (d Deed) denies(question *admissionv1.AdmissionRequest, labels map[string]string) bool {
	operation, app, _ := strings.Cut(d.Ways, " ")
	return operation == string(question.Operation) && (app == "*" || app == labels["app"])
}

func denying(mood Deed, question *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	said := &admissionv1.AdmissionResponse{UID: question.UID, Result: &metav1.Status{Message: "nobody may for now: " + mood.Ways}}
	if mood.Count > 0 {
		said.Result.Code = mood.Count
	}
	return said
}

var errUnreached = errors.New("dial tcp 127.0.0.1:9443: connect: connection refused")

// brokenAnswer is what comes of asking a webhook that is broken, in the words of webhook.Client.
func brokenAnswer(mood Deed, hook *webhook.Hook, answer *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	where := *hook.ClientConfig.URL + "?timeout=" + hook.Timeout().String()
	switch mood.Ways {
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
	// hookStays is how long one stays at most.
	hookStays = 6 * time.Minute
	// lastHook is how long before the end, or the calm, the last of them is gone: who was
	// refused is as long in trying again as it has been refused.
	lastHook = 6 * time.Minute
)

// hookDeeds are the webhooks that users of two lives in five make and take away again. They
// draw from dice of their own.
func hookDeeds(seed uint64, until time.Duration, deeds []Deed) (all []Deed) {
	if diceOf(seed, "hooks", 0).below(5) > 1 {
		return nil
	}
	breaks := troubled(deeds)
	for n := 1; ; n++ {
		d := diceOf(seed, "hook", n)
		made := Deed{At: 20*time.Second + time.Duration(n-1)*hookPause + d.between(0, hookPause-hookStays), Do: CreateHook}
		made.Name, made.Ways, made.Count = drawnHook(d, n)
		gone := made.At + d.between(30*time.Second, hookStays)
		if gone > until-lastHook {
			return all
		}
		all = append(all, made, Deed{At: gone, Do: DeleteHook, Name: made.Name}, Deed{At: gone + retried, Do: DeleteHook, Name: made.Name})
		for range 1 + d.below(3) {
			all = append(all, Deed{
				At: d.between(made.At, gone), Do: HookDenies, Name: made.Name, For: d.between(5*time.Second, 4*time.Minute), Count: pick[int32](d, 0, 403, 403, 429, 500),
				Ways: pick(d, "DELETE", "DELETE", "DELETE", "CREATE", "UPDATE") + " " + pick(d, replicaName, statefulName, pick(d, podNames()...), "*", "*"),
			})
		}
		for range d.below(3) {
			broken := Deed{
				At: d.between(made.At, gone), Do: HookBreaks, Name: made.Name, For: d.between(time.Second, 90*time.Second),
				Ways: pick(d, hookAway, hookHangs, hookFails, hookBabbles),
			}
			if breaks {
				all = append(all, broken)
			}
		}
	}
}

// drawnHook is the n-th webhook of a life: its name, and what its configuration says.
func drawnHook(d *dice, n int) (name, says string, webhooks int32) {
	name = fmt.Sprintf("%s-%d", pick(d, guards, guards, guards, painters), n)
	operations := pick(d, "DELETE", "DELETE,UPDATE", "CREATE,UPDATE,DELETE", "*")
	if strings.HasPrefix(name, painters) {
		operations = pick(d, "CREATE", "CREATE,DELETE", "*")
	}
	says = pick(d, "Fail", "Ignore") + " " + operations + " " + pick(d, "pods", "pods,pods/status", "pods/*") + " " + pick(d, "", "", hookSparesNodes, hookOnlyWeb)
	return name, strings.TrimSpace(says), int32(1 + d.below(2))
}
