package kubelet

import (
	"errors"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// TestTellByAnotherClock has a kubelet's clock set ahead and back: what it says of its contacts and
// of its work is as long ago as it was.
func TestTellByAnotherClock(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	passes := began
	c := NewContacts(func() time.Time { return passes })
	c.BeginRequest(proto.VerbGet, podapi.Target{}, "")(nil)
	passes = passes.Add(5 * time.Second)
	c.BeginRequest(proto.VerbGet, podapi.Target{}, "")(errors.New("no answer"))
	c.BeginCall("StopContainer", "c1")
	passes = passes.Add(2 * time.Second)
	for _, off := range []time.Duration{0, -17 * time.Second, 24 * time.Hour} {
		said := inspect.Kubelet{
			Self: inspect.Self{Began: began, Now: passes.Add(off)}, Pods: []inspect.PodWorker{{Since: began, First: passes}, {}},
		}
		c.Fill(&said)
		work := [3]time.Duration{said.Now.Sub(said.Began), said.Now.Sub(said.Pods[0].Since), said.Now.Sub(said.Pods[0].First)}
		if want := [3]time.Duration{7 * time.Second, 7 * time.Second, 0}; work != want {
			t.Errorf("a clock that is %v off: it began, and a pod's step and failure did, %v ago, want %v", off, work, want)
		}
		if idle := said.Pods[1]; !idle.Since.IsZero() || !idle.First.IsZero() {
			t.Errorf("a pod at which nothing is done or fails has %v and %v", idle.Since, idle.First)
		}
		ago := [3]time.Duration{said.Now.Sub(said.API.Last), said.Now.Sub(said.API.Failing), said.Now.Sub(said.Calls[0].Since)}
		if want := [3]time.Duration{7 * time.Second, 2 * time.Second, 2 * time.Second}; ago != want {
			t.Errorf("a clock that is %v off: heard, failed and called %v ago, want %v", off, ago, want)
		}
		if !said.Runtime.Last.IsZero() {
			t.Errorf("a runtime that was never asked answered at %v", said.Runtime.Last)
		}
	}
}

// TestContactWithTheRuntime tells what an error says about the runtime: that it has answered, that it is
// away, or, when a call's deadline was over in the runtime's own words, nothing.
func TestContactWithTheRuntime(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	over := began.Add(time.Minute)
	for name, row := range map[string]struct {
		err  error
		want inspect.Contact
	}{
		"done":       {nil, inspect.Contact{Last: over}},
		"refused":    {&proto.RuntimeError{Code: proto.CodeNotFound}, inspect.Contact{Last: over}},
		"slow":       {&proto.RuntimeError{Code: proto.CodeDeadlineExceeded}, inspect.Contact{}},
		"unanswered": {&proto.RuntimeError{Code: proto.CodeDeadlineExceeded, Unanswered: true}, inspect.Contact{Failing: began, Err: "rpc error: code = DeadlineExceeded desc = "}},
		"away":       {&proto.RuntimeError{Code: proto.CodeUnavailable}, inspect.Contact{Failing: began, Err: "rpc error: code = Unavailable desc = "}},
	} {
		passes := began
		c := NewContacts(func() time.Time { return passes })
		answered := c.BeginCall("StopContainer", "c1")
		passes = over
		answered(row.err)
		said := inspect.Kubelet{Self: inspect.Self{Now: over}}
		c.Fill(&said)
		if said.Runtime != row.want {
			t.Errorf("%s: %+v, want %+v", name, said.Runtime, row.want)
		}
	}
}
