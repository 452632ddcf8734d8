package guarantees

import "github.com/podfall/podfall/internal/history"

// webhookSays is an answer of a webhook about the pod.
func webhookSays(answer history.HookAnswer, change ...func(*history.WebhookCall)) history.WebhookCall {
	said := history.WebhookCall{Hook: "guard/pods.example.com", Resource: podResource, Key: name, Answer: answer}
	for _, f := range change {
		f(&said)
	}
	return said
}

func ofAll(o *history.OpCall) { o.Key = "default/" }

func mayFail(c *history.WebhookCall) { c.Ignore = true }

// consult records a request and the answers of the webhooks that are called before it is carried
// out.
func (b *builder) consult(cause string, call history.OpCall, said ...history.WebhookCall) *builder {
	b.record("apiserver", cause, call)
	for _, one := range said {
		b.record("apiserver", cause, one)
	}
	return b
}

// finish commits the changes of a request, and answers it.
func (b *builder) finish(cause string, code int32, changes ...history.Commit) *builder {
	last := int64(0)
	for _, change := range changes {
		last = b.commit(cause, change)
	}
	return b.record("apiserver", cause, history.OpReturn{Code: code, Revision: last})
}

// validWebhooks has webhooks called for deletes. One refuses, one is ignored, one refuses the first
// try and not the second, one refuses some of many, and one dies with its apiserver before it has
// answered.
func validWebhooks() *builder {
	b := newBuilder().runPod()
	b.request("marks", by(user, "delete", grace(30)), 200, web(modified, marked(30, b.clock+32)))
	b.consult("no", by(user, "delete"), webhookSays(history.HookDenied)).finish("no", 403)
	b.consult("fails", by(user, "delete"), webhookSays(history.HookFailed)).finish("fails", 500)
	b.request("other", by(user, "create", func(o *history.OpCall) { o.Key = "default/" }), 201, web(added, pending, called("default/other", "u2")))
	b.consult("many", by(user, "deletecollection", ofAll), webhookSays(history.HookDenied))
	b.finish("many", 403, web(modified, pending, called("default/other", "u2"), marked(0, b.clock+2)), web(deleted, pending, called("default/other", "u2"), marked(0, b.clock+2)))
	b.consult("dies", by(user, "delete"), webhookSays(history.HookDenied)).restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 7, ChecksumsOK: true})
	b.consult("passed", by(user, "patch"), webhookSays(history.HookFailed, mayFail), webhookSays(history.HookAllowed)).finish("passed", 200, web(modified, b.keepMark()))
	b.consult("patched", by(user, "patch"), webhookSays(history.HookFailed, mayFail), webhookSays(history.HookAllowed)).finish("patched", 500)
	b.consult("evict", by(user, "create", evicting), webhookSays(history.HookFailed, mayFail)).finish("evict", 500)
	b.consult("again", by(user, "patch"), webhookSays(history.HookFailed)).finish("again", 500)
	b.consult("again", by(user, "patch"), webhookSays(history.HookAllowed))
	return b.finish("again", 200, web(modified, b.keepMark()))
}

func webhookViolations() []violation {
	done := newBuilder().runPod().consult("a", by(user, "patch"), webhookSays(history.HookDenied), webhookSays(history.HookAllowed))
	failed := newBuilder().runPod().consult("a", by(user, "patch"), webhookSays(history.HookFailed))
	second := newBuilder().runPod().consult("a", by(user, "patch"), webhookSays(history.HookAllowed)).finish("a", 409)
	answered := newBuilder().runPod().consult("a", by(user, "patch"), webhookSays(history.HookDenied)).finish("a", 200)
	passed := newBuilder().runPod().consult("a", by(user, "patch"), webhookSays(history.HookFailed, mayFail)).finish("a", 500)
	many := newBuilder().runPod().consult("a", by(user, "deletecollection", ofAll), webhookSays(history.HookDenied))
	refused := newBuilder().runPod().consult("a", by(user, "deletecollection", ofAll), webhookSays(history.HookAllowed))
	return []violation{
		{"A14", "a delete of many without a refusal", refused.finish("a", 403, web(modified, marked(30, refused.clock+32)))},
		{"A15", "one of many that was refused", many.finish("a", 403, web(modified, marked(30, many.clock+32)))},
		{"A15", "what one of two webhooks has refused", done.finish("a", 200, web(modified))},
		{"A15", "what a webhook that failed was to allow", failed.finish("a", 500, web(modified))},
		{"A15", "what was refused at the second try", second.consult("a", by(user, "patch"), webhookSays(history.HookDenied)).finish("a", 200, web(modified))},
		{"A15", "a refusal answered with success", answered},
		{"A15", "a failure that was to be passed over", passed},
	}
}
