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

// checkOneEffect checks N1: an operation takes effect once, however often it is sent.
func checkOneEffect(h *clusterHistory, t *tally) {
	type what struct {
		cause, op string
		of        *object
		// resource is the resource of the object, if there is one.
		resource string
	}
	first, evicted := map[what]*commit{}, map[what]bool{}
	for _, c := range h.commits {
		if c.Cause == "" || c.Cause == bootstrap {
			continue
		}
		key := what{c.Cause, c.Op, c.object, c.Resource}
		if c.Op == modified && c.operation != nil && c.operation.Subresource == "eviction" && !evicted[key] {
			evicted[key] = true
			continue // an eviction writes the pod's condition before it marks the pod
		}
		if c.Op == added {
			key.of = nil // a repeated create may generate another name
		}
		t.expect(first[key] == nil, "an operation took effect twice", eventOf(first[key]), c.Event)
		first[key] = c
	}
}

// checkNodeRestriction checks N4: a kubelet changes only what is on its node.
func checkNodeRestriction(h *clusterHistory, t *tally) {
	for _, o := range h.operations {
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

// checkOlderBoots checks N6: once a new boot of a kubelet has been answered, older boots are not.
func checkOlderBoots(h *clusterHistory, t *tally) {
	// newest holds the first answered event of each kubelet's newest boot, and answered all of that
	// boot's: a boot that is silent for long may be replaced by an older one.
	newest, answered := map[string]*history.Event{}, map[string][]*history.Event{}
	written := map[string]proto.Boot{} // the boots in the status of their nodes
	for _, e := range h.events {
		switch fact := e.Fact.(type) {
		case history.Ready:
			written[e.Process] = e.Boot
		case history.Commit:
			if fact.Resource == "nodes" && fact.Op == deleted {
				delete(written, "kubelet/"+fact.Key)
			}
			continue
		case history.KubeletStatus, history.Lease:
		case history.StoreOpen: // a restarted apiserver knows only the boots in the status of nodes
			maps.DeleteFunc(newest, func(kubelet string, last *history.Event) bool { return written[kubelet] != last.Boot })
			for kubelet := range newest {
				answered[kubelet] = append(answered[kubelet], e)
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
			newest[e.Process], answered[e.Process] = e, []*history.Event{e}
		case e.Boot.OlderThan(last.Boot): // an answer may be recorded later than it was given
			before, _ := slices.BinarySearchFunc(answered[e.Process], e.Began, func(event *history.Event, at int64) int { return cmp.Compare(event.Ended, at) })
			silent := before > 0 && e.Began-answered[e.Process][before-1].Ended > olderBootBan
			t.expect(e.Began <= last.Ended || silent, "an older boot was answered after a newer one", last, e)
		default:
			answered[e.Process] = append(answered[e.Process], e)
		}
	}
	h.checkOlderBootRequests(t)
}

// olderBootBan is how long, at least, the apiserver rejects an older boot after it heard a newer
// one, in ns.
const olderBootBan = int64(4 * time.Second)

// checkOlderBootRequests checks the kubelet requests that the apiserver accepted. After a request
// of a newer boot it accepts none of an older boot, for as long as it runs itself. Requests that
// came at the same time may have overtaken each other.
func (h *clusterHistory) checkOlderBootRequests(t *tally) {
	type link struct {
		who string
		to  proto.Boot
	}
	newest := map[link]*history.Event{} // by kubelet and apiserver boot
	for e, call := range factsOf[history.OpCall](h) {
		if nodeOf(call.Identity) == "" || call.Boot == "" || h.apiserverWasAway(e.Began-int64(time.Second), e.Ended) {
			continue
		}
		key := link{call.Identity, e.Boot}
		last := newest[key]
		if last == nil {
			newest[key] = e
			continue
		}
		if lastCall, _ := last.Fact.(history.OpCall); !proto.Boot(call.Boot).OlderThan(proto.Boot(lastCall.Boot)) {
			newest[key] = e
			continue
		}
		since := e.Began - last.Ended
		t.expect(since <= recordDelay || since > olderBootBan, "a request of an older boot was accepted after one of a newer boot", last, e)
	}
}

// deadlineSlack is how much later than its deadline a change may begin, for timers on a busy
// machine.
const deadlineSlack = time.Second

// checkDeadline checks N2: a change begins before its request's deadline. A retried request keeps
// its deadline. An apiserver that is paused after it checked the clock, with time left, does not
// notice that it is late.
func checkDeadline(h *clusterHistory, t *tally) {
	for _, o := range h.operations {
		deadline, left := int64(0), int64(math.MaxInt64)
		for _, call := range o.calls {
			fact, _ := call.Fact.(history.OpCall)
			if fact.TimeLeft == nil {
				deadline = math.MaxInt64
				break
			}
			deadline, left = max(deadline, call.Ended+*fact.TimeLeft*int64(time.Millisecond)), min(left, *fact.TimeLeft)
		}
		for _, c := range o.commits {
			if deadline == math.MaxInt64 || !c.recorded {
				continue
			}
			until := deadline
			if left > 0 && c.Began > deadline {
				until = h.resumedAt(deadline, c.Began)
			}
			t.expect(c.Began <= until+int64(deadlineSlack), "a request took effect after its deadline", o.calls[0], c.Event)
		}
	}
}

// resumedAt returns when an apiserver pause at `from`, or within a second of it, ended, but not
// later than `until`. Without a pause it returns `from`.
func (h *clusterHistory) resumedAt(from, until int64) int64 {
	for _, tr := range h.troubles {
		if tr.Kind == history.TroublePaused && tr.What == "apiserver" && tr.mayOverlap(from, min(from+int64(deadlineSlack), until)) {
			from = max(from, min(tr.until(), until))
		}
	}
	return from
}

// checkMalformedRequests checks N5: malformed requests are refused with a 4xx code, and the
// refusing process goes on.
func checkMalformedRequests(h *clusterHistory, t *tally) {
	for e, fact := range factsOf[history.OpRefused](h) {
		t.expect(isClientError(fact.Code), "a malformed request was not refused as such", e)
		if recorded := h.bootOf(e).events; recorded[len(recorded)-1] != e {
			t.cases++ // a process that goes on records more events
		}
	}
}
