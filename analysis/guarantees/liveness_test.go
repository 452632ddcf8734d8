package guarantees

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/partition"
)

// watchedForge is a history in which trouble is written down, on a node that has a kubelet.
func watchedForge() *forge {
	f := newForge().say("nemesis", "", history.FaultWatch{Kinds: []history.TroubleKind{
		history.TroubleFault, history.TroubleCut, history.TroubleClock, history.TroubleDown, history.TroublePaused,
	}})
	return f.say(kubelet, "", history.KubeletBoot{Node: "n1"})
}

func (f *forge) breaks(t history.Trouble) *forge {
	return f.say("nemesis", "", history.FaultBegin{Trouble: t})
}

func (f *forge) mends(t history.Trouble) *forge {
	return f.say("nemesis", "", history.FaultEnd{Trouble: t})
}

// idles lets time go by, with signs of life.
func (f *forge) idles(seconds int64) *forge {
	const every = 10
	for ; seconds > every; seconds -= every {
		f.wait(every-2).say("controllers", "", history.Lease{Node: "none"})
	}
	return f.wait(seconds).say("controllers", "", history.Lease{Node: "none"})
}

func down(process string) history.Trouble {
	return history.Trouble{Kind: history.TroubleDown, What: process}
}

// cutting is a cut of the node that holds everything.
func cutting() history.Trouble {
	spec := partition.Spec{Members: []string{"n1"}}
	data, _ := json.Marshal(partition.Cut{Name: "n1", Spec: spec})
	return history.Trouble{Kind: history.TroubleCut, What: "n1", CutOff: spec.Members, Arguments: data}
}

// skewing is an apiserver's clock that is an hour ahead.
func skewing() history.Trouble {
	return faulty(fault.ClockSkew, fault.Attributes{Process: "apiserver"}, fault.Effect{Kind: fault.Value, Value: "1h"})
}

// faulty is a fault at a point.
func faulty(point fault.Point, where fault.Attributes, effect fault.Effect) history.Trouble {
	data, _ := json.Marshal(fault.Fault{Name: "f", Spec: fault.Spec{Point: point, Where: where, Effect: effect}})
	return history.Trouble{Kind: history.TroubleFault, What: "f", Arguments: data}
}

// asked is the pod's mark, of which its node has not heard.
func (f *forge) asked() *forge {
	return f.ask("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, f.clock+2+30)))
}

// heard is when its kubelet has.
func (f *forge) heard() *forge {
	f.say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "DELETE", Revision: "4", Grace: new(int64(30))})
	return f.say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
}

// hooks is a pod that is deleted while its postStart hook runs, which then ends.
func (f *forge) hooks() *forge {
	f.idles(60).run().say(kubelet, "", history.PostStartBegin{ContainerRef: of()}).asked().idles(100)
	return f.say(kubelet, "", history.PostStartEnd{ContainerRef: of()})
}

// forced is a pod that is forced away.
func (f *forge) forced() *forge {
	return f.ask("force", by(user, "delete", grace(0)), 200, web(modified, marked(0, f.clock+2)), web(deleted, marked(0, f.clock+2)))
}

func (f *forge) missing() *forge {
	return f.say(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "REMOVE", Revision: "3"})
}

func (f *forge) blames(uid, reason string) *forge {
	return f.say("controllers", "", history.Blocker{UID: uid, Reason: reason})
}

// long makes the last event have begun so many seconds earlier.
func (f *forge) long(seconds int64) *forge {
	events := f.evidence.Log.Events
	events[len(events)-1].Began -= seconds * int64(time.Second)
	return f
}

// set is a ReplicaSet that is to have one pod, and a controller that has seen it.
func (f *forge) set() *forge {
	f.ask("set", history.OpCall{Identity: user, Verb: "create", Resource: "replicasets.apps", Key: "default/rs"}, 201,
		history.Commit{Resource: "replicasets.apps", Key: "default/rs", UID: "rs", Op: added, Content: history.Content{Workload: history.Workload{Replicas: new(int32(1))}}})
	return f.say("controllers", "", history.Decide{Controller: "replicaset-controller", Action: "create", Resource: podResource, Key: name})
}

// makes has a ReplicaSet make pods, and write down something of each.
func (f *forge) makes(pods ...string) *forge {
	for _, one := range pods {
		f.ask("make "+one, by("controllers", "create"), 201, web(added, pending, owned, called(one, one)))
		f.ask("change "+one, by("controllers", "patch"), 200, web(modified, pending, owned, called(one, one)))
	}
	return f.idles(300)
}

// ends has a namespace be made, and deleted.
func (f *forge) ends(namespace string) *forge {
	made := history.Commit{Resource: "namespaces", Key: namespace, UID: "ns", Op: added}
	f.ask("namespace", history.OpCall{Identity: user, Verb: "create", Resource: "namespaces", Key: namespace}, 201, made)
	made.Op, made.Deadline = modified, new(time.Unix(f.clock+2, 0))
	return f.ask("end", history.OpCall{Identity: user, Verb: "delete", Resource: "namespaces", Key: namespace}, 200, made)
}

func owned(c *history.Commit) { c.Owner = "rs" }

// inOrder is a StatefulSet that is to have one pod, which it has made under some name and had to
// let go of, because its labels were changed or in spite of those that it has.
func (f *forge) inOrder(pod string, after map[string]string) *forge {
	set := history.Commit{
		Resource: "statefulsets.apps", Key: "default/db", UID: "set", Op: added,
		Content: history.Content{Workload: history.Workload{Replicas: new(int32(1)), InOrder: true}},
	}
	f.ask("set", history.OpCall{Identity: user, Verb: "create", Resource: set.Resource, Key: set.Key}, 201, set)
	f.say("controllers", "", history.Decide{Controller: "statefulset-controller", Action: "create", Resource: podResource, Key: pod})
	its := its(history.Content{Owner: "set", Labels: map[string]string{"app": "db"}})
	f.ask("pod", by("controllers", "create"), 201, web(added, pending, its, called(pod, uid))).idles(5)
	return f.ask("free", by("controllers", "patch"), 200, web(modified, pending, called(pod, uid), labelled(after))).idles(300)
}

func labelled(labels map[string]string) func(*history.Commit) {
	return func(c *history.Commit) { c.Labels = labels }
}

// left is a request that has so many milliseconds.
func left(milliseconds int64) func(*history.OpCall) {
	return func(o *history.OpCall) { o.TimeLeft = &milliseconds }
}

// streaming is a watch of all pods, and one that is created.
func streaming() *forge {
	f := watchedForge().say("apiserver", "", history.WatchOpen{Watch: allPods, Resource: podResource})
	return f.ask("create", by(user, "create"), 201, web(added, pending))
}

// lively are histories with trouble that keep every promise.
func lively() map[string]*forge {
	healed := watchedForge().run().breaks(cutting()).asked().idles(20).mends(cutting()).heard().signal("SIGTERM").exit().told().remove().idles(10)
	waits := watchedForge().run().breaks(cutting()).asked().idles(20).mends(cutting()).idles(58).heard().signal("SIGTERM").exit().told().remove().idles(10)
	orphan := watchedForge().run().breaks(cutting()).forced().idles(20).mends(cutting()).missing().signal("SIGTERM").exit().idles(10)
	sent := streaming()
	sent.say("apiserver", "", history.WatchEvent{Watch: allPods, Type: added, Revision: 1, UID: uid}).idles(60)
	owns := watchedForge().set().ask("pod", by("controllers", "create"), 201, web(added, pending, owned)).idles(300)
	adopted := watchedForge().set().ask("pod", by("controllers", "create"), 201, web(added, pending, owned)).idles(300).breaks(cutting())
	adopted.ask("adopt", by("controllers", "patch"), 200, web(modified, pending, func(c *history.Commit) { c.Owner = "other" }))
	killed := watchedForge().run().breaks(down("apiserver")).restart("apiserver")
	killed.say("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).mends(down("apiserver")).long(3).idles(10)
	explained := watchedForge().run().breaks(down(kubelet)).asked().idles(100).blames(uid, "kubelet-down").idles(100)
	skewed := watchedForge().run().breaks(skewing())
	skewed.ask("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, skewed.clock+3632)))
	quick := newForge().run().ask("in time", by(user, "patch", left(20000)), 200, web(modified))
	refused := watchedForge().run().asked().consult("no", by(node, "update"), says(history.HookDenied)).finish("no", 403).idles(50).blames(uid, "webhook-refuses-kubelet")
	ending := watchedForge().ends("default").set().idles(300)
	return map[string]*forge{
		"a Job that goes on":     watchedForge().ask("create", by(user, "create"), 201, web(added, pending)).idles(100).begins(jobResource).goesOn(jobResource, "sum"),
		"a pod in the way":       watchedForge().inOrder("default/db-0", nil),
		"a namespace that ends":  ending,
		"a pod that is refused":  watchedForge().set().idles(100).ask("no", by(controllers, "create"), 403).idles(300),
		"a webhook":              refused,
		"a hook":                 watchedForge().hooks().heard().signal("SIGTERM").exit().told().remove().idles(10),
		"a hook that fails":      watchedForge().hooks().signal("SIGTERM").idles(100).signal("SIGKILL").exit().heard().told().remove().idles(10),
		"a hook that never ends": watchedForge().idles(60).run().say(kubelet, "", history.PostStartBegin{ContainerRef: of()}).asked().heard().idles(1000),
		"unblocked":              watchedForge().idles(60).whole().idles(10), "healed": healed, "a kubelet waits before it lists again": waits, "orphan": orphan, "sent": sent, "owns": owns, "adopted later": adopted,
		"killed": killed, "explained": explained, "skewed": skewed, "in time": quick, "idle": watchedForge().ask("create", by(user, "create"), 201, web(added, pending)).idles(300),
	}
}

// begins has the controllers make an owner, sum.
func (f *forge) begins(resource string) *forge {
	return f.ask("begin", by(controllers, "create"), 201, history.Commit{Resource: resource, Key: "default/sum", UID: "sum", Op: added})
}

// goesOn has a controller decide the same about sum each time that an owner has got another pod.
func (f *forge) goesOn(resource, owner string) *forge {
	for i := range 20 {
		pod := fmt.Sprintf("sum-%d", i)
		f.ask(pod, by(controllers, "create"), 201, history.Commit{Resource: podResource, Key: "default/" + pod, UID: pod, Op: added, Content: history.Content{Owner: owner}})
		f.say("controllers", "", history.Decide{Controller: "x", Action: "update", Resource: resource, Key: "default/sum"})
	}
	return f.idles(60)
}

// loops has a controller decide the same about an object all the time.
func (f *forge) loops(resource, key string) *forge {
	for range 20 {
		f.say("controllers", "", history.Decide{Controller: "x", Action: "update", Resource: resource, Key: key})
	}
	return f.idles(60)
}

func brokenLiveness() []forged {
	run := func() *forge { return watchedForge().run() }
	orphan := run().breaks(cutting()).forced().idles(20).mends(cutting()).missing().idles(300)
	strayed := watchedForge().set().ask("pod", by("controllers", "create"), 201, web(added, pending, owned))
	strayed.ask("adopt", by("controllers", "patch"), 200, web(modified, pending, func(c *history.Commit) { c.Owner = "other" })).idles(300)
	unhindered := watchedForge().inOrder("default/db-0", nil)
	unhindered.ask("away", by(user, "delete", grace(0)), 200, web(deleted, pending, called("default/db-0", uid), marked(0, unhindered.clock+2))).idles(300)
	slow := run().breaks(down("apiserver")).restart("apiserver").say("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).mends(down("apiserver")).long(60)
	hangs := newForge().run().say("apiserver", "hangs", by(user, "patch", left(5000))).wait(60).say("apiserver", "hangs", history.OpReturn{Code: 500})
	silent := run().breaks(down(kubelet)).asked().idles(200).blames("another", "kubelet-down").idles(20)
	blamed := run().consult("user", by(user, "patch"), says(history.HookDenied)).finish("user", 403).asked().ask("no", by(node, "update"), 403)
	blamed.idles(50).blames(uid, "webhook-refuses-kubelet")
	loops := watchedForge().create().idles(100).loops(podResource, name)
	through := run().breaks(cutting()).idles(20).ask("zombie", by(node, "update"), 200, web(modified)).idles(5).mends(cutting())
	hears := run().breaks(cutting()).idles(20).asked().heard().idles(5).mends(cutting())
	reborn := run().breaks(cutting()).idles(20).restart(kubelet).say(kubelet, "", history.KubeletBoot{Node: "n1"})
	reborn.say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30}).idles(5).mends(cutting())
	return []forged{
		{"L1", "a pod that stays", watchedForge().idles(60).run().mark().idles(100)},
		{"L1", "a pod that stays, whose kubelet's update was too late", watchedForge().idles(60).run().mark().idles(30).ask("late", by(node, "update"), 409).idles(70)},
		{"L2", "a pod that stays after the heal", run().breaks(cutting()).asked().idles(20).mends(cutting()).idles(200)},
		{"L2", "a pod that stays after its hook", watchedForge().hooks().idles(100)},
		{"L3", "an orphan that nobody ends", orphan},
		{"L4", "a watch that is not sent a commit", streaming().idles(100)},
		{"L4", "a kubelet that hears nothing", watchedForge().create().idles(100)},
		{"L5", "a set without its pod beside a namespace that ends", watchedForge().ends("other").set().idles(300)},
		{"L5", "a set without its pod", watchedForge().set().idles(300)},
		{"L5", "a set without its pod, whose controllers' patch was too late", watchedForge().set().idles(100).ask("late", by(controllers, "patch"), 409).idles(300)},
		{"L5", "a set without its pod, whose controllers patched what had gone", watchedForge().set().idles(100).ask("late", by(controllers, "patch"), 404).idles(300)},
		{"L5", "a set whose pod is another's", strayed},
		{"L5", "a set with a pod too many, of which nobody wrote down that it was made", watchedForge().set().makes(name, "default/more").unrecorded(4)},
		{"L5", "a set without a pod in its way", unhindered},
		{"L5", "a set with a pod in the way of none of its own", watchedForge().inOrder("default/db-1", nil)},
		{"L5", "a set that lets go of what is its own", watchedForge().inOrder("default/db-0", map[string]string{"app": "db"})},
		{"L6", "an apiserver that takes a minute", slow},
		{"L7", "a request that hangs", hangs},
		{"L8", "a kubelet that is blamed and runs", run().asked().idles(50).blames(uid, "kubelet-down")},
		{"L8", "a webhook that is blamed, and was asked by others", blamed},
		{"L8", "a pod that nobody explains", silent},
		{"L9", "a controller that decides all the time", loops},
		{"L9", "about a Job of which no pod changes", watchedForge().create().idles(100).begins(jobResource).loops(jobResource, "default/sum")},
		{"L9", "about a Job while another's pods change", watchedForge().create().idles(100).begins(jobResource).goesOn(jobResource, "other")},
		{"L9", "about an owner that makes pods all the time", watchedForge().create().idles(100).begins("daemonsets.apps").goesOn("daemonsets.apps", "sum")},
		{"N3", "a request through a cut", through},
		{"N3", "a commit that is heard of through a cut", hears},
		{"K14", "a pod that is taken for removed", run().breaks(cutting()).idles(20).missing().idles(5).mends(cutting())},
		{"K14", "a pod that a new kubelet has not heard of", reborn},
	}
}

// TestCalms finds the times in which nothing is broken.
func TestCalms(t *testing.T) {
	lengths := func(f *forge) (seconds []int64) {
		for _, c := range newClusterHistory(f.evidence).calmPeriods() {
			seconds = append(seconds, (c.to-c.from+int64(time.Second)/2)/int64(time.Second))
		}
		return seconds
	}
	again := watchedForge().breaks(cutting()).idles(10).say("nemesis", "", history.FaultWatch{Kinds: []history.TroubleKind{history.TroubleCut}})
	reborn := watchedForge().breaks(cutting()).idles(10).restart("nemesis")
	reborn.say("nemesis", "", history.FaultWatch{Kinds: []history.TroubleKind{history.TroubleCut}}).idles(10)
	for what, c := range map[string]struct {
		history *forge
		want    []int64
	}{
		"nobody writes it down": {newForge().run(), nil},
		"nothing":               {watchedForge().idles(10), []int64{14}},
		"once":                  {watchedForge().breaks(cutting()).idles(10).mends(cutting()).idles(20), []int64{3, 22}},
		"two at once":           {watchedForge().breaks(cutting()).breaks(down(kubelet)).mends(cutting()).idles(10).mends(down(kubelet)).idles(20), []int64{3, 22}},
		"to the end":            {watchedForge().breaks(cutting()).idles(10), []int64{3}},
		"the same writer":       {again, []int64{3}},
		"a new writer":          {reborn, []int64{3, 12}},
	} {
		if got := lengths(c.history); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v seconds, want %v", what, got, c.want)
		}
	}
}

// TestFull tells cuts through which nothing passes.
func TestFull(t *testing.T) {
	second := metav1.Duration{Duration: time.Second}
	for what, c := range map[string]struct {
		spec partition.Spec
		want bool
	}{
		"hold":      {partition.Spec{}, true},
		"reset":     {partition.Spec{Manner: partition.Reset, Direction: partition.ToNode}, true},
		"both":      {partition.Spec{Direction: partition.Both}, true},
		"one way":   {partition.Spec{Direction: partition.ToNode}, false},
		"slow":      {partition.Spec{Latency: second}, false},
		"slow hold": {partition.Spec{Latency: second, Manner: partition.Hold}, true},
		"flapping":  {partition.Spec{Flap: partition.Flap{Down: second, Up: second}}, false},
		"leases":    {partition.Spec{Only: []partition.Message{partition.Leases}}, false},
	} {
		o := &trouble{Trouble: history.Trouble{Kind: history.TroubleCut}, cut: partition.Cut{Spec: c.spec}}
		if o.isFullCut() != c.want {
			t.Errorf("%s: %v, want %v", what, o.isFullCut(), c.want)
		}
	}
}

// TestCompare sets two ends side by side.
func TestCompare(t *testing.T) {
	one := EndState(newForge().run().evidence)
	if lines := DiffStates(one, EndState(newForge().ask("noise", by(user, "patch"), 409).run().evidence)); len(lines) > 0 {
		t.Errorf("equal lives differ: %q", lines)
	}
	if lines := DiffStates(one, EndState(newForge().whole().evidence)); len(lines) != 1 {
		t.Errorf("a pod that is gone: %q, want one line", lines)
	}
	if lines := DiffStates(one, EndState(newForge().run().mark().evidence)); len(lines) != 1 {
		t.Errorf("a pod that is going: %q, want one line", lines)
	}
	if lines := DiffStates(State{}, one); len(lines) != 1 {
		t.Errorf("a pod that is new: %q, want one line", lines)
	}
}
