package guarantees

import "github.com/podfall/podfall/internal/history"

// says is what a webhook says of the pod of most histories.
func says(answer history.HookAnswer, change ...func(*history.WebhookCall)) history.WebhookCall {
	said := history.WebhookCall{Hook: "guard/pods.example.com", Resource: podResource, Key: name, Answer: answer}
	for _, f := range change {
		f(&said)
	}
	return said
}

func ofAll(o *history.OpCall) { o.Key = "default/" }

func mayFail(c *history.WebhookCall) { c.Ignore = true }

// consult is a request of which webhooks are asked before it is carried out.
func (f *forge) consult(cause string, call history.OpCall, said ...history.WebhookCall) *forge {
	f.say("apiserver", cause, call)
	for _, one := range said {
		f.say("apiserver", cause, one)
	}
	return f
}

// finish commits what was asked for, and answers.
func (f *forge) finish(cause string, code int32, changes ...history.Commit) *forge {
	last := int64(0)
	for _, change := range changes {
		last = f.commit(cause, change)
	}
	return f.say("apiserver", cause, history.OpReturn{Code: code, Revision: last})
}

// webhooks are asked about deletes: one refuses, one is passed over, one refuses the first try
// and not the second, one refuses some of many, and one dies with its apiserver before it has
// answered.
func webhooks() *forge {
	f := newForge().run()
	f.ask("marks", by(user, "delete", grace(30)), 200, web(modified, marked(30, f.clock+32)))
	f.consult("no", by(user, "delete"), says(history.HookDenied)).finish("no", 403)
	f.consult("fails", by(user, "delete"), says(history.HookFailed)).finish("fails", 500)
	f.ask("other", by(user, "create", func(o *history.OpCall) { o.Key = "default/" }), 201, web(added, pending, called("default/other", "u2")))
	f.consult("many", by(user, "deletecollection", ofAll), says(history.HookDenied))
	f.finish("many", 403, web(modified, pending, called("default/other", "u2"), marked(0, f.clock+2)), web(deleted, pending, called("default/other", "u2"), marked(0, f.clock+2)))
	f.consult("dies", by(user, "delete"), says(history.HookDenied)).restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 7, ChecksumsOK: true})
	f.consult("passed", by(user, "patch"), says(history.HookFailed, mayFail), says(history.HookAllowed)).finish("passed", 200, web(modified, f.stillMarked()))
	f.consult("patched", by(user, "patch"), says(history.HookFailed, mayFail), says(history.HookAllowed)).finish("patched", 500)
	f.consult("evict", by(user, "create", evicting), says(history.HookFailed, mayFail)).finish("evict", 500)
	f.consult("again", by(user, "patch"), says(history.HookFailed)).finish("again", 500)
	f.consult("again", by(user, "patch"), says(history.HookAllowed))
	return f.finish("again", 200, web(modified, f.stillMarked()))
}

func brokenWebhooks() []forged {
	done := newForge().run().consult("a", by(user, "patch"), says(history.HookDenied), says(history.HookAllowed))
	failed := newForge().run().consult("a", by(user, "patch"), says(history.HookFailed))
	second := newForge().run().consult("a", by(user, "patch"), says(history.HookAllowed)).finish("a", 409)
	answered := newForge().run().consult("a", by(user, "patch"), says(history.HookDenied)).finish("a", 200)
	passed := newForge().run().consult("a", by(user, "patch"), says(history.HookFailed, mayFail)).finish("a", 500)
	many := newForge().run().consult("a", by(user, "deletecollection", ofAll), says(history.HookDenied))
	refused := newForge().run().consult("a", by(user, "deletecollection", ofAll), says(history.HookAllowed))
	return []forged{
		{"A14", "a delete of many that nobody has refused", refused.finish("a", 403, web(modified, marked(30, refused.clock+32)))},
		{"A15", "one of many that was refused", many.finish("a", 403, web(modified, marked(30, many.clock+32)))},
		{"A15", "what one of two webhooks has refused", done.finish("a", 200, web(modified))},
		{"A15", "what a webhook that failed was to allow", failed.finish("a", 500, web(modified))},
		{"A15", "what was refused at the second try", second.consult("a", by(user, "patch"), says(history.HookDenied)).finish("a", 200, web(modified))},
		{"A15", "a refusal that nobody is told of", answered},
		{"A15", "a failure that was to be passed over", passed},
	}
}
