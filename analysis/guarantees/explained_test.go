package guarantees

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/why"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
)

// TestEveryCauseIsJudged has who adds a cause say when it is right.
func TestEveryCauseIsJudged(t *testing.T) {
	judged, left := reasons(), untroubled()
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

// owes is a pod of an owner that has ended, is to go and has these finalizers, and a Job beside it
// which nobody has looked at.
func owes(owner string, names ...string) *forge {
	f := watchedForge().say(controllers, "", history.Lease{Node: "none"}).ask("job", by(user, "create"), 201, history.Commit{
		Resource: jobResource, Key: "default/sum", UID: "job", Op: added, Content: history.Content{Wanted: history.Wanted{Counted: new(int32(0))}},
	})
	content := its(history.Content{Owner: owner, Finalizers: names})
	f.ask("create", by(user, "create"), 201, web(added, pending, content)).idles(20)
	f.ask("fails", by(user, "update"), 200, web(modified, pending, failed, content))
	return f.ask("mark", by(user, "delete", grace(0)), 200, web(modified, pending, failed, content, marked(0, f.clock+2))).idles(100)
}

func failed(c *history.Commit) { c.Phase = "Failed" }

// reconciled has the job controller decide something about the Job.
func (f *forge) reconciled() *forge {
	return f.say(controllers, "", history.Decide{Controller: jobController, Action: "update", Resource: jobResource, Key: "default/sum"})
}

// was has a trouble last so long, and be over for so long.
func (f *forge) was(t history.Trouble, lasted, ago int64) *forge {
	return f.breaks(t).idles(lasted).mends(t).idles(ago)
}

// changes is another version of the pod, as it is let go of or counted.
func (f *forge) changes(change ...func(*history.Commit)) *forge {
	kept := f.there[podResource+" "+name]
	same := func(c *history.Commit) { c.Node, c.Phase, c.Content = kept.Node, kept.Phase, kept.Content }
	return f.ask("change", by(user, "patch"), 200, web(modified, append([]func(*history.Commit){same, f.stillMarked()}, change...)...))
}

// jobGoes has the Job be gone.
func (f *forge) jobGoes() *forge {
	return f.ask("job goes", by(user, "delete"), 200, history.Commit{Resource: jobResource, Key: "default/sum", UID: "job", Op: deleted})
}

// jobMarked has it be on its way.
func (f *forge) jobMarked() *forge {
	held := history.Commit{Resource: jobResource, Key: "default/sum", UID: "job", Op: modified, Content: history.Content{Finalizers: []string{foreground}}}
	marked(0, f.clock+2)(&held)
	return f.ask("job is marked", by(user, "delete"), 200, held)
}

// lossy is a network of which nothing is said but that it is there.
func lossy() history.Trouble {
	return history.Trouble{Kind: history.TroubleFault, What: "network"}
}

// refusing is an API that answers who asks with an error.
func refusing(who string) history.Trouble {
	return faulty(fault.APIRequest, fault.About{Client: who}, fault.Effect{Kind: fault.Error})
}

func offControllers() history.Trouble {
	return history.Trouble{Kind: history.TroubleCut, What: "c", Off: []string{controllers}}
}

func brokenExplanations() []forged {
	blames := func(what, reason string, f *forge) forged { return forged{"L8", what, f.blames(uid, reason)} }
	away := func(f *forge) *forge { return f.breaks(down(controllers)) }
	return []forged{
		blames("a finalizer that is not there", "finalizer-not-removed", owes("")),
		blames("a finalizer that was removed long ago", "finalizer-not-removed", owes("rs", "a/b", tracking).changes(finalizers(tracking)).idles(20)),
		blames("a stranger for what the job controller has to remove", "finalizer-not-removed", owes("job", tracking).reconciled()),
		blames("a stranger for what the job controller has to remove of no Job", "finalizer-not-removed", owes("rs", tracking)),
		blames("a stranger for what the garbage collector has to remove", "finalizer-not-removed", owes("", foreground, orphaning)),
		blames("who refuses the job controller for who refuses a stranger", "finalizer-removal-refused", owes("job", tracking).reconciled().ask("no", by(controllers, "patch"), 403)),
		blames("a garbage collector that runs", "garbage-collector-down", owes("", orphaning)),
		blames("a garbage collector for another's finalizer", "garbage-collector-down", away(owes("job", "a/b", tracking))),
		blames("a job controller that runs", "job-controller-down", owes("job", tracking).reconciled()),
		blames("a job controller for another's finalizer", "job-controller-down", away(owes("job", "a/b", foreground))),
		blames("a job controller that has run for long", "job-controller-down", owes("job", tracking).was(down(controllers), 10, 100)),
		blames("a job controller that was held up long before", "job-controller-down", owes("job", tracking).was(down("apiserver"), 300, 400)),
		blames("a job controller of which a message was lost long before", "job-controller-down", owes("job", tracking).was(lossy(), 2000, 400)),
		blames("a job controller for a kubelet that is down", "job-controller-down", owes("job", tracking).breaks(down(kubelet))),
		blames("a job controller for a node that is cut off", "job-controller-down", owes("job", tracking).breaks(cutting())),
		blames("a job controller for a node that is refused", "job-controller-down", owes("job", tracking).breaks(refusing("node:*"))),
		blames("a job controller for a disk of a node", "job-controller-down",
			owes("job", tracking).breaks(faulty(fault.VolumeUnmount, fault.About{}, fault.Effect{Kind: fault.Error}))),
		blames("a job controller that was refused another pod", "job-controller-down",
			owes("job", tracking).ask("no", by(controllers, "patch", func(o *history.OpCall) { o.Key = "default/other" }), 403)),
		blames("a Job for a pod of nobody", "job-keeps-pod", owes("rs", tracking)),
		blames("a Job for a pod of a set", "job-keeps-pod", owes("rs", tracking).set()),
		blames("a Job for another's finalizer", "job-keeps-pod", owes("job", "a/b")),
		blames("a Job for a pod that has succeeded", "job-keeps-pod", owes("job", tracking).changes(succeeded).idles(20)),
		blames("a Job that goes", "job-keeps-pod", owes("job", tracking).jobMarked().idles(20)),
		blames("a Job that is gone", "job-keeps-pod", owes("job", tracking).jobGoes().idles(20)),
		blames("a refusal that nobody got", "finalizer-removal-refused", owes("", "a/b").ask("yes", by(user, "patch"), 200)),
		blames("the refusal of another pod's", "finalizer-removal-refused", owes("", "a/b").ask("no", by(user, "patch", func(o *history.OpCall) { o.Key = "default/other" }), 403)),
		blames("the refusal of a node's own", "finalizer-removal-refused", owes("", "a/b").ask("no", by(node, "patch"), 403)),
		blames("what nobody knows", "the-weather", owes("")),
		blames("a claim", "claim-in-use", owes("", "a/b")),
		blames("an apiserver that answers", "apiserver-fails", watchedForge().run().asked().ask("no", by(node, "update"), 403).idles(50)),
		blames("a webhook that refused long before", "webhook-refuses-kubelet", watchedForge().run().consult("no", by(node, "update"), says(history.HookDenied)).finish("no", 403).idles(120).asked().idles(10)),
		blames("who refuses what another has changed", "kubelet-unauthorised", watchedForge().run().asked().heard().ask("no", by(node, "update"), 409).idles(10)),
		blames("an apiserver that failed long before", "apiserver-fails", watchedForge().run().ask("no", by(node, "update"), 503).idles(120).asked().idles(10)),
		blames("who refused the kubelet long before", "kubelet-unauthorised", watchedForge().run().ask("no", by(node, "update"), 403).idles(120).asked().idles(10)),
	}
}

// explaining are histories in which what is said is so, or nobody can tell.
func explaining() map[string]*forge {
	begun := owes("job", tracking)
	begun.restart(controllers).say(controllers, "", history.Lease{Node: "none"})
	faults := faulty(fault.StoreSync, fault.About{}, fault.Effect{Kind: fault.Hang})
	clock := history.Trouble{Kind: history.TroubleClock, What: "jump"}
	all := map[string]*forge{}
	for what, c := range map[string]struct {
		reason string
		f      *forge
	}{
		"a stranger's finalizer":                  {"finalizer-not-removed", owes("job", tracking, "a/b").reconciled()},
		"one that was removed a moment ago":       {"finalizer-not-removed", owes("rs", "a/b", tracking).changes(finalizers(tracking))},
		"one of a Job that nobody looks at":       {"finalizer-not-removed", owes("job", tracking)},
		"one whose owner is refused":              {"finalizer-removal-refused", owes("", "a/b").ask("no", by(user, "patch"), 403)},
		"a garbage collector that is down":        {"garbage-collector-down", owes("", foreground).breaks(down(controllers))},
		"one that is down and lets others go":     {"garbage-collector-down", owes("", orphaning).breaks(down(controllers))},
		"a job controller that is down":           {"job-controller-down", owes("job", tracking).breaks(down(controllers))},
		"one that stands still":                   {"job-controller-down", owes("job", tracking).breaks(paused(controllers))},
		"one that is cut off":                     {"job-controller-down", owes("job", tracking).breaks(offControllers())},
		"one whose requests fail":                 {"job-controller-down", owes("job", tracking).breaks(refusing("controllers*"))},
		"one whose apiserver cannot write":        {"job-controller-down", owes("job", tracking).breaks(faults)},
		"one whose clock jumps":                   {"job-controller-down", owes("job", tracking).breaks(clock)},
		"one that is behind":                      {"job-controller-down", owes("job", tracking).was(down(controllers), 10, 40)},
		"one that pauses for as long as it tried": {"job-controller-down", owes("job", tracking).was(down("apiserver"), 300, 300)},
		"one that was not told a while ago":       {"job-controller-down", owes("job", tracking).was(lossy(), 2000, 300)},
		"one that is refused":                     {"job-controller-down", owes("job", tracking).ask("no", by(controllers, "patch"), 403).idles(100)},
		"one that has just begun":                 {"job-controller-down", begun},
		"a Job that waits":                        {"job-keeps-pod", owes("job", tracking).reconciled()},
		"a Job that has gone a moment ago":        {"job-keeps-pod", owes("job", tracking).reconciled().jobGoes()},
		"a pod that was counted a moment ago":     {"job-keeps-pod", owes("job", tracking, "a/b").reconciled().changes(finalizers("a/b"))},
		"an apiserver that has failed":            {"apiserver-fails", watchedForge().run().asked().ask("no", by(node, "update"), 503)},
		"one that failed a minute ago":            {"apiserver-fails", watchedForge().run().asked().heard().ask("no", by(node, "update"), 503).idles(70)},
		"who refuses the kubelet":                 {"kubelet-unauthorised", watchedForge().run().asked().heard().ask("no", by(node, "update"), 403).idles(70)},
		"one that nobody hears":                   {"apiserver-fails", watchedForge().run().asked().breaks(lossy())},
	} {
		all["L8: "+what] = c.f.blames(uid, c.reason)
	}
	return all
}
