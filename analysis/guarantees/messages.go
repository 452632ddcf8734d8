package guarantees

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto"
)

// onceDone checks N1: an operation takes effect once, however often it is sent.
func onceDone(p *past, t *trial) {
	type what struct {
		cause, op string
		of        *object
		// resource is of's, where there is one.
		resource string
	}
	first, evicted := map[what]*commit{}, map[what]bool{}
	for _, c := range p.commits {
		if c.Cause == "" || c.Cause == bootstrap {
			continue
		}
		key := what{c.Cause, c.Op, c.of, c.Resource}
		if c.Op == modified && c.by != nil && c.by.Subresource == "eviction" && !evicted[key] {
			evicted[key] = true
			continue // an eviction writes the pod's condition before it marks the pod
		}
		if c.Op == added {
			key.of = nil // what is created again may be given another name
		}
		t.expect(first[key] == nil, "an operation took effect twice", eventOf(first[key]), c.Event)
		first[key] = c
	}
}

// identified checks N4: a kubelet changes what is on its node.
func identified(p *past, t *trial) {
	for _, o := range p.operations {
		node := o.node
		if node == "" {
			continue
		}
		for _, c := range o.commits {
			switch c.Resource {
			case podResource:
				t.expect(c.Node == node, "a kubelet changed a pod of another node", o.calls[0], c.Event)
			case "nodes":
				t.expect(c.Key == node, "a kubelet changed another node", o.calls[0], c.Event)
			case leaseResource:
				t.expect(c.Key == "kube-node-lease/"+node, "a kubelet changed another node's lease", o.calls[0], c.Event)
			}
		}
	}
}

// fenced checks N6: once a kubelet's new incarnation has been answered, an older one is
// not.
func fenced(p *past, t *trial) {
	// newest has the first words of the newest incarnations that were answered, and heard all of
	// them: one that is silent for long may be replaced by an older one.
	newest, heard := map[string]*history.Event{}, map[string][]*history.Event{}
	written := map[string]proto.Boot{} // what their nodes say
	for _, e := range p.events {
		switch fact := e.Fact.(type) {
		case history.Ready:
			written[e.Process] = e.Boot
		case history.Commit:
			if fact.Resource == "nodes" && fact.Op == deleted {
				delete(written, "kubelet/"+fact.Key)
			}
			continue
		case history.KubeletStatus, history.Lease:
		case history.StoreOpen: // an apiserver that begins anew knows what nodes say
			maps.DeleteFunc(newest, func(kubelet string, last *history.Event) bool { return written[kubelet] != last.Boot })
			for kubelet := range newest {
				heard[kubelet] = append(heard[kubelet], e)
			}
			continue
		default:
			continue
		}
		last := newest[e.Process]
		switch {
		case nodeOf(e.Process) == "":
		case last == nil || last.Boot.OlderThan(e.Boot):
			if last != nil {
				t.cases++
			}
			newest[e.Process], heard[e.Process] = e, []*history.Event{e}
		case e.Boot.OlderThan(last.Boot): // it may be told of late what it was answered before
			before, _ := slices.BinarySearchFunc(heard[e.Process], e.Began, func(h *history.Event, at int64) int { return cmp.Compare(h.Ended, at) })
			silent := before > 0 && e.Began-heard[e.Process][before-1].Ended > keepsOut
			t.expect(e.Began <= last.Ended || silent, "an older incarnation was answered after a newer one", last, e)
		default:
			heard[e.Process] = append(heard[e.Process], e)
		}
	}
	p.letIn(t)
}

// keepsOut is how long, at least, the apiserver keeps an older incarnation out after it has
// heard the newer.
const keepsOut = int64(4 * time.Second)

// letIn looks at the requests of kubelets that the apiserver has let in: after one of a newer
// incarnation it lets none of an older in, as long as it runs itself. What came at the same
// time may have passed the other on its way.
func (p *past) letIn(t *trial) {
	type link struct {
		who string
		to  proto.Boot
	}
	newest := map[link]*history.Event{} // by who, and the apiserver that heard it
	for e, call := range factsOf[history.OpCall](p) {
		if nodeOf(call.Who) == "" || call.Boot == "" || p.apiserverAway(e.Began-int64(time.Second), e.Ended) {
			continue
		}
		key := link{call.Who, e.Boot}
		last := newest[key]
		if last == nil {
			newest[key] = e
			continue
		}
		if heard, _ := last.Fact.(history.OpCall); !proto.Boot(call.Boot).OlderThan(proto.Boot(heard.Boot)) {
			newest[key] = e
			continue
		}
		since := e.Began - last.Ended
		t.expect(since <= eps || since > keepsOut, "a request of an older incarnation was let in after one of a newer", last, e)
	}
}

// belated is how much later than a deadline a change may begin, for a busy machine's timers.
const belated = time.Second

// inTime checks N2: what a request changes is begun before its deadline. A request that is
// sent again has the same. An apiserver that stands still when it has looked at the clock, and
// there was time left, does not know how late it is when it goes on.
func inTime(p *past, t *trial) {
	for _, o := range p.operations {
		last, left := int64(0), int64(math.MaxInt64)
		for _, call := range o.calls {
			said, _ := call.Fact.(history.OpCall)
			if said.Left == nil {
				last = math.MaxInt64
				break
			}
			last, left = max(last, call.Ended+*said.Left*int64(time.Millisecond)), min(left, *said.Left)
		}
		for _, c := range o.commits {
			if last == math.MaxInt64 || !c.recorded {
				continue
			}
			until := last
			if left > 0 && c.Began > last {
				until = p.goesOn(last, c.Began)
			}
			t.expect(c.Began <= until+int64(belated), "a request took effect after its deadline", o.calls[0], c.Event)
		}
	}
}

// goesOn is when an apiserver that may have been paused at a moment, or within a second of it
// again, went on, as far as another; the first moment if it was not.
func (p *past) goesOn(from, until int64) int64 {
	for _, o := range p.troubles {
		if o.Kind == history.TroublePaused && o.What == "apiserver" && o.touches(from, min(from+int64(belated), until)) {
			from = max(from, min(o.until(), until))
		}
	}
	return from
}

// unimpressed checks N5: what is no request is refused with a code of 400 or more but below
// 500, and who refuses it goes on.
func unimpressed(p *past, t *trial) {
	for e, fact := range factsOf[history.Refused](p) {
		t.expect(refused(fact.Code), "what is no request was not refused as such", e)
		if told := p.incarnation(e).events; told[len(told)-1] != e {
			t.cases++ // who goes on has something to tell
		}
	}
}
