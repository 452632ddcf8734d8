package guarantees

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// checkWebhookAnswers checks A15: what a webhook refused does not happen. A webhook with
// failurePolicy Ignore refuses nothing by its failure.
func checkWebhookAnswers(h *clusterHistory, t *tally) {
	for _, w := range h.webhookCalls() {
		slices.SortFunc(w.events, func(a, b *history.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
		w.check(t)
	}
}

// webhookCalls holds the events of one apiserver about an operation that webhooks were called for.
type webhookCalls struct {
	*operation
	events []*history.Event // op.hook, op.ret and commit

	// refused holds what was refused since the operation's last answer, by object. no is the last
	// refusal, and passed the last ignored failure; nil for none.
	refused    map[string]*history.Event
	no, passed *history.Event
	// others reports that other webhooks have answered. Their patches may be wrong.
	others bool
}

// webhookCalls returns the webhook calls of all operations.
func (h *clusterHistory) webhookCalls() []*webhookCalls {
	type where struct{ boot, operation string }
	known := map[where]*webhookCalls{}
	var all []*webhookCalls
	for _, o := range h.operations {
		for _, e := range o.webhooks {
			key := where{string(e.Boot), o.id}
			if known[key] == nil {
				known[key] = &webhookCalls{operation: o}
				all = append(all, known[key])
			}
		}
	}
	for _, e := range h.events {
		switch e.Fact.(type) {
		case history.WebhookCall, history.OpReturn, history.Commit:
			if w := known[where{string(e.Boot), e.Cause}]; w != nil {
				w.events = append(w.events, e)
			}
		}
	}
	return all
}

func (w *webhookCalls) check(t *tally) {
	w.reset()
	for _, e := range w.events {
		switch fact := e.Fact.(type) {
		case history.WebhookCall:
			w.addAnswer(e, fact)
		case history.Commit:
			no := w.refused[fact.Resource+" "+fact.Key]
			t.expect(no == nil, "a change was made that a webhook had refused", w.calls[0], no, e)
		case history.OpReturn:
			w.checkAnswer(t, e, fact.Code)
			w.reset()
		}
	}
}

// checkAnswer checks the answer to one try. Of many objects, a webhook may refuse some. An eviction
// of a pod that two budgets cover is refused with the same code as a failed webhook.
func (w *webhookCalls) checkAnswer(t *tally, e *history.Event, code int32) {
	switch {
	case w.no != nil && w.Verb != string(proto.VerbDeleteCollection):
		t.expect(code >= http.StatusBadRequest, "a request that a webhook had refused was answered with success", w.calls[0], w.no, e)
	case w.no == nil && w.passed != nil && !w.others && w.Subresource != "eviction":
		t.expect(code != http.StatusInternalServerError, "the failure of an ignorable webhook refused a request", w.calls[0], w.passed, e)
	}
}

// reset forgets the webhooks' answers, because the next try asks them again.
func (w *webhookCalls) reset() {
	w.refused, w.no, w.passed, w.others = map[string]*history.Event{}, nil, nil, false
}

func (w *webhookCalls) addAnswer(e *history.Event, fact history.WebhookCall) {
	switch {
	case isRefusal(fact):
		w.refused[fact.Resource+" "+fact.Key], w.no = e, e
	case fact.Answer == history.HookFailed:
		w.passed = e
	default:
		w.others = true
	}
}

// isRefusal reports whether a webhook's answer, or its failure, refuses the request.
func isRefusal(fact history.WebhookCall) bool {
	return fact.Answer == history.HookDenied || fact.Answer == history.HookFailed && !fact.Ignore
}

// deniedByWebhook reports whether a webhook refused a try of the operation. The answer then has the
// webhook's code.
func (o *operation) deniedByWebhook() bool {
	return o.deniedByWebhookBetween(math.MinInt64, math.MaxInt64)
}

// deniedByWebhookBetween reports whether a webhook refused a try of the operation between two
// times.
func (o *operation) deniedByWebhookBetween(from, to int64) bool {
	return slices.ContainsFunc(o.webhooks, func(e *history.Event) bool {
		fact, is := e.Fact.(history.WebhookCall)
		return is && isRefusal(fact) && e.Ended >= from && e.Began <= to
	})
}
