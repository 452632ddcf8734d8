package guarantees

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

const leaseResource = "leases.coordination.k8s.io"

// unreachableAfter is the shortest time without a heartbeat after which a node may be tainted
// unreachable, over all imitated releases.
const unreachableAfter = 40 * time.Second

// staleStatusTime is how long a node may still be tainted unreachable after its heartbeats return.
// Its status stays old until the kubelet writes it again, which may take several attempts, and
// until a controller looks.
const staleStatusTime = 40 * time.Second

// relistTime is how much later controllers may hear of a heartbeat after they were cut off: they
// list everything first, and not at once.
const relistTime = 20 * time.Second

// unreachableTaint is the taint of a node without heartbeats.
const unreachableTaint = "node.kubernetes.io/unreachable"

// controllersWereDeaf reports whether the controllers may have received nothing between two events
// or shortly before, by the machine's clock. They take missing heartbeats for the node's silence.
func (h *clusterHistory) controllersWereDeaf(from, to *history.Event) bool {
	const shortly = int64(5 * time.Second)
	return slices.ContainsFunc(h.troubles, func(tr *trouble) bool { return tr.deafensControllers() && tr.mayOverlap(from.Began-shortly, to.Ended) })
}

// deafensControllers reports whether the trouble keeps heartbeats from the controllers.
func (tr *trouble) deafensControllers() bool {
	if tr.Kind == history.TroubleFault {
		heartbeat := fault.Attributes{
			Process: controllers, Client: controllers, Verb: string(watch.Modified), Resource: leaseResource, Namespace: corev1.NamespaceNodeLease,
		}
		return tr.fault.Spec.Matches(fault.WatchDeliver, heartbeat) && tr.fault.Spec.Effect.Kind != fault.Duplicate
	}
	about := func(name string) bool { return tr.What == name || slices.Contains(tr.CutOff, name) }
	return about(controllers) || about("apiserver") || about("bus")
}

// nodeHeartbeats holds the heartbeats that the controllers received.
type nodeHeartbeats struct {
	listings listings
	// byNode holds the heartbeats of each node, in order.
	byNode map[string][]heartbeat
}

// heartbeat is a heartbeat that the controllers received.
type heartbeat struct {
	*commit
	received *history.Event
	// endsSilence says that the silence before was long enough to taint the node.
	endsSilence bool
}

func (h *clusterHistory) heartbeats() nodeHeartbeats {
	return nodeHeartbeats{listings: h.listingsOf(leaseResource), byNode: map[string][]heartbeat{}}
}

// heartbeatNode returns the node that renewed its own lease with a commit; empty for other commits.
func heartbeatNode(c *commit) string {
	if c.Resource != leaseResource || c.Op == deleted {
		return ""
	}
	if c.object.namespace != corev1.NamespaceNodeLease || c.operation == nil || c.operation.node != c.object.name {
		return ""
	}
	return c.object.name
}

// add adds a node's heartbeat.
func (beats nodeHeartbeats) add(h *clusterHistory, node string, c *commit) {
	received, answered := beats.listings.delivery(c)
	if !answered {
		return
	}
	beat := heartbeat{commit: c, received: received.Event}
	if all := beats.byNode[node]; len(all) > 0 {
		last := all[len(all)-1].received
		_, silent := elapsed(last, beat.received)
		beat.endsSilence = silent >= unreachableAfter || silent >= unreachableAfter-relistTime && h.controllersWereDeaf(last, beat.received)
	}
	beats.byNode[node] = append(beats.byNode[node], beat)
}

// lastBefore returns the node's last heartbeat that was received before an event; nil for none.
// recovering reports that a long silence ended so shortly before that the node's status may still
// be old.
func (beats nodeHeartbeats) lastBefore(node string, at *history.Event) (last *history.Event, recovering bool) {
	for _, beat := range slices.Backward(beats.byNode[node]) {
		if !before(beat.received, at) {
			continue
		}
		if last == nil {
			last = beat.Event
		}
		if beat.endsSilence {
			_, since := elapsed(beat.received, at)
			return last, since <= staleStatusTime
		}
	}
	return last, false
}

// checkEvictionNotEarly checks C6: a node is tainted unreachable only after a long enough silence.
// A pod is evicted only when its toleration is over. Either clock counts, the machine's or the
// cluster's.
func checkEvictionNotEarly(h *clusterHistory, t *tally) {
	beats := h.heartbeats()
	taints := map[string][]*commit{} // by node: the commits that changed its NoExecute taints
	for _, c := range h.commits {
		switch {
		case !c.recorded && c.Resource == "nodes": // time unknown: known from the store file only
			taints[c.Key] = append(taints[c.Key], c)
		case !c.recorded || c.Began < h.completeFrom:
		case c.Resource == "nodes":
			h.checkUnreachable(t, beats, c)
			if c.replaced == nil || !slices.Equal(c.replaced.NoExecuteTaints, c.NoExecuteTaints) {
				taints[c.Key] = append(taints[c.Key], c)
			}
		default:
			if node := heartbeatNode(c); node != "" {
				beats.add(h, node, c)
			}
		}
	}
	h.checkTaintEvictions(t, taints)
}

// checkUnreachable checks a commit that taints a node as unreachable.
func (h *clusterHistory) checkUnreachable(t *tally, beats nodeHeartbeats, c *commit) {
	if !isUnreachable(c) || c.replaced != nil && isUnreachable(c.replaced) {
		return
	}
	last, recovering := beats.lastBefore(c.Key, c.Event)
	if last == nil || h.clockMayBeWrong(controllers, last.Began, c.Ended) || h.controllersWereDeaf(last, c.Event) {
		return
	}
	_, silent := elapsed(last, c.Event)
	t.expect(silent >= unreachableAfter || recovering, "a node was tainted unreachable a moment after its heartbeat", last, c.Event)
}

func isUnreachable(node *commit) bool {
	return slices.ContainsFunc(node.NoExecuteTaints, func(taint string) bool { return strings.HasPrefix(taint, unreachableTaint+"=") })
}

// checkTaintEvictions checks the deletes of the taint eviction controller.
func (h *clusterHistory) checkTaintEvictions(t *tally, taints map[string][]*commit) {
	h.eachDecision(func(d history.Decide, decided *history.Event, o *operation) {
		if d.Controller != "taint-eviction-controller" || d.Action != "delete" || d.Resource != podResource || len(o.commits) == 0 {
			return
		}
		pod := o.commits[0].replaced
		if pod == nil || pod.Created == 0 || pod.Node == "" || h.clockMayBeWrong(controllers, h.completeFrom, decided.Ended) || o.PreUID == "" && h.wasJustReplaced(pod, decided) {
			return
		}
		since, patience := h.taintedSince(taints[pod.Node], pod, h.evictionStart(d, decided, pod))
		if since == nil {
			t.expect(len(taints[pod.Node]) == 0, "a pod was evicted from a node without a taint that evicts", pod.Event, decided)
			return
		}
		_, waited := elapsed(since.Event, o.calls[0])
		t.expect(patience >= 0, "a pod was evicted that tolerates the taints of its node", since.Event, pod.Event, decided)
		t.expect(waited+time.Second >= patience, "a pod was evicted before what it tolerates was over", since.Event, pod.Event, decided)
	})
}

// clientRetryTime is how long a client retries a request.
const clientRetryTime = 30 * time.Second

// wasJustReplaced reports whether another pod had the same name so shortly before that the decision
// may be about that pod. The delete of an eviction names no UID, as upstream's (CTL-06).
func (h *clusterHistory) wasJustReplaced(pod *commit, decided *history.Event) bool {
	first := h.byUID[pod.UID][0]
	if _, since := elapsed(first.Event, decided); since > clientRetryTime {
		return false
	}
	return slices.ContainsFunc(h.commits, func(c *commit) bool {
		return c.Resource == podResource && c.Key == pod.Key && c.UID != pod.UID && c.Revision < first.Revision
	})
}

// evictionStart returns when an eviction was decided on. The controller writes the pod's condition
// first and goes on when that is answered, within the retry time of a client. It does not look at
// the node again, as upstream.
func (h *clusterHistory) evictionStart(d history.Decide, decided *history.Event, pod *commit) *history.Event {
	first := decided
	for e, decision := range factsOf[history.Decide](h) {
		if e.Boot != decided.Boot || decision.Controller != d.Controller || decision.Action != "patch" || decision.Key != d.Key || !before(e, decided) {
			continue
		}
		o := h.byID[e.Cause]
		_, ago := elapsed(e, decided)
		if o != nil && ago <= clientRetryTime && slices.ContainsFunc(o.commits, func(c *commit) bool { return c.UID == pod.UID }) {
			first = e
		}
	}
	return first
}

// taintInfoAge is how long a controller may not have heard that a taint is gone.
const taintInfoAge = 10 * time.Second

// mayHaveMissed reports whether the controllers could have decided before the commit reached them.
// They have newsDelay to hear of it. Time counts only while they receive: a trouble that deafens
// them extends it. Work that came due meanwhile is done before they hear of the commit. Unless they
// were only paused, they also have to list everything first.
func (h *clusterHistory) mayHaveMissed(c *commit, decided *history.Event, newsDelay time.Duration) bool {
	since, limit := c.Began, newsDelay
	isWithinLimit := func(until int64) bool { return max(time.Duration(until-since), h.minPassed(since, until)) <= limit }
	for _, tr := range h.troubles {
		if tr.deafensControllers() && tr.mayOverlap(since, decided.Ended) && isWithinLimit(tr.since()) {
			since = max(since, tr.until())
			if tr.Kind != history.TroublePaused || tr.What != controllers {
				limit = newsDelay + relistTime
			}
		}
	}
	return since >= decided.Ended || isWithinLimit(decided.Ended)
}

// taintedSince returns the commit since which the node had NoExecute taints when a pod was evicted,
// or shortly before; nil for none. patience is the shortest time for which the pod tolerates one of
// them.
func (h *clusterHistory) taintedSince(changes []*commit, pod *commit, decided *history.Event) (since *commit, patience time.Duration) {
	patience = -1
	for _, c := range changes {
		switch {
		case c.Began > decided.Ended:
			return since, patience
		case len(c.NoExecuteTaints) > 0:
			if since == nil {
				since = c
			}
			if tolerated := pod.toleratesFor(c.NoExecuteTaints); tolerated >= 0 && (patience < 0 || tolerated < patience) {
				patience = tolerated
			}
		case since != nil && c.recorded && !h.mayHaveMissed(c, decided, taintInfoAge):
			since, patience = nil, -1
		}
	}
	return since, patience
}

// toleratesFor returns how long a pod tolerates taints; negative for ever.
func (c *commit) toleratesFor(taints []string) time.Duration {
	shortest := time.Duration(-1)
	for _, taint := range taints {
		patience := time.Duration(0)
		for _, toleration := range c.Tolerations {
			selector, seconds, _ := strings.Cut(toleration, ":")
			key, _, _ := strings.Cut(taint, "=")
			if selector != "" && selector != key && selector != taint {
				continue
			}
			n, err := strconv.Atoi(seconds)
			if err != nil {
				n = -1
			}
			patience = time.Duration(n) * time.Second
			break
		}
		if patience >= 0 && (shortest < 0 || patience < shortest) {
			shortest = patience
		}
	}
	return shortest
}

// eachDecision visits the controllers' decisions with the operations that carried them out.
func (h *clusterHistory) eachDecision(visit func(history.Decide, *history.Event, *operation)) {
	for e, fact := range factsOf[history.Decide](h) {
		if o := h.byID[e.Cause]; o != nil && e.Cause != "" {
			visit(fact, e, o)
		}
	}
}
