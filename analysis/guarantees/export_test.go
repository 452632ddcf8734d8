package guarantees

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// Made are the histories that are made by hand, for tests of those who show them too: one with
// a fact of each type, those that keep every promise, and those that break one.
func Made() []Evidence {
	made := []Evidence{everything().evidence}
	keeping := whole()
	for _, more := range []map[string]*forge{lively(), reading(), telling(), forgiven(), explaining(), dependents(), budgets(), disks()} {
		maps.Copy(keeping, more)
	}
	for _, what := range slices.Sorted(maps.Keys(keeping)) {
		made = append(made, keeping[what].evidence)
	}
	for _, c := range slices.Concat(brokenStore(), brokenWebhooks(), brokenWatches(), brokenDeletions(), brokenNodes(), brokenOthers(), brokenLiveness(), brokenExplanations(), brokenReads(), brokenTellings(), brokenDependents(), brokenBudgets(), brokenDisks()) {
		made = append(made, c.history.evidence)
	}
	return made
}

// everything is a pod's life, and behind it a fact of each type about that pod.
func everything() *forge {
	f := newForge().whole()
	for name := range strings.FieldsSeq(names) {
		process := map[byte]string{'k': kubelet, 'r': runtime, 'c': controllers, 'n': controllers, 'u': controllers}[name[0]]
		if process == "" {
			process = "apiserver"
		}
		f.say(process, "create", factOf(name))
	}
	return f
}

// names are those of all facts but of what ends a history, h.lost.
const names = `op.call op.ret op.hook op.read op.refused commit fsync compact store.err store.open
	w.open w.ev w.end w.took w.list k.boot k.stop k.see k.term k.stuck k.status k.final k.forget
	rt.create rt.start rt.takeup rt.pid rt.poststart.begin rt.poststart.end rt.prestop.begin rt.prestop.end
	rt.sig.begin rt.sig rt.exit rt.rm rt.sb.stop rt.sb.rm rt.mount rt.umount c.decide n.lease n.ready
	f.begin f.end f.hit f.watch ui.window ui.blocker p.stall`

// factOf is a fact of a name that has all fields.
func factOf(name string) history.Fact {
	for _, revision := range []string{"7", `"7"`} {
		line := fmt.Sprintf(`{"seq":1,"proc":"apiserver","event":%q,"fact":{"pod":"default/web","uid":"u1","ctr":"c1","node":"n1","rv":%s,
			"who":"client:admin","verb":"list","resource":"pods","key":"default/web","code":200,"op":"MODIFIED","delTs":"1970-01-01T00:01:00Z",
			"delGrace":30,"phase":"Running","finalizers":["a"],"g":30,"ctl":"garbage-collector-controller","action":"delete","val":"True",
			"w":%s,"type":"ADDED","from":%s,"to":7,"n":1,"kind":"paused","fault":"apiserver","kinds":["fault","cut","clock","down","paused"],
			"identity":"default/web","uids":["u1","u2"],"begin":"1970-01-01T00:00:10Z","reason":"unexplained","vol":"v","sig":"SIGTERM","crc_ok":true}}`,
			name, revision, map[bool]string{true: "7", false: `"w.7"`}[name == "w.took"], map[bool]string{true: `"b"`, false: "3"}[name == "op.call"])
		var e history.Event
		if json.Unmarshal([]byte(line), &e) == nil {
			return e.Fact
		}
	}
	panic(name + " has a field of another type")
}
