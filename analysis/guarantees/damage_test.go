package guarantees_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/podfall/podfall/analysis/guarantees"
	"github.com/podfall/podfall/internal/history"
)

// damage is a way to damage a history, in four bytes: the operation, the event, the field, and the
// new value.
type damage struct{ how, event, field, value byte }

// The operations.
const (
	removeEvent = iota
	repeatEvent
	swapFacts
	setField
	copyField
	dropField
	insertEvent
	ways
)

// The bits of a history's first byte.
const (
	// renumber closes the gaps in the sequence numbers, so that what is left is judged.
	renumber = 1 << iota
	// withStore adds the store's log from before the damage, and withItsDamage the log after it.
	withStore
	withDamagedStore
	// withPage writes the report page, too.
	withPage
)

// damagedHistory is a history that is being damaged.
type damagedHistory struct {
	events []history.Event
	// others provides the events that are inserted.
	others []history.Event
	torn   int
}

// applyAll applies all damages of a program.
func (h *damagedHistory) applyAll(program []byte) {
	for ; len(program) >= 4 && len(h.events) > 0; program = program[4:] {
		h.apply(damage{program[0], program[1], program[2], program[3]})
	}
}

func (h *damagedHistory) apply(d damage) {
	at, other := int(d.event)%len(h.events), int(d.value)%len(h.events)
	switch d.how % ways {
	case removeEvent:
		h.events = slices.Delete(h.events, at, at+1)
	case repeatEvent:
		again := h.events[at]
		again.Began, again.Ended, again.Wall = h.events[other].Began, h.events[other].Ended, h.events[other].Wall
		h.events = slices.Insert(h.events, other, again)
	case swapFacts:
		h.events[at].Fact, h.events[other].Fact = h.events[other].Fact, h.events[at].Fact
		h.events[at].Cause, h.events[other].Cause = h.events[other].Cause, h.events[at].Cause
	case setField:
		h.setField(at, d.field, func(string) json.RawMessage { return absurdValue(d.value) })
	case copyField:
		h.setField(at, d.field, func(name string) json.RawMessage {
			line, fact := encodeEvent(h.events[other])
			return cmp.Or(text(fact[name]), text(line[name])).raw()
		})
	case dropField:
		h.setField(at, d.field, func(string) json.RawMessage { return nil })
	case insertEvent:
		more := h.others[(int(d.field)<<8+int(d.value))%len(h.others)]
		more.Began, more.Ended, more.Wall = h.events[at].Began, h.events[at].Ended, h.events[at].Wall
		h.events = slices.Insert(h.events, at, more)
	}
}

// text is a JSON value that can be compared with "".
type text string

func (t text) raw() json.RawMessage {
	if t == "" {
		return nil
	}
	return json.RawMessage(t)
}

// encodeEvent returns the fields of an event's line, and of its fact.
func encodeEvent(e history.Event) (line, fact map[string]json.RawMessage) {
	written, err := json.Marshal(e)
	if err != nil {
		panic(err) // each event was read, or made
	}
	_ = json.Unmarshal(written, &line)
	_ = json.Unmarshal(line["fact"], &fact) // none has no fields
	if fact == nil {
		fact = map[string]json.RawMessage{}
	}
	return line, fact
}

// setField sets a field of an event; nil removes it. An event that cannot be decoded afterwards
// counts as torn.
func (h *damagedHistory) setField(at int, which byte, value func(name string) json.RawMessage) {
	line, fact := encodeEvent(h.events[at])
	names := fieldNames(reflect.TypeOf(h.events[at].Fact))
	ofLine := []string{"proc", "boot", "t0", "t1", "wall", "cause", "event", "seq"}
	i := int(which) % (len(names) + len(ofLine))
	if i < len(names) {
		put(fact, names[i], value(names[i]))
		line["fact"], _ = json.Marshal(fact)
	} else {
		put(line, ofLine[i-len(names)], value(ofLine[i-len(names)]))
	}
	written, _ := json.Marshal(line)
	var e history.Event
	if json.Unmarshal(written, &e) != nil {
		h.torn++
		h.events = slices.Delete(h.events, at, at+1)
		return
	}
	h.events[at] = e
}

func put(fields map[string]json.RawMessage, name string, value json.RawMessage) {
	if value == nil {
		delete(fields, name)
	} else {
		fields[name] = value
	}
}

// fieldNames returns the names of all fields of a fact type.
func fieldNames(fact reflect.Type) []string {
	if fact.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for field := range fact.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			names = append(names, fieldNames(field.Type)...)
		case name != "":
			names = append(names, name)
		}
	}
	return names
}

// absurdValue returns a value for a field: values found in histories, and values at the limits;
// higher numbers are small integers.
func absurdValue(which byte) json.RawMessage {
	values := []string{
		`null`, `-1`, `2147483647`, `-2147483648`, `9223372036854775807`, `-9223372036854775808`, `9007199254740993`, `true`, `false`,
		`""`, `"-1"`, `"7"`, `"9223372036854775807"`, `"u1"`, `"u2"`, `"c1"`, `"n1"`, `"default/web"`, `"default/web-0"`, `"web"`, `"/"`,
		`"apiserver"`, `"controllers"`, `"kubelet/n1"`, `"runtime/n2"`, `"node:n1"`, `"client:admin"`, `"bus"`,
		`"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00Z"`, `"1970-01-01T00:00:30Z"`, `"9999-12-31T23:59:59.999999999Z"`,
		`"ADDED"`, `"MODIFIED"`, `"DELETED"`, `"REMOVE"`, `"SIGKILL"`, `"Running"`, `"Succeeded"`, `"create"`, `"delete"`, `"watch"`, `"list"`, `"410"`,
		`"pods"`, `"nodes"`, `"statefulsets.apps"`, `"replicasets.apps"`, `"poddisruptionbudgets.policy"`, `"leases.coordination.k8s.io"`,
		`"a in (b"`, `"a=b"`, `"metadata.name=web"`, `"é\u0000\ufffd"`, `[]`, `{}`, `[null]`, `["u1"]`, `["foregroundDeletion"]`, `[{}]`,
		`{"a":"b"}`, `{"batch.kubernetes.io/job-completion-index":"0"}`, `{"selector":"a=b","allowed":-1}`, `["fault","cut","clock","down","paused"]`,
		`9223372036`, `-9223372036`, `{"spec":{"point":"clock.skew","where":{"process":"*"}}}`, `{"spec":{"parties":["n1"],"manner":"reset"}}`,
	}
	if int(which) < len(values) {
		return json.RawMessage(values[which])
	}
	number, _ := json.Marshal(int(which) - len(values))
	return number
}

// evidence returns what is left, with what the bits add.
func (h *damagedHistory) evidence(bits byte, before guarantees.Evidence) guarantees.Evidence {
	if bits&renumber != 0 {
		h.renumber()
	}
	var lines bytes.Buffer
	for _, e := range h.events {
		written, _ := json.Marshal(e)
		lines.Write(append(written, '\n'))
	}
	events, torn := history.Page{Lines: lines.String()}.Events()
	e := guarantees.Evidence{}
	switch {
	case bits&withDamagedStore != 0:
		e.Store = storeLog(events)
	case bits&withStore != 0:
		e.Store = storeLog(before.Log.Events)
	}
	e.Log = history.Merge(events, torn+h.torn)
	return e
}

// storeLog returns the store's log of a history.
func storeLog(events []history.Event) []history.Event {
	all := []history.Event{}
	for _, e := range events {
		switch e.Fact.(type) {
		case history.Commit, history.Compact:
			all = append(all, history.Event{Wall: e.Wall, Cause: e.Cause, Fact: e.Fact})
		}
	}
	return all
}

// renumber numbers the events of each boot again, in their order.
func (h *damagedHistory) renumber() {
	type boot struct{ process, boot string }
	of := map[boot][]*history.Event{}
	for i, e := range h.events {
		who := boot{e.Process, string(e.Boot)}
		of[who] = append(of[who], &h.events[i])
	}
	for all := range maps.Values(of) {
		slices.SortStableFunc(all, func(a, b *history.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
		for i, e := range all {
			e.Sequence = uint64(i + 1)
		}
	}
}
