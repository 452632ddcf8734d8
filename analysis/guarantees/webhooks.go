package guarantees

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// consulted checks A15: what a webhook has refused does not happen, and one whose failure may
// be passed over refuses nothing by it.
func consulted(p *past, t *trial) {
	for _, w := range p.consultations() {
		slices.SortFunc(w.events, func(a, b *history.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
		w.judge(t)
	}
}

// consultation is what one apiserver tells of an operation that webhooks were asked about.
type consultation struct {
	*operation
	events []*history.Event // op.hook, op.ret and commit

	// refused is what was refused since the operation was answered last, by its object, no the
	// last refusal, and passed the last failure that may be passed over; nil for none.
	refused    map[string]*history.Event
	no, passed *history.Event
	// others reports whether others have answered, whose patches may be wrong.
	others bool
}

// consultations are all of them, by their operations.
func (p *past) consultations() []*consultation {
	type where struct{ boot, operation string }
	known := map[where]*consultation{}
	var all []*consultation
	for _, o := range p.operations {
		for _, e := range o.webhooks {
			key := where{string(e.Boot), o.id}
			if known[key] == nil {
				known[key] = &consultation{operation: o}
				all = append(all, known[key])
			}
		}
	}
	for _, e := range p.events {
		switch e.Fact.(type) {
		case history.Consulted, history.OpReturn, history.Commit:
			if w := known[where{string(e.Boot), e.Cause}]; w != nil {
				w.events = append(w.events, e)
			}
		}
	}
	return all
}

func (w *consultation) judge(t *trial) {
	w.answered()
	for _, e := range w.events {
		switch fact := e.Fact.(type) {
		case history.Consulted:
			w.heard(e, fact)
		case history.Commit:
			no := w.refused[fact.Resource+" "+fact.Key]
			t.expect(no == nil, "what a webhook has refused has happened", w.calls[0], no, e)
		case history.OpReturn:
			w.answer(t, e, fact.Code)
			w.answered()
		}
	}
}

// answer looks at how a try was answered. Of many objects some may be refused, and an eviction of
// a pod that two budgets cover is, with the code of a webhook's failure.
func (w *consultation) answer(t *trial, e *history.Event, code int32) {
	switch {
	case w.no != nil && w.Verb != string(proto.VerbDeleteCollection):
		t.expect(code >= http.StatusBadRequest, "a request that a webhook has refused was answered as if it had not", w.calls[0], w.no, e)
	case w.no == nil && w.passed != nil && !w.others && w.Subresource != "eviction":
		t.expect(code != http.StatusInternalServerError, "a webhook that may be passed over has refused something by its failure", w.calls[0], w.passed, e)
	}
}

// answered forgets what webhooks have said: the next try asks them again.
func (w *consultation) answered() {
	w.refused, w.no, w.passed, w.others = map[string]*history.Event{}, nil, nil, false
}

func (w *consultation) heard(e *history.Event, fact history.Consulted) {
	switch {
	case refuses(fact):
		w.refused[fact.Resource+" "+fact.Key], w.no = e, e
	case fact.Answer == history.HookFailed:
		w.passed = e
	default:
		w.others = true
	}
}

// refuses reports whether a webhook's answer, or that there is none, refuses what it was asked
// about.
func refuses(fact history.Consulted) bool {
	return fact.Answer == history.HookDenied || fact.Answer == history.HookFailed && !fact.Ignore
}

// denied reports whether a webhook has refused a try of the operation: the code of the answer
// is the webhook's.
func (o *operation) denied() bool { return o.deniedBetween(math.MinInt64, math.MaxInt64) }

// deniedBetween reports whether a webhook has between two moments.
func (o *operation) deniedBetween(from, to int64) bool {
	return slices.ContainsFunc(o.webhooks, func(e *history.Event) bool {
		fact, is := e.Fact.(history.Consulted)
		return is && refuses(fact) && e.Ended >= from && e.Began <= to
	})
}
