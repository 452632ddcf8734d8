package guarantees

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// TestEveryCauseIsJudged requires a condition, or an exemption, for every cause of analysis/why.
func TestEveryCauseIsJudged(t *testing.T) {
	judged, left := causeConditions(), unjudgedCauses()
	for _, c := range why.Causes() {
		if (judged[c.Name] != nil) == left[c.Name] {
			t.Errorf("%s: among reasons %v, among what needs no trouble %v; want one of the two", c.Name, judged[c.Name] != nil, left[c.Name])
		}
		delete(judged, c.Name)
		delete(left, c.Name)
	}
	if len(judged)+len(left) > 0 {
		t.Errorf("not in the catalogue: %d reasons, and %v", len(judged), left)
	}
}

const (
	tracking   = batchv1.JobTrackingFinalizer
	foreground = metav1.FinalizerDeleteDependents
	orphaning  = metav1.FinalizerOrphanDependents
)

// podWithFinalizers is a failed pod of an owner that is being deleted and has these finalizers. A
// Job exists beside it that no controller has looked at.
func podWithFinalizers(owner string, names ...string) *builder {
	b := newWatchedBuilder().record(controllers, "", history.Lease{Node: "none"}).request("job", by(user, "create"), 201, history.Commit{
		Resource: jobResource, Key: "default/sum", UID: "job", Op: added, Content: history.Content{Workload: history.Workload{Counted: new(int32(0))}},
	})
	content := withContent(history.Content{Owner: owner, Finalizers: names})
	b.request("create", by(user, "create"), 201, web(added, pending, content)).idle(20)
	b.request("fails", by(user, "update"), 200, web(modified, pending, failed, content))
	return b.request("mark", by(user, "delete", grace(0)), 200, web(modified, pending, failed, content, marked(0, b.clock+2))).idle(100)
}

func failed(c *history.Commit) { c.Phase = "Failed" }

// reconcileJob has the job controller decide something about the Job.
func (b *builder) reconcileJob() *builder {
	return b.record(controllers, "", history.Decide{Controller: jobController, Action: "update", Resource: jobResource, Key: "default/sum"})
}

// pastTrouble records a trouble that lasted and then has been over for so many seconds.
func (b *builder) pastTrouble(t history.Trouble, lasted, ago int64) *builder {
	return b.beginTrouble(t).idle(lasted).endTrouble(t).idle(ago)
}

// changePod commits another version of the pod.
func (b *builder) changePod(change ...func(*history.Commit)) *builder {
	kept := b.there[podResource+" "+name]
	same := func(c *history.Commit) { c.Node, c.Phase, c.Content = kept.Node, kept.Phase, kept.Content }
	return b.request("change", by(user, "patch"), 200, web(modified, append([]func(*history.Commit){same, b.keepMark()}, change...)...))
}

// removeJob removes the Job.
func (b *builder) removeJob() *builder {
	return b.request("job goes", by(user, "delete"), 200, history.Commit{Resource: jobResource, Key: "default/sum", UID: "job", Op: deleted})
}

// markJob marks the Job for deletion.
func (b *builder) markJob() *builder {
	held := history.Commit{Resource: jobResource, Key: "default/sum", UID: "job", Op: modified, Content: history.Content{Finalizers: []string{foreground}}}
	marked(0, b.clock+2)(&held)
	return b.request("job is marked", by(user, "delete"), 200, held)
}

// networkTrouble is a fault in the network without details.
func networkTrouble() history.Trouble {
	return history.Trouble{Kind: history.TroubleFault, What: "network"}
}

// refusalFault is a fault that answers a client's requests with an error.
func refusalFault(who string) history.Trouble {
	return faultAt(fault.APIRequest, fault.Attributes{Client: who}, fault.Effect{Kind: fault.Error})
}

func controllersCut() history.Trouble {
	return history.Trouble{Kind: history.TroubleCut, What: "c", CutOff: []string{controllers}}
}

func explanationViolations() []violation {
	blames := func(what, reason string, b *builder) violation { return violation{"L8", what, b.explain(uid, reason)} }
	away := func(b *builder) *builder { return b.beginTrouble(downtimeOf(controllers)) }
	return []violation{
		blames("a finalizer that is not there", "finalizer-not-removed", podWithFinalizers("")),
		blames("a finalizer that was removed long ago", "finalizer-not-removed", podWithFinalizers("rs", "a/b", tracking).changePod(finalizers(tracking)).idle(20)),
		blames("a foreign controller for a finalizer of the job controller", "finalizer-not-removed", podWithFinalizers("job", tracking).reconcileJob()),
		blames("a foreign controller for a finalizer of the job controller without a Job", "finalizer-not-removed", podWithFinalizers("rs", tracking)),
		blames("a foreign controller for a finalizer of the garbage collector", "finalizer-not-removed", podWithFinalizers("", foreground, orphaning)),
		blames("a refusal of the job controller for one of a foreign controller", "finalizer-removal-refused", podWithFinalizers("job", tracking).reconcileJob().request("no", by(controllers, "patch"), 403)),
		blames("a garbage collector that runs", "garbage-collector-down", podWithFinalizers("", orphaning)),
		blames("a garbage collector for another's finalizer", "garbage-collector-down", away(podWithFinalizers("job", "a/b", tracking))),
		blames("a job controller that runs", "job-controller-down", podWithFinalizers("job", tracking).reconcileJob()),
		blames("a job controller for another's finalizer", "job-controller-down", away(podWithFinalizers("job", "a/b", foreground))),
		blames("a job controller that has run for long", "job-controller-down", podWithFinalizers("job", tracking).pastTrouble(downtimeOf(controllers), 10, 100)),
		blames("a job controller that was held up long before", "job-controller-down", podWithFinalizers("job", tracking).pastTrouble(downtimeOf("apiserver"), 300, 400)),
		blames("a job controller of which a message was lost long before", "job-controller-down", podWithFinalizers("job", tracking).pastTrouble(networkTrouble(), 2000, 400)),
		blames("a job controller for a kubelet that is down", "job-controller-down", podWithFinalizers("job", tracking).beginTrouble(downtimeOf(kubelet))),
		blames("a job controller for a node that is cut off", "job-controller-down", podWithFinalizers("job", tracking).beginTrouble(cutNode())),
		blames("a job controller for a node that is refused", "job-controller-down", podWithFinalizers("job", tracking).beginTrouble(refusalFault("node:*"))),
		blames("a job controller for a disk of a node", "job-controller-down",
			podWithFinalizers("job", tracking).beginTrouble(faultAt(fault.VolumeUnmount, fault.Attributes{}, fault.Effect{Kind: fault.Error}))),
		blames("a job controller that was refused another pod", "job-controller-down",
			podWithFinalizers("job", tracking).request("no", by(controllers, "patch", func(o *history.OpCall) { o.Key = "default/other" }), 403)),
		blames("a Job for a pod without an owner", "job-keeps-pod", podWithFinalizers("rs", tracking)),
		blames("a Job for a pod of a set", "job-keeps-pod", podWithFinalizers("rs", tracking).createSet()),
		blames("a Job for another's finalizer", "job-keeps-pod", podWithFinalizers("job", "a/b")),
		blames("a Job for a pod that has succeeded", "job-keeps-pod", podWithFinalizers("job", tracking).changePod(succeeded).idle(20)),
		blames("a Job that goes", "job-keeps-pod", podWithFinalizers("job", tracking).markJob().idle(20)),
		blames("a Job that is gone", "job-keeps-pod", podWithFinalizers("job", tracking).removeJob().idle(20)),
		blames("a refusal that did not happen", "finalizer-removal-refused", podWithFinalizers("", "a/b").request("yes", by(user, "patch"), 200)),
		blames("the refusal of another pod's", "finalizer-removal-refused", podWithFinalizers("", "a/b").request("no", by(user, "patch", func(o *history.OpCall) { o.Key = "default/other" }), 403)),
		blames("the refusal of a node's own", "finalizer-removal-refused", podWithFinalizers("", "a/b").request("no", by(node, "patch"), 403)),
		blames("an unknown cause", "the-weather", podWithFinalizers("")),
		blames("a claim", "claim-in-use", podWithFinalizers("", "a/b")),
		blames("an apiserver that answers", "apiserver-fails", newWatchedBuilder().runPod().markUnseen().request("no", by(node, "update"), 403).idle(50)),
		blames("a webhook that refused long before", "webhook-refuses-kubelet", newWatchedBuilder().runPod().consult("no", by(node, "update"), webhookSays(history.HookDenied)).finish("no", 403).idle(120).markUnseen().idle(10)),
		blames("a conflict for missing rights", "kubelet-unauthorised", newWatchedBuilder().runPod().markUnseen().seeMark().request("no", by(node, "update"), 409).idle(10)),
		blames("an apiserver that failed long before", "apiserver-fails", newWatchedBuilder().runPod().request("no", by(node, "update"), 503).idle(120).markUnseen().idle(10)),
		blames("a refusal of the kubelet long before", "kubelet-unauthorised", newWatchedBuilder().runPod().request("no", by(node, "update"), 403).idle(120).markUnseen().idle(10)),
	}
}

// validExplanations returns histories in which each explanation is right, or cannot be judged.
func validExplanations() map[string]*builder {
	begun := podWithFinalizers("job", tracking)
	begun.restart(controllers).record(controllers, "", history.Lease{Node: "none"})
	faults := faultAt(fault.StoreSync, fault.Attributes{}, fault.Effect{Kind: fault.Hang})
	clock := history.Trouble{Kind: history.TroubleClock, What: "jump"}
	all := map[string]*builder{}
	for what, c := range map[string]struct {
		reason string
		f      *builder
	}{
		"a stranger's finalizer":                  {"finalizer-not-removed", podWithFinalizers("job", tracking, "a/b").reconcileJob()},
		"one that was removed a moment ago":       {"finalizer-not-removed", podWithFinalizers("rs", "a/b", tracking).changePod(finalizers(tracking))},
		"one of a Job that no controller manages": {"finalizer-not-removed", podWithFinalizers("job", tracking)},
		"one whose owner is refused":              {"finalizer-removal-refused", podWithFinalizers("", "a/b").request("no", by(user, "patch"), 403)},
		"a garbage collector that is down":        {"garbage-collector-down", podWithFinalizers("", foreground).beginTrouble(downtimeOf(controllers))},
		"one that is down and handles orphans":    {"garbage-collector-down", podWithFinalizers("", orphaning).beginTrouble(downtimeOf(controllers))},
		"a job controller that is down":           {"job-controller-down", podWithFinalizers("job", tracking).beginTrouble(downtimeOf(controllers))},
		"one that stands still":                   {"job-controller-down", podWithFinalizers("job", tracking).beginTrouble(pauseOf(controllers))},
		"one that is cut off":                     {"job-controller-down", podWithFinalizers("job", tracking).beginTrouble(controllersCut())},
		"one whose requests fail":                 {"job-controller-down", podWithFinalizers("job", tracking).beginTrouble(refusalFault("controllers*"))},
		"one whose apiserver cannot write":        {"job-controller-down", podWithFinalizers("job", tracking).beginTrouble(faults)},
		"one whose clock jumps":                   {"job-controller-down", podWithFinalizers("job", tracking).beginTrouble(clock)},
		"one that is behind":                      {"job-controller-down", podWithFinalizers("job", tracking).pastTrouble(downtimeOf(controllers), 10, 40)},
		"one that pauses for as long as it tried": {"job-controller-down", podWithFinalizers("job", tracking).pastTrouble(downtimeOf("apiserver"), 300, 300)},
		"one that lost a message a while ago":     {"job-controller-down", podWithFinalizers("job", tracking).pastTrouble(networkTrouble(), 2000, 300)},
		"one that is refused":                     {"job-controller-down", podWithFinalizers("job", tracking).request("no", by(controllers, "patch"), 403).idle(100)},
		"one that has just begun":                 {"job-controller-down", begun},
		"a Job that waits":                        {"job-keeps-pod", podWithFinalizers("job", tracking).reconcileJob()},
		"a Job that has gone a moment ago":        {"job-keeps-pod", podWithFinalizers("job", tracking).reconcileJob().removeJob()},
		"a pod that was counted a moment ago":     {"job-keeps-pod", podWithFinalizers("job", tracking, "a/b").reconcileJob().changePod(finalizers("a/b"))},
		"an apiserver that has failed":            {"apiserver-fails", newWatchedBuilder().runPod().markUnseen().request("no", by(node, "update"), 503)},
		"one that failed a minute ago":            {"apiserver-fails", newWatchedBuilder().runPod().markUnseen().seeMark().request("no", by(node, "update"), 503).idle(70)},
		"a refusal of the kubelet":                {"kubelet-unauthorised", newWatchedBuilder().runPod().markUnseen().seeMark().request("no", by(node, "update"), 403).idle(70)},
		"one behind a faulty network":             {"apiserver-fails", newWatchedBuilder().runPod().markUnseen().beginTrouble(networkTrouble())},
	} {
		all["L8: "+what] = c.f.explain(uid, c.reason)
	}
	return all
}
