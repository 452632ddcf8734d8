package windows

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podfall/podfall/internal/history"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }

func scriptedStart(s int, node, pod, uid, container string) history.Event {
	return history.Event{Process: "runtime/" + node, Wall: at(s), Fact: history.Start{ContainerRef: history.ContainerRef{Pod: pod, UID: uid, Container: container}, Scripted: true}}
}

func process(node, uid, container string, pid int) history.Event {
	return history.Event{Process: "runtime/" + node, Fact: history.Process{ContainerRef: history.ContainerRef{Pod: "default/web", UID: uid, Container: container}, PID: pid}}
}

func programStart(s int, node, uid, container string) history.Event {
	return history.Event{Process: "runtime/" + node, Wall: at(s), Fact: history.Start{ContainerRef: history.ContainerRef{Pod: "default/web", UID: uid, Container: container}}}
}

func exit(s int, node, uid, container string) history.Event {
	return history.Event{Process: "runtime/" + node, Wall: at(s), Fact: history.Exit{ContainerRef: history.ContainerRef{Pod: "default/web", UID: uid, Container: container}}}
}

func TestFind(t *testing.T) {
	old := Incarnation{UID: "u1", Node: "a", Containers: []string{"c1"}, Scripted: 1}
	young := Incarnation{UID: "u2", Node: "b", Containers: []string{"c2"}, Scripted: 1}
	for name, c := range map[string]struct {
		events []history.Event
		want   []Window
	}{
		"one after the other": {[]history.Event{
			scriptedStart(1, "a", "default/web", "u1", "c1"), exit(4, "a", "u1", "c1"), scriptedStart(5, "b", "default/web", "u2", "c2"),
		}, nil},
		"at one instant": {[]history.Event{
			scriptedStart(1, "a", "default/web", "u1", "c1"), exit(5, "a", "u1", "c1"), scriptedStart(5, "b", "default/web", "u2", "c2"),
		}, nil},
		"programs, one of whose runtimes began again": {[]history.Event{
			programStart(1, "a", "u1", "c1"), process("a", "u1", "c1", 11), programStart(5, "b", "u2", "c2"), process("b", "u2", "c2", 12),
			process("a", "u1", "c1", 11),
		}, []Window{{Identity: "default/web", Incarnations: [2]Incarnation{
			{UID: "u1", Node: "a", Containers: []string{"c1"}, PIDs: []int{11}}, {UID: "u2", Node: "b", Containers: []string{"c2"}, PIDs: []int{12}},
		}, Begin: at(5), Took: 15}}},
		"a start that its runtime died before it recorded": {[]history.Event{
			scriptedStart(5, "b", "default/web", "u2", "c2"),
			{Process: "runtime/a", Wall: at(7), Fact: history.Recover{ContainerRef: history.ContainerRef{Pod: "default/web", UID: "u1", Container: "c1"}, Started: at(1), Scripted: true}},
			{Process: "runtime/b", Wall: at(7), Fact: history.Recover{ContainerRef: history.ContainerRef{Pod: "default/web", UID: "u2", Container: "c2"}, Started: at(5), Scripted: true}},
			exit(9, "a", "u1", "c1"),
		}, []Window{{Identity: "default/web", Incarnations: [2]Incarnation{old, young}, Begin: at(5), End: new(at(9)), Took: 4}}},
		"other names": {[]history.Event{scriptedStart(1, "a", "default/web", "u1", "c1"), scriptedStart(5, "b", "default/db", "u2", "c2")}, nil},
		"open": {[]history.Event{scriptedStart(1, "a", "default/web", "u1", "c1"), scriptedStart(5, "b", "default/web", "u2", "c2")}, []Window{
			{Identity: "default/web", Incarnations: [2]Incarnation{old, young}, Begin: at(5), Took: 15},
		}},
		"the older ends": {[]history.Event{
			scriptedStart(1, "a", "default/web", "u1", "c1"), scriptedStart(5, "b", "default/web", "u2", "c2"), exit(9, "a", "u1", "c1"),
		}, []Window{{Identity: "default/web", Incarnations: [2]Incarnation{old, young}, Begin: at(5), End: new(at(9)), Took: 4}}},
		"the younger ends": {[]history.Event{
			scriptedStart(1, "a", "default/web", "u1", "c1"), scriptedStart(5, "b", "default/web", "u2", "c2"), exit(7, "b", "u2", "c2"),
		}, []Window{{Identity: "default/web", Incarnations: [2]Incarnation{old, young}, Begin: at(5), End: new(at(7)), Took: 2}}},
	} {
		if diff := cmp.Diff(c.want, Find(c.events, at(20))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
