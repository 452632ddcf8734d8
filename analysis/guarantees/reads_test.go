package guarantees

import "github.com/podfall/podfall/internal/history"

// sums is the digest of objects or events of these revisions.
func sums(event string, revisions ...int64) string {
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
	return func(l *history.OpRead) { l.Items, l.Digest = len(revisions), sums(event, revisions...) }
}

func initially(whether bool) func(*history.OpRead) {
	return func(l *history.OpRead) { l.SendInitialEvents = &whether }
}

// alone is a page of one item, behind which there are more or not.
func alone(more bool) func(*history.OpRead) {
	return func(l *history.OpRead) { l.Limit, l.More = 1, more }
}

func behind(key string, at int64) func(*history.OpRead) {
	return func(l *history.OpRead) { l.ContinueAfter, l.ContinueRevision = key, at }
}

func markedAt(revision int64) func(*history.OpRead) {
	return func(l *history.OpRead) { l.AllowBookmarks, l.InitialEventsEnd = true, revision }
}

func selecting(labels, fields string) func(*history.OpRead) {
	return func(l *history.OpRead) { l.Labels, l.Fields = labels, fields }
}

// tookTo is what a watch of all pods that began behind revision 1 has handed over, up to another.
func tookTo(to int64, events ...int64) history.WatchDelivery {
	return history.WatchDelivery{Watch: 1, Resource: podResource, From: 1, To: to, Items: len(events), Digest: sums(modified, events...)}
}

// blue is a pod with a label, of a release that tells of it.
func blue(c *history.Commit) { c.Created, c.Labels = 1, map[string]string{"app": "blue"} }

// looking is a pod that runs, revision 3, and another one, revision 4, before which 1 was
// forgotten.
func looking() *forge {
	f := newForge()
	f.ask("create", by(user, "create"), 201, web(added, pending, blue))
	f.ask("bind", by(controllers, "create"), 201, web(modified, pending, blue, func(c *history.Commit) { c.Node = "n1" }))
	f.ask("runs", by(node, "update"), 200, web(modified, blue))
	f.ask("other", by(user, "create"), 201, web(added, pending, called("default/zoo", "u2"), func(c *history.Commit) { c.Created = 2 }))
	return f.say("apiserver", "", history.Fsync{Revision: 4, Oldest: 2})
}

// looks has the apiserver answer reads.
func (f *forge) looks(all ...history.OpRead) *forge {
	for _, l := range all {
		f.say("apiserver", "", l)
	}
	return f
}

// reading are histories with reads that keep every promise.
func reading() map[string]*forge {
	f := looking().looks(
		read("get", name, 3), read("get", "default/none", 0, code(404)),
		read("list", "", 4, items("", 3, 4)), read("list", "default", 4, items("", 3, 4)), read("list", "else", 4),
		read("list", "", 4, items("", 3), alone(true)), read("list", "", 4, items("", 4), alone(false), behind(name, 4)),
		read("list", "", 3, items("", 3), exactlyAt("3")), read("list", "", 0, exactlyAt("1"), code(410)),
		read("list", "", 4, items("", 3), selecting("app=blue", "")), read("list", "", 4, items("", 4), selecting("app!=blue", "status.phase=Pending")),
		read("watch", "", 3, from("2"), items(modified, 3)), read("watch", "", 4, from("4")), read("watch", "", 0, from("1"), code(410)),
		read("watch", "", 4, items(added, 3, 4), markedAt(4)), read("watch", "", 4, from("3"), initially(true), items(added, 3, 4)),
		read("watch", "", 4, initially(false)), read("watch", "", 0, from("x"), code(400)),
		read("watch", "", 4, from("2"), items(added, 3), selecting("", "status.phase=Running")),
	)
	f.say(kubelet, "", tookTo(3, 2, 3)).say(kubelet, "", history.WatchDelivery{Watch: 1, Resource: podResource, From: 3, To: 4, Items: 1, Digest: sums(added, 4)})
	f.say(kubelet, "", history.Relist{Resource: podResource, From: 2, To: 4})
	future := looking().looks(read("watch", "", 4, from("5"))) // it waits (WCH-10)
	future.ask("late", by(node, "update"), 200, web(modified, blue))
	refused := looking().say("apiserver", "again", by(user, "create")).say("apiserver", "again", history.OpReturn{Code: 409})
	refused.looks(read("list", "", 4, items("", 3, 4))).say("apiserver", "again", by(user, "create"))
	refused.commit("again", web(added, pending, called("default/new", "u3"), func(c *history.Commit) { c.Created = 3 }))
	refused.long(5).say("apiserver", "again", history.OpReturn{Code: 201, Revision: 5}) // begun in the instant in which the first try was refused
	untold := looking().vanishes("away", uid).looks(read("get", name, 3))
	hooked := looking().vanishes("away", uid).consult("hooked", by(user, "delete"), says(history.HookDenied)).finish("hooked", 404).looks(read("get", name, 3))
	again := looking().vanishes("away", uid).ask("again", by(user, "delete"), 404).anew()
	during := looking()
	during.ask("away", by(user, "delete", grace(0)), 200, web(deleted, blue, marked(0, during.clock+2))).anew()
	during.vanishes("away again", "u4").looks(read("get", name, 0, code(404))).long(10).looks(read("get", name, 6))
	long := looking().vanishes("away", uid).anew().vanishes("away again", "u4")
	long.looks(read("get", name, 0, code(404))).long(20).looks(read("get", name, 6))
	early := looking().ask("early", by(user, "update"), 404).looks(read("get", name, 3)).vanishes("away", uid)
	return map[string]*forge{
		"a 404 of when it had gone before": during, "a 404 of the first of two": long, "a kind that is not there for a moment": early,
		"a removal that nobody was told of": untold, "a 404 of a webhook": hooked, "made again": again, "reads": f.file(), "blue": blueWatch(1, 2, 3), "future": future, "refused first": refused,
	}
}

// vanishes has the pod be removed by a request whose answer is lost.
func (f *forge) vanishes(cause, uid string) *forge {
	f.say("apiserver", cause, by(user, "delete", grace(0)))
	f.commit(cause, web(deleted, blue, called(name, uid), marked(0, f.clock)))
	return f
}

// anew has the pod be made again, and read at the revision of that.
func (f *forge) anew() *forge {
	f.ask("anew", by(user, "create"), 201, web(added, pending, called(name, "u4"), blue))
	return f.looks(read("get", name, f.revision))
}

// blueWatch is a watch of pods by a label, which is sent these revisions.
func blueWatch(revisions ...int64) *forge {
	f := newForge().say("apiserver", "", history.WatchOpen{Watch: "w", Resource: podResource, Selector: "app=blue", Scope: &history.Scope{Labels: "app=blue"}})
	f.evidence.Log.Events = append(f.evidence.Log.Events, looking().evidence.Log.Events[1:]...)
	f.clock, f.sequence["apiserver"] = 100, 100
	for i, revision := range revisions {
		f.say("apiserver", "", history.WatchEvent{Watch: "w", Type: []string{added, modified, modified}[i], Revision: revision, UID: uid})
	}
	return f
}

func brokenReads() []forged {
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
		{"A12", "a page without a next", read("list", "", 4, items("", 3), alone(false))},
		{"A12", "a page that begins again", read("list", "", 4, items("", 3), alone(true), behind(name, 4))},
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
	all := make([]forged, 0, len(cases))
	for _, c := range cases {
		f := looking().looks(c.read)
		if c.read.Revision == 5 || c.read.ReadOptions.Revision == "5" {
			f.ask("late", by(node, "update"), 200, web(modified, blue))
		}
		all = append(all, forged{c.id, c.what, f})
	}
	missed := looking().vanishes("away", uid).ask("again", by(user, "delete"), 404).looks(read("get", name, 3))
	unseen := looking().vanishes("away", uid).looks(read("get", name, 0, code(404)), read("get", name, 3))
	twice := looking().vanishes("away", uid).ask("again", by(user, "delete"), 404).anew().vanishes("away again", "u4")
	twice.ask("once more", by(user, "delete"), 404).looks(read("get", name, 6))
	gap := looking().say(kubelet, "", tookTo(2, 2))
	return append(all,
		forged{"A4", "a get of what a delete did not find", missed},
		forged{"A4", "a get of what a delete did not find, made again", twice},
		forged{"A4", "a get of what a get did not find", unseen},
		forged{"W5", "a consumer that is given changes twice", gap.say(kubelet, "", tookTo(3, 2, 3))},
		forged{"W7", "a consumer that misses a change", looking().say(kubelet, "", tookTo(3, 3))},
		forged{"W7", "a consumer that is given a change twice", looking().say(kubelet, "", tookTo(3, 2, 2, 3))},
		forged{"W3", "a label's pod left out", blueWatch(1, 3)},
		forged{"W3", "a pod of another label", blueWatch(1, 2, 4)},
		forged{"W8", "a copy that goes back", looking().say(kubelet, "", history.Relist{From: 4, To: 3})},
	)
}
