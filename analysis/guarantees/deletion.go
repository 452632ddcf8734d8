package guarantees

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/history"
)

// effect is what an operation did to one pod.
type effect struct {
	*operation

	// prior is the pod before the operation; nil if unknown.
	prior *commit
	// made holds the operation's commits of the pod, in order.
	made []*commit
}

// removes reports whether the operation removed the pod.
func (e effect) removes() bool { return e.made[len(e.made)-1].Op == deleted }

func (e effect) evidence(more ...*history.Event) []*history.Event {
	all := []*history.Event{eventOf(e.prior), e.calls[0]}
	for _, c := range e.made {
		all = append(all, c.Event)
	}
	return append(all, more...)
}

// findEffects returns the effects of operations on pods that are in the history completely.
func (h *clusterHistory) findEffects() []effect {
	var all []effect
	for _, pod := range h.completePods() {
		for i := 0; i < len(pod.commits); {
			c := pod.commits[i]
			next := i + 1
			for next < len(pod.commits) && pod.commits[next].Cause == c.Cause {
				next++
			}
			if c.operation != nil {
				all = append(all, effect{c.operation, c.replaced, pod.commits[i:next]})
			}
			i = next
		}
	}
	return all
}

// deletes returns the effects of deletes of existing pods.
func (h *clusterHistory) deletes() []effect {
	var all []effect
	for _, e := range h.effects() {
		if e.Verb == "delete" && e.Resource == podResource && e.prior != nil {
			all = append(all, e)
		}
	}
	return all
}

func hasEnded(c *commit) bool { return phaseRank(c.Phase) == terminalRank }

// checkGracefulDelete checks D1: a graceful delete of a bound pod only marks it.
func checkGracefulDelete(h *clusterHistory, t *tally) {
	for _, e := range h.deletes() {
		first := e.made[0]
		if e.prior.Node == "" || hasEnded(e.prior) || e.prior.Deadline != nil || first.Grace == nil || e.Grace != nil && *e.Grace == 0 {
			continue
		}
		if e.hasZeroOwnGrace() {
			continue
		}
		t.expect(!e.removes(), "a graceful delete removed a pod that may run", e.evidence()...)
		if first.Deadline == nil || *first.Grace == 0 || h.clockMayBeWrong("apiserver", e.calls[0].Began, first.Ended) {
			continue
		}
		// The call may have been recorded later than the apiserver took the time.
		began, grace := e.calls[0].Wall.Add(time.Second-h.clockError()), time.Duration(*first.Grace)*time.Second
		if first.Wall.Before(began) {
			continue // the clock was set back in between
		}
		t.expect(!first.Deadline.Before(began.Add(grace-time.Second)) && !first.Deadline.After(first.Wall.Add(grace+time.Second)),
			"a deletionTimestamp is not the time of the delete and the grace period", e.evidence()...)
	}
}

// checkGracePeriod checks D2: which grace period a delete sets.
func checkGracePeriod(h *clusterHistory, t *tally) {
	for _, e := range h.deletes() {
		first := e.made[0]
		if e.prior.Deadline != nil || first.Grace == nil {
			continue
		}
		switch {
		case e.prior.Node == "" || hasEnded(e.prior):
			t.expect(*first.Grace == 0, "a pod that cannot run was given a grace period", e.evidence()...)
		case e.Grace == nil && e.prior.SpecGrace == nil: // an older release did not record it
		case e.Grace == nil:
			t.expect(*first.Grace == max(0, *e.prior.SpecGrace) || *e.prior.SpecGrace < 0, "another grace period holds than the pod's own", e.evidence()...)
		case *e.Grace < 0:
			t.expect(*first.Grace == 1, "a negative grace period is not one second", e.evidence()...)
		default:
			t.expect(*first.Grace == *e.Grace, "another grace period holds than was asked for", e.evidence()...)
		}
	}
}

// checkGraceOnlyShrinks checks D3: a later delete can only shorten the grace period.
func checkGraceOnlyShrinks(h *clusterHistory, t *tally) {
	for _, e := range h.deletes() {
		first := e.made[0]
		if e.prior.Deadline == nil || e.prior.Grace == nil || first.Grace == nil || first.Deadline == nil || first.Op == deleted {
			continue
		}
		t.expect(*first.Grace <= *e.prior.Grace, "a later delete made the grace period longer", e.evidence()...)
		if h.clockMayBeWrong("apiserver", e.prior.Began, first.Ended) {
			continue
		}
		expected := e.prior.Deadline.Add(time.Duration(*first.Grace-*e.prior.Grace) * time.Second)
		isPresent := first.Deadline.After(expected) && !first.Deadline.After(first.Wall.Add(time.Second))
		t.expect(first.Deadline.Equal(expected) || isPresent || e.replacesFutureDeadline(), "a shortened deletionTimestamp is neither the old one less the difference nor the present", e.evidence()...)
	}
}

// replacesFutureDeadline reports whether a delete replaced a deadline by the present because the
// deadline was farther away than its grace period: a fast clock had set it.
func (e *effect) replacesFutureDeadline() bool {
	first, prior := e.made[0], e.prior
	wrong := prior.Deadline.Sub(first.Wall) > time.Duration(*prior.Grace+1)*time.Second
	return wrong && *first.Grace == 0 && !first.Deadline.Before(e.calls[0].Wall.Add(-time.Second)) && !first.Deadline.After(first.Wall)
}

// checkFinalizers checks D4: finalizers hold an object, and none is added while it is being
// deleted.
func checkFinalizers(h *clusterHistory, t *tally) {
	for i, c := range h.commits {
		was := c.replaced
		if was == nil || was.UID != c.UID {
			continue
		}
		if c.Op == deleted {
			if o := c.operation; o != nil {
				t.expect(len(was.Finalizers) == 0 || canDropFinalizers(o.Verb) || areCollectorFinalizers(was.Finalizers), "an object was removed that had finalizers", was.Event, o.calls[0], c.Event)
			}
			continue
		}
		if was.Deadline != nil {
			t.expect(isSubset(c.Finalizers, allowedFinalizers(was, c)), "a finalizer was added to an object that is being deleted", was.Event, c.Event)
		}
		if c.Resource == podResource && c.Deadline != nil && (c.Grace == nil || *c.Grace == 0) && len(c.Finalizers) == 0 && i+1 < len(h.commits) {
			next := h.commits[i+1]
			t.expect(next.Op == deleted && next.UID == c.UID, "a pod without grace and finalizers was not removed at once", c.Event, next.Event)
		}
	}
}

// allowedFinalizers returns the finalizers that an object under deletion may have. A delete with
// another propagation policy adds those of the garbage collector.
func allowedFinalizers(was, now *commit) []string {
	if now.operation == nil || strings.HasPrefix(now.operation.Verb, "delete") {
		return slices.Concat(was.Finalizers, collectorFinalizers())
	}
	return was.Finalizers
}

func isSubset(some, all []string) bool {
	there := map[string]bool{}
	for _, name := range all {
		there[name] = true
	}
	for _, name := range some {
		if !there[name] {
			return false
		}
	}
	return true
}

// canDropFinalizers reports whether a request of the verb can take a finalizer away. The request
// that takes the last is a single commit: the removal.
func canDropFinalizers(verb string) bool {
	return verb == "update" || verb == "patch" || verb == "apply"
}

// areCollectorFinalizers reports whether all finalizers are the garbage collector's. A delete with
// another propagation policy takes them away itself.
func areCollectorFinalizers(finalizers []string) bool {
	return isSubset(finalizers, collectorFinalizers())
}

// collectorFinalizers returns the finalizers of the garbage collector.
func collectorFinalizers() []string {
	return []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}
}

// checkRemover checks D5: who may remove a pod.
func checkRemover(h *clusterHistory, t *tally) {
	for _, e := range h.effects() {
		if !e.removes() || e.prior == nil || e.Verb == "deletecollection" && e.TimeLeft == nil { // an older release did not record the grace period of a collection
			continue
		}
		node := e.node
		switch {
		case e.Verb == "delete" && node != "":
			t.expect(node == e.prior.Node && e.PreUID == e.prior.UID, "a kubelet removed a pod that is not its, or without naming its uid", e.evidence()...)
		case e.Verb == "delete", e.Verb == "deletecollection", e.Subresource == "eviction":
			forced := e.Grace != nil && *e.Grace == 0 || e.hasZeroOwnGrace()
			t.expect(forced || e.prior.Node == "" || hasEnded(e.prior), "a client other than its kubelet removed a pod without force", e.evidence()...)
		default:
			t.expect(e.prior.Deadline != nil && len(e.prior.Finalizers) > 0, "a pod was removed by what was neither a delete nor the end of its last finalizer", e.evidence()...)
		}
	}
}

// hasZeroOwnGrace reports whether a delete without a grace period forced a pod because its own is
// 0. If commits do not tell, the answer is whether it may have.
func (e *effect) hasZeroOwnGrace() bool {
	first := e.made[0]
	if e.prior != nil && e.prior.SpecGrace != nil {
		return e.Grace == nil && *e.prior.SpecGrace == 0
	}
	return e.Grace == nil && first.Grace != nil && *first.Grace == 0
}

// checkPodOutlivesContainers checks D6: a pod's object outlives its containers and mounts.
func checkPodOutlivesContainers(h *clusterHistory, t *tally) {
	for _, e := range h.deletes() {
		if !e.removes() || e.node == "" || e.node != e.prior.Node {
			continue
		}
		pod := h.podOrEmpty(e.prior.UID)
		t.expect(hasEnded(e.prior), "a kubelet removed a pod whose last phase is not terminal", e.evidence()...)
		for _, c := range pod.containers {
			if len(c.started) > 0 {
				t.expect(c.mayHaveEndedBy(e.calls[0]), "a kubelet removed a pod of which a container had not ended", e.evidence(c.lastEvent())...)
			}
		}
		for _, mounted := range pod.mountsAt(e.calls[0]) {
			t.expect(mounted == nil, "a kubelet removed a pod with a volume mounted", e.evidence(mounted)...)
		}
	}
}

// recordDelay is how much later than it happened an event may be recorded.
const recordDelay = int64(50 * time.Millisecond)

// mayHaveEndedBy reports whether the container may have ended before an event was over.
func (c *container) mayHaveEndedBy(e *history.Event) bool {
	for _, exit := range c.exits {
		if exit.Began <= e.Ended+recordDelay {
			return true
		}
	}
	return false
}

// lastEvent returns the last start, signal or exit of the container.
func (c *container) lastEvent() *history.Event {
	for _, events := range [][]*history.Event{c.exits, c.signals, c.started} {
		if len(events) > 0 {
			return events[len(events)-1]
		}
	}
	return nil
}

// mountsAt returns for each volume the mount that was in place at an event; nil if it was undone.
func (pod *podHistory) mountsAt(e *history.Event) map[string]*history.Event {
	volumes := map[string]*history.Event{}
	for _, m := range pod.mounts {
		switch fact := m.Fact.(type) {
		case history.Mount:
			if before(m, e) {
				volumes[fact.Volume] = m
			}
		case history.Unmount:
			if m.Began <= e.Ended+recordDelay {
				volumes[fact.Volume] = nil
			}
		}
	}
	return volumes
}

// checkSeenIncarnation checks D7: a kubelet changes no incarnation of a pod that it has not seen.
func checkSeenIncarnation(h *clusterHistory, t *tally) {
	recording := map[string]bool{} // the kubelets that record what they see
	for e := range factsOf[history.KubeletSee](h) {
		recording[nodeOf(e.Process)] = true
	}
	for _, e := range h.effects() {
		node := e.node
		if node == "" || e.prior == nil || !e.made[0].recorded { // the times of the file's own commits are unknown
			continue
		}
		uid, _ := e.meantVersion()
		uid = cmp.Or(uid, e.PreUID, e.prior.UID)
		t.expect(uid == e.prior.UID, "a kubelet changed another incarnation than it meant", e.evidence()...)
		sightings := h.podOrEmpty(e.prior.UID).seen
		if recording[node] || len(sightings) > 0 {
			seen := slices.ContainsFunc(sightings, func(s *history.Event) bool { return nodeOf(s.Process) == node && s.Began <= e.made[0].Ended })
			t.expect(seen, "a kubelet changed an incarnation that it had not seen", e.evidence()...)
		}
	}
}

// checkForceDelete checks D8: a force delete removes a pod without finalizers in the same
// operation.
func checkForceDelete(h *clusterHistory, t *tally) {
	for _, e := range h.deletes() {
		if e.Grace != nil && *e.Grace == 0 && len(e.prior.Finalizers) == 0 && len(e.made[0].Finalizers) == 0 {
			t.expect(e.removes(), "a force delete left the pod", e.evidence()...)
			e.checkWarning(h, t)
		}
	}
}

// checkWarning checks D8 for users: a force delete on a node that is not ready returns a warning
// that containers may run on.
func (e effect) checkWarning(h *clusterHistory, t *tally) {
	if !strings.HasPrefix(e.Identity, "client:") || e.prior.Node == "" || hasEnded(e.prior) || e.prior.Deadline != nil || len(e.returns) != 1 {
		return
	}
	var node *commit
	for _, c := range h.versions(nodeResource, e.prior.Node) {
		if !c.recorded && c.Revision > e.made[0].Revision {
			break // only the database has this version, and its time is unknown
		}
		if c.Ended+recordDelay >= e.calls[0].Began && c.Began <= e.returns[0].Ended {
			return // the node may have been seen before or after this change
		}
		if c.Ended < e.calls[0].Began {
			node = c
		}
	}
	if node == nil || node.Created == 0 || node.Ready && node.Op != deleted {
		return
	}
	ret, _ := e.returns[0].Fact.(history.OpReturn)
	t.expect(!isSuccess(ret.Code) || ret.Warnings > 0, "a pod was forced away from a node that is not ready, without a warning", e.evidence(node.Event, e.returns[0])...)
}

// checkIdempotentDelete checks D9: a pod is removed once, and a repeated delete is answered with
// 200, 202, 404 or 409.
func checkIdempotentDelete(h *clusterHistory, t *tally) {
	for _, pod := range h.completePods() {
		var removed *commit
		for _, c := range pod.commits {
			if c.Op == deleted {
				t.expect(removed == nil, "a pod was removed twice", eventOf(removed), c.Event)
				removed = c
			}
		}
	}
	checkRepeatedDeletes(h, t)
}

// checkRepeatedDeletes checks the answers of D9.
func checkRepeatedDeletes(h *clusterHistory, t *tally) {
	asked := map[string]*operation{}
	for _, o := range h.operations {
		if o.Verb != "delete" || o.Resource != podResource || o.Subresource != "" || o.deniedByWebhook() {
			continue
		}
		who := o.Identity + " " + o.Key
		for _, answer := range o.returns {
			ret, _ := answer.Fact.(history.OpReturn)
			if first := asked[who]; first != nil && ret.Code < 500 && ret.Code != 429 {
				fine := ret.Code == 200 || ret.Code == 202 || ret.Code == 404 || ret.Code == 409
				t.expect(fine, "a delete again was answered with another code than 200, 202, 404 and 409", first.calls[0], o.calls[0], answer)
			}
		}
		if len(o.returns) > 0 {
			if ret, _ := o.returns[0].Fact.(history.OpReturn); isSuccess(ret.Code) {
				asked[who] = o
			}
		}
	}
}

// checkCascade checks D10: the namespace controller and the garbage collector only begin deletion.
func checkCascade(h *clusterHistory, t *tally) {
	h.eachDecidedDelete(func(d history.Decide, decided *history.Event, o *operation) {
		if d.Controller == "namespace-controller" || d.Controller == garbageCollector {
			t.expect(o.Grace == nil || *o.Grace != 0, "a cascade force-deleted a pod", decided, o.calls[0])
		}
	})
	for _, o := range h.operations { // only the namespace controller deletes collections
		if o.Identity == controllers && o.Verb == "deletecollection" && o.Resource == podResource {
			t.expect(o.Grace == nil || *o.Grace != 0, "a cascade force-deleted the pods of a namespace", o.calls[0])
		}
	}
}

// podOrEmpty returns the pod with a UID. If the history lacks the pod, as a damaged history may,
// the result has no events.
func (h *clusterHistory) podOrEmpty(uid string) *podHistory {
	if pod := h.pods[uid]; pod != nil {
		return pod
	}
	return &podHistory{uid: uid}
}
