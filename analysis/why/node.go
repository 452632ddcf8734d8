package why

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// maxSilence is how long after its last lease renewal a node may be silent. It renews every 10 s
// (KBL-80).
const maxSilence = 13 * time.Second

// checkNode finds what keeps the pod's node from confirming.
func (p Pod) checkNode(f *findings) {
	if p.Node.Node == nil {
		p.checkMissingNode(f)
		return
	}
	if p.Kubelet.Report != nil && !isCutOff(p.Node, p.Telemetry, p.Now) {
		p.checkKubelet(f)
		return
	}
	if p.Kubelet.WasAsked() || readyIs(p.Node.Node, corev1.ConditionUnknown) {
		p.checkSilentNode(f)
		return
	}
	p.checkFromAPI(f)
}

// checkMissingNode handles a pod whose node is not in the API (CTL-20).
func (p Pod) checkMissingNode(f *findings) {
	evidence := "the API has no node " + p.Pod.Spec.NodeName
	runs, known := p.controllerRuns(podCollector)
	switch {
	case known && !runs && p.Now.Sub(p.markedAt()) > stepPatience:
		f.add(cause("node-object-gone"), p.markedAt(), evidence, "the "+podCollector+" does not run")
	case p.Now.Sub(p.markedAt()) > podGCTime:
		f.add(cause("node-object-gone"), p.markedAt(), evidence)
	}
}

// checkSilentNode handles a node that does not talk to the API: whether its kubelet runs, what the
// kubelet knows, and what it has done.
func (p Pod) checkSilentNode(f *findings) {
	w := p.kubeletWork()
	name := silenceCause(p.Telemetry)
	evidence := silenceEvidence(p.Node, p.Telemetry, p.Now)
	if p.Kubelet.Report != nil && name == "node-cut-off" && (w == nil || w.Marked) && p.stoppedOnNode(w) {
		name = "node-cut-off-after-cleanup"
		evidence = append(evidence, "on the node nothing of the pod runs any more")
	}
	if p.Kubelet.Report == nil && p.Now.Sub(p.markedAt()) < stepPatience {
		return // the kubelet may only have missed one question
	}
	if evicted := taintEviction(p.Pod); evicted != "" && name != "node-cut-off-after-cleanup" {
		f.add(cause("evicted-from-silent-node"), p.markedAt(), append([]string{evicted}, evidence...)...)
		return
	}
	if name == "node-cut-off" && w != nil && w.Marked {
		evidence = append(evidence, "the kubelet has seen the deletion and goes on with it")
	}
	finding := f.add(cause(name), silenceSince(p.Node, p.Telemetry), evidence...)
	if !p.Kubelet.WasAsked() {
		finding.Maybe = []string{"STK-05", "STK-07"}
	}
}

// stoppedOnNode reports whether no container of the pod runs on the node.
func (p Pod) stoppedOnNode(w *inspect.PodWorker) bool {
	if all, known := p.containers(); known {
		for _, c := range all {
			if c.Alive {
				return false
			}
		}
		return w == nil || w.State != "Syncing"
	}
	return w == nil || w.State == "Confirming" || w.State == "Stopped"
}

// checkNodeSilence handles a node that is itself the object of the question.
func checkNodeSilence(f *findings, n Node, t Telemetry, now time.Time) {
	switch {
	case t.Kubelet.IsSilent(), isCutOff(n, t, now):
		f.add(cause(silenceCause(t)), silenceSince(n, t), silenceEvidence(n, t, now)...)
	case t.Kubelet.Report != nil:
		checkRuntime(f, t, now)
		addOrphanedVolumes(f, t.Kubelet.Report, now, func(inspect.PodWorker) bool { return true })
	case readyIs(n.Node, corev1.ConditionUnknown):
		f.add(cause("node-cut-off"), silenceSince(n, t), silenceEvidence(n, t, now)...).Maybe = []string{"STK-05"}
	}
}

// addOrphanedVolumes reports volumes of pods that the API no longer has.
func addOrphanedVolumes(f *findings, k *inspect.Kubelet, now time.Time, ours func(inspect.PodWorker) bool) {
	for _, w := range k.Pods {
		unmounts := w.Step == inspect.StepUnmount || containsAny(w.Err, "unmount", "mounted volumes")
		if ours(w) && w.Removed && unmounts && (w.Err != "" || now.Sub(w.Since) > stepPatience) {
			f.add(cause("orphaned-volume"), w.Since, strings.TrimSpace(fmt.Sprintf(
				"the kubelet of %s cannot unmount the volumes of %s/%s, uid %s: %s", k.Node, w.Namespace, w.Name, w.UID, w.Err)))
		}
	}
	for _, o := range k.Orphans {
		if o.Err != "" {
			f.add(cause("orphaned-volume"), time.Time{}, fmt.Sprintf("the kubelet of %s: %s", k.Node, o.Err))
		}
	}
}

// isCutOff reports whether a running kubelet does not reach the API.
func isCutOff(n Node, t Telemetry, now time.Time) bool {
	k := t.Kubelet.Report
	if k == nil {
		return false
	}
	if n.Node != nil && deadLink(t, n.Node.Name) != nil {
		return true
	}
	if failing := k.API.Failing; !failing.IsZero() && now.Sub(failing) > stepPatience {
		return true
	}
	// A kubelet that waits for an answer does not report a failure yet.
	stale := !k.API.Last.IsZero() && now.Sub(k.API.Last) > maxSilence
	return stale && (n.Lease == nil || n.Lease.Spec.RenewTime == nil || now.Sub(n.Lease.Spec.RenewTime.Time) > maxSilence)
}

// deadLink returns the link of a node if the bus reports that it carries nothing; nil otherwise.
func deadLink(t Telemetry, node string) *inspect.Link {
	if t.Bus.Report == nil {
		return nil
	}
	for i := range t.Bus.Report.Links {
		if link := &t.Bus.Report.Links[i]; link.Member == node && link.Silent != "" {
			return link
		}
	}
	return nil
}

func silenceCause(t Telemetry) string {
	if t.Kubelet.IsSilent() {
		return "kubelet-down"
	}
	return "node-cut-off"
}

func silenceSince(n Node, t Telemetry) time.Time {
	if n.Node != nil && t.Kubelet.Report != nil {
		if link := deadLink(t, n.Node.Name); link != nil {
			return link.Since
		}
	}
	if k := t.Kubelet.Report; k != nil && !k.API.Failing.IsZero() {
		return k.API.Failing
	}
	if n.Lease != nil && n.Lease.Spec.RenewTime != nil {
		return n.Lease.Spec.RenewTime.Time
	}
	return time.Time{}
}

func silenceEvidence(n Node, t Telemetry, now time.Time) []string {
	var evidence []string
	if n.Node != nil {
		if link := deadLink(t, n.Node.Name); link != nil {
			evidence = append(evidence, fmt.Sprintf("its link has carried nothing %s %s", link.Silent, lastingFor(now, link.Since)))
		}
	}
	if n.Lease != nil && n.Lease.Spec.RenewTime != nil {
		evidence = append(evidence, fmt.Sprintf("its lease was last renewed %v ago", now.Sub(n.Lease.Spec.RenewTime.Time).Round(time.Second)))
	}
	if c := readyCondition(n.Node); c != nil && c.Status != corev1.ConditionTrue {
		evidence = append(evidence, fmt.Sprintf("node %s is Ready=%s %s: %s", n.Node.Name, c.Status, lastingFor(now, c.LastTransitionTime.Time), c.Reason))
	}
	switch k := t.Kubelet.Report; {
	case k != nil && k.API.Err == "":
		evidence = append(evidence, fmt.Sprintf("its kubelet runs, and had its last answer of the API %v ago", now.Sub(k.API.Last).Round(time.Second)))
	case k != nil:
		evidence = append(evidence, fmt.Sprintf("its kubelet runs, and has had no answer of the API for %v: %s", now.Sub(k.API.Last).Round(time.Second), k.API.Err))
	case t.Kubelet.Err != "":
		evidence = append(evidence, "its kubelet does not answer on the management connection: "+t.Kubelet.Err)
	}
	if r := t.Runtime.Report; r != nil {
		alive := 0
		for _, c := range r.Containers {
			if c.Alive {
				alive++
			}
		}
		evidence = append(evidence, fmt.Sprintf("its runtime has %d containers alive", alive))
	}
	return evidence
}

// taintEviction returns the condition of a pod that was evicted by its node's taint.
func taintEviction(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Reason == "DeletionByTaintManager" {
			return "condition DisruptionTarget: " + c.Reason + ": " + c.Message
		}
	}
	return ""
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	if node == nil {
		return nil
	}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func readyIs(node *corev1.Node, status corev1.ConditionStatus) bool {
	c := readyCondition(node)
	return c != nil && c.Status == status
}

// checkRuntime reports what a kubelet says of its runtime.
func checkRuntime(f *findings, t Telemetry, now time.Time) bool {
	k := t.Kubelet.Report
	if since := waitingSince(k, now); t.Runtime.IsSilent() && !since.IsZero() {
		f.add(cause("runtime-down"), since, "the runtime does not answer: "+t.Runtime.Err, "nor does it answer the kubelet, "+lastingFor(now, since))
		return true
	}
	var evidence []string
	for _, problem := range k.Problems {
		evidence = append(evidence, "the kubelet says: "+problem)
	}
	for _, call := range k.Calls {
		if isListing(call.Method) && now.Sub(call.Since) > 2*stepPatience {
			f.add(cause("runtime-listing-hangs"), call.Since,
				append(evidence, fmt.Sprintf("%s has not been answered %s", call.Method, lastingFor(now, call.Since)))...)
			return true
		}
	}
	if failing := k.Runtime.Failing; !failing.IsZero() && now.Sub(failing) > stepPatience {
		f.add(cause("runtime-down"), failing, append(evidence, "no call of the runtime was answered "+lastingFor(now, failing)+": "+k.Runtime.Err)...)
		return true
	}
	if containsAny(strings.Join(k.Problems, "\n"), "PLEG is not healthy") {
		f.add(cause("runtime-listing-hangs"), time.Time{}, evidence...)
		return true
	}
	if containsAny(strings.Join(k.Problems, "\n"), "container runtime is down") {
		f.add(cause("runtime-down"), time.Time{}, evidence...)
		return true
	}
	return false
}

// waitingSince returns since when a kubelet has waited for its runtime in vain; zero if not for
// long.
func waitingSince(k *inspect.Kubelet, now time.Time) time.Time {
	since := k.Runtime.Failing
	for _, call := range k.Calls {
		if now.Sub(call.Since) > stepPatience && (since.IsZero() || call.Since.Before(since)) {
			since = call.Since
		}
	}
	return since
}

// isListing reports whether a call finds out what runs.
func isListing(method string) bool {
	switch method {
	case "ListContainers", "ListPodSandbox", "ContainerStatus", "PodSandboxStatus":
		return true
	}
	return false
}
