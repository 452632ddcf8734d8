package guarantees

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podfall/podfall/internal/history"
)

// HandMadeHistories returns the histories that are made by hand, for tests of other readers of
// histories: one with every fact type, those that keep every invariant, and those that violate one.
func HandMadeHistories() []Evidence {
	made := []Evidence{everyFact().evidence}
	keeping := validHistories()
	for _, more := range []map[string]*builder{validTroubles(), validReads(), validDetails(), falseAlarms(), validExplanations(), validDependents(), validBudgets(), validVolumes()} {
		maps.Copy(keeping, more)
	}
	for _, what := range slices.Sorted(maps.Keys(keeping)) {
		made = append(made, keeping[what].evidence)
	}
	for _, c := range slices.Concat(storeViolations(), webhookViolations(), watchViolations(), deletionViolations(), nodeViolations(), otherViolations(), livenessViolations(), explanationViolations(), readViolations(), detailViolations(), dependentViolations(), budgetViolations(), volumeViolations()) {
		made = append(made, c.history.evidence)
	}
	return made
}

// everyFact deletes a pod and then records a fact of each type about it.
func everyFact() *builder {
	b := newBuilder().deletePod()
	for name := range strings.FieldsSeq(factNames) {
		process := map[byte]string{'k': kubelet, 'r': runtime, 'c': controllers, 'n': controllers, 'u': controllers}[name[0]]
		if process == "" {
			process = "apiserver"
		}
		b.record(process, "create", factOf(name))
	}
	return b
}

// factNames names all facts except h.lost, which ends a history.
const factNames = `op.call op.ret op.hook op.read op.refused commit fsync compact store.err store.open
	w.open w.ev w.end w.took w.list k.boot k.stop k.see k.term k.stuck k.status k.final k.forget
	rt.create rt.start rt.takeup rt.pid rt.poststart.begin rt.poststart.end rt.prestop.begin rt.prestop.end
	rt.sig.begin rt.sig rt.exit rt.rm rt.sb.stop rt.sb.rm rt.mount rt.umount c.decide n.lease n.ready
	f.begin f.end f.hit f.watch ui.window ui.blocker p.stall`

// factOf returns a fact of a name with all its fields set.
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
