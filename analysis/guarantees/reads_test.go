package guarantees

import "github.com/podfall/podfall/internal/history"

// digestOf is the digest of objects or events of these revisions.
func digestOf(event string, revisions ...int64) string {
	var sum history.Sum
	for _, revision := range revisions {
		sum.Add(event, revision)
	}
	return sum.String()
}

// read is a read of pods that is answered with 200.
func read(verb, key string, revision int64, change ...func(*history.OpRead)) history.OpRead {
	l := history.OpRead{Identity: user, Verb: verb, Resource: podResource, Key: key, Code: 200, Revision: revision}
	for _, f := range change {
		f(&l)
	}
	return l
}

func code(code int32) func(*history.OpRead) { return func(l *history.OpRead) { l.Code = code } }

func from(asked string) func(*history.OpRead) {
	return func(l *history.OpRead) { l.ReadOptions.Revision = asked }
}

func exactlyAt(asked string) func(*history.OpRead) {
	return func(l *history.OpRead) { l.ReadOptions.Revision, l.Match = asked, "Exact" }
}

func items(event string, revisions ...int64) func(*history.OpRead) {
	return func(l *history.OpRead) { l.Items, l.Digest = len(revisions), digestOf(event, revisions...) }
}

func initially(whether bool) func(*history.OpRead) {
	return func(l *history.OpRead) { l.SendInitialEvents = &whether }
}

// onePage is a page of one item, and says whether more follow.
func onePage(more bool) func(*history.OpRead) {
	return func(l *history.OpRead) { l.Limit, l.More = 1, more }
}

func continuing(key string, at int64) func(*history.OpRead) {
	return func(l *history.OpRead) { l.ContinueAfter, l.ContinueRevision = key, at }
}

func markedAt(revision int64) func(*history.OpRead) {
	return func(l *history.OpRead) { l.AllowBookmarks, l.InitialEventsEnd = true, revision }
}

func selecting(labels, fields string) func(*history.OpRead) {
	return func(l *history.OpRead) { l.Labels, l.Fields = labels, fields }
}

// tookTo is a delivery by a watch of all pods that began after revision 1, up to another.
func tookTo(to int64, events ...int64) history.WatchDelivery {
	return history.WatchDelivery{Watch: 1, Resource: podResource, From: 1, To: to, Items: len(events), Digest: digestOf(modified, events...)}
}

// blue is a labelled pod, of a release that records labels.
func blue(c *history.Commit) { c.Created, c.Labels = 1, map[string]string{"app": "blue"} }

// twoPods is a running pod, revision 3, and another, revision 4. Revision 1 was compacted.
func twoPods() *builder {
	b := newBuilder()
	b.request("create", by(user, "create"), 201, web(added, pending, blue))
	b.request("bind", by(controllers, "create"), 201, web(modified, pending, blue, func(c *history.Commit) { c.Node = "n1" }))
	b.request("runs", by(node, "update"), 200, web(modified, blue))
	b.request("other", by(user, "create"), 201, web(added, pending, called("default/zoo", "u2"), func(c *history.Commit) { c.Created = 2 }))
	return b.record("apiserver", "", history.Fsync{Revision: 4, Oldest: 2})
}

// answerReads has the apiserver answer reads.
func (b *builder) answerReads(all ...history.OpRead) *builder {
	for _, l := range all {
		b.record("apiserver", "", l)
	}
	return b
}

// validReads returns histories with reads that keep every invariant.
func validReads() map[string]*builder {
	b := twoPods().answerReads(
		read("get", name, 3), read("get", "default/none", 0, code(404)),
		read("list", "", 4, items("", 3, 4)), read("list", "default", 4, items("", 3, 4)), read("list", "else", 4),
		read("list", "", 4, items("", 3), onePage(true)), read("list", "", 4, items("", 4), onePage(false), continuing(name, 4)),
		read("list", "", 3, items("", 3), exactlyAt("3")), read("list", "", 0, exactlyAt("1"), code(410)),
		read("list", "", 4, items("", 3), selecting("app=blue", "")), read("list", "", 4, items("", 4), selecting("app!=blue", "status.phase=Pending")),
		read("watch", "", 3, from("2"), items(modified, 3)), read("watch", "", 4, from("4")), read("watch", "", 0, from("1"), code(410)),
		read("watch", "", 4, items(added, 3, 4), markedAt(4)), read("watch", "", 4, from("3"), initially(true), items(added, 3, 4)),
		read("watch", "", 4, initially(false)), read("watch", "", 0, from("x"), code(400)),
		read("watch", "", 4, from("2"), items(added, 3), selecting("", "status.phase=Running")),
	)
	b.record(kubelet, "", tookTo(3, 2, 3)).record(kubelet, "", history.WatchDelivery{Watch: 1, Resource: podResource, From: 3, To: 4, Items: 1, Digest: digestOf(added, 4)})
	b.record(kubelet, "", history.Relist{Resource: podResource, From: 2, To: 4})
	future := twoPods().answerReads(read("watch", "", 4, from("5"))) // it waits (WCH-10)
	future.request("late", by(node, "update"), 200, web(modified, blue))
	refused := twoPods().record("apiserver", "again", by(user, "create")).record("apiserver", "again", history.OpReturn{Code: 409})
	refused.answerReads(read("list", "", 4, items("", 3, 4))).record("apiserver", "again", by(user, "create"))
	refused.commit("again", web(added, pending, called("default/new", "u3"), func(c *history.Commit) { c.Created = 3 }))
	refused.lengthen(5).record("apiserver", "again", history.OpReturn{Code: 201, Revision: 5}) // begun in the instant in which the first try was refused
	untold := twoPods().removeSilently("away", uid).answerReads(read("get", name, 3))
	hooked := twoPods().removeSilently("away", uid).consult("hooked", by(user, "delete"), webhookSays(history.HookDenied)).finish("hooked", 404).answerReads(read("get", name, 3))
	again := twoPods().removeSilently("away", uid).request("again", by(user, "delete"), 404).recreate()
	during := twoPods()
	during.request("away", by(user, "delete", grace(0)), 200, web(deleted, blue, marked(0, during.clock+2))).recreate()
	during.removeSilently("away again", "u4").answerReads(read("get", name, 0, code(404))).lengthen(10).answerReads(read("get", name, 6))
	long := twoPods().removeSilently("away", uid).recreate().removeSilently("away again", "u4")
	long.answerReads(read("get", name, 0, code(404))).lengthen(20).answerReads(read("get", name, 6))
	early := twoPods().request("early", by(user, "update"), 404).answerReads(read("get", name, 3)).removeSilently("away", uid)
	return map[string]*builder{
		"a 404 of when it had gone before": during, "a 404 of the first of two": long, "a kind that is not there for a moment": early,
		"a removal without an answer": untold, "a 404 of a webhook": hooked, "made again": again, "reads": b.withStoreFile(), "blue": blueWatch(1, 2, 3), "future": future, "refused first": refused,
	}
}

// removeSilently removes the pod by a request whose answer is lost.
func (b *builder) removeSilently(cause, uid string) *builder {
	b.record("apiserver", cause, by(user, "delete", grace(0)))
	b.commit(cause, web(deleted, blue, called(name, uid), marked(0, b.clock)))
	return b
}

// recreate creates the pod again and reads it.
func (b *builder) recreate() *builder {
	b.request("recreate", by(user, "create"), 201, web(added, pending, called(name, "u4"), blue))
	return b.answerReads(read("get", name, b.revision))
}

// blueWatch is a watch of pods by a label, which is sent these revisions.
func blueWatch(revisions ...int64) *builder {
	b := newBuilder().record("apiserver", "", history.WatchOpen{Watch: "w", Resource: podResource, Selector: "app=blue", Scope: &history.Scope{Labels: "app=blue"}})
	b.evidence.Log.Events = append(b.evidence.Log.Events, twoPods().evidence.Log.Events[1:]...)
	b.clock, b.sequence["apiserver"] = 100, 100
	for i, revision := range revisions {
		b.record("apiserver", "", history.WatchEvent{Watch: "w", Type: []string{added, modified, modified}[i], Revision: revision, UID: uid})
	}
	return b
}

func readViolations() []violation {
	cases := []struct {
		id, what string
		read     history.OpRead
	}{
		{"A4", "a get that is old", read("get", name, 2)},
		{"A4", "a get that does not find", read("get", name, 0, code(404))},
		{"A4", "a list that is old", read("list", "", 3, items("", 3))},
		{"A4", "a list of another revision", read("list", "", 3, items("", 3), exactlyAt("2"))},
		{"A4", "a list older than asked for", read("list", "", 3, items("", 3), from("4"))},
		{"A4", "a get of what was to come", read("get", name, 5)},
		{"A12", "a list without a pod", read("list", "", 4, items("", 3))},
		{"A12", "a list with an older version", read("list", "", 4, items("", 2, 4))},
		{"A12", "a page without a next", read("list", "", 4, items("", 3), onePage(false))},
		{"A12", "a page that begins again", read("list", "", 4, items("", 3), onePage(true), continuing(name, 4))},
		{"A12", "a list of other labels", read("list", "", 4, items("", 3, 4), selecting("app=blue", ""))},
		{"A13", "a list of what is forgotten", read("list", "", 1, items("", 1), exactlyAt("1"))},
		{"A13", "a list refused", read("list", "", 0, exactlyAt("3"), code(410))},
		{"A13", "a watch from what is forgotten", read("watch", "", 4, from("1"))},
		{"W4", "a change left out", read("watch", "", 4, from("2"), items(modified, 3))},
		{"W4", "changes before the revision", read("watch", "", 2, from("3"), items(modified, 2))},
		{"W4", "a 410 for nothing", read("watch", "", 0, from("3"), code(410))},
		{"W5", "a bookmark too early", read("watch", "", 4, items(added, 3), markedAt(4))},
		{"W5", "a bookmark of another revision", read("watch", "", 3, items(added, 3), markedAt(4))},
		{"W10", "no initial events", read("watch", "", 4, from("0"))},
		{"W10", "initial events that were not asked for", read("watch", "", 4, initially(false), items(added, 3, 4))},
		{"W10", "false revision", read("watch", "", 4, from("-1"))},
		{"W10", "initial events before the revision", read("watch", "", 3, from("4"), initially(true), items(added, 3))},
		{"W10", "what was to come", read("watch", "", 5, from("5"), initially(true))},
	}
	all := make([]violation, 0, len(cases))
	for _, c := range cases {
		b := twoPods().answerReads(c.read)
		if c.read.Revision == 5 || c.read.ReadOptions.Revision == "5" {
			b.request("late", by(node, "update"), 200, web(modified, blue))
		}
		all = append(all, violation{c.id, c.what, b})
	}
	missed := twoPods().removeSilently("away", uid).request("again", by(user, "delete"), 404).answerReads(read("get", name, 3))
	unseen := twoPods().removeSilently("away", uid).answerReads(read("get", name, 0, code(404)), read("get", name, 3))
	twice := twoPods().removeSilently("away", uid).request("again", by(user, "delete"), 404).recreate().removeSilently("away again", "u4")
	twice.request("once more", by(user, "delete"), 404).answerReads(read("get", name, 6))
	gap := twoPods().record(kubelet, "", tookTo(2, 2))
	return append(all,
		violation{"A4", "a get of what a delete did not find", missed},
		violation{"A4", "a get of what a delete did not find, made again", twice},
		violation{"A4", "a get of what a get did not find", unseen},
		violation{"W5", "a consumer that is given changes twice", gap.record(kubelet, "", tookTo(3, 2, 3))},
		violation{"W7", "a consumer that misses a change", twoPods().record(kubelet, "", tookTo(3, 3))},
		violation{"W7", "a consumer that is given a change twice", twoPods().record(kubelet, "", tookTo(3, 2, 2, 3))},
		violation{"W3", "a label's pod left out", blueWatch(1, 3)},
		violation{"W3", "a pod of another label", blueWatch(1, 2, 4)},
		violation{"W8", "a copy that goes back", twoPods().record(kubelet, "", history.Relist{From: 4, To: 3})},
	)
}
