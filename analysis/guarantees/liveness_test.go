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

// newWatchedBuilder begins a history in which troubles are recorded, on a node that has a kubelet.
func newWatchedBuilder() *builder {
	b := newBuilder().record("nemesis", "", history.FaultWatch{Kinds: []history.TroubleKind{
		history.TroubleFault, history.TroubleCut, history.TroubleClock, history.TroubleDown, history.TroublePaused,
	}})
	return b.record(kubelet, "", history.KubeletBoot{Node: "n1"})
}

func (b *builder) beginTrouble(t history.Trouble) *builder {
	return b.record("nemesis", "", history.FaultBegin{Trouble: t})
}

func (b *builder) endTrouble(t history.Trouble) *builder {
	return b.record("nemesis", "", history.FaultEnd{Trouble: t})
}

// idle lets time pass, in seconds, while processes go on recording.
func (b *builder) idle(seconds int64) *builder {
	const every = 10
	for ; seconds > every; seconds -= every {
		b.wait(every-2).record("controllers", "", history.Lease{Node: "none"})
	}
	return b.wait(seconds).record("controllers", "", history.Lease{Node: "none"})
}

func downtimeOf(process string) history.Trouble {
	return history.Trouble{Kind: history.TroubleDown, What: process}
}

// cutNode is a cut of the node that holds everything.
func cutNode() history.Trouble {
	spec := partition.Spec{Members: []string{"n1"}}
	data, _ := json.Marshal(partition.Cut{Name: "n1", Spec: spec})
	return history.Trouble{Kind: history.TroubleCut, What: "n1", CutOff: spec.Members, Arguments: data}
}

// skewedClock puts the apiserver's clock an hour ahead.
func skewedClock() history.Trouble {
	return faultAt(fault.ClockSkew, fault.Attributes{Process: "apiserver"}, fault.Effect{Kind: fault.Value, Value: "1h"})
}

// faultAt is a fault at a point.
func faultAt(point fault.Point, where fault.Attributes, effect fault.Effect) history.Trouble {
	data, _ := json.Marshal(fault.Fault{Name: "f", Spec: fault.Spec{Point: point, Where: where, Effect: effect}})
	return history.Trouble{Kind: history.TroubleFault, What: "f", Arguments: data}
}

// markUnseen marks the pod before its node hears of it.
func (b *builder) markUnseen() *builder {
	return b.request("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, b.clock+2+30)))
}

// seeMark has the kubelet see the mark and begin to stop the pod.
func (b *builder) seeMark() *builder {
	b.record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "DELETE", Revision: "4", Grace: new(int64(30))})
	return b.record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30})
}

// runHook deletes a pod while its postStart hook runs, and then ends the hook.
func (b *builder) runHook() *builder {
	b.idle(60).runPod().record(kubelet, "", history.PostStartBegin{ContainerRef: of()}).markUnseen().idle(100)
	return b.record(kubelet, "", history.PostStartEnd{ContainerRef: of()})
}

// forceDelete force-deletes the pod.
func (b *builder) forceDelete() *builder {
	return b.request("force", by(user, "delete", grace(0)), 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
}

func (b *builder) seeRemoval() *builder {
	return b.record(kubelet, "", history.KubeletSee{Pod: name, UID: uid, Op: "REMOVE", Revision: "3"})
}

func (b *builder) explain(uid, reason string) *builder {
	return b.record("controllers", "", history.Blocker{UID: uid, Reason: reason})
}

// lengthen moves the beginning of the last event to so many seconds earlier.
func (b *builder) lengthen(seconds int64) *builder {
	events := b.evidence.Log.Events
	events[len(events)-1].Began -= seconds * int64(time.Second)
	return b
}

// createSet creates a ReplicaSet of one pod, which a controller has seen.
func (b *builder) createSet() *builder {
	b.request("set", history.OpCall{Identity: user, Verb: "create", Resource: "replicasets.apps", Key: "default/rs"}, 201,
		history.Commit{Resource: "replicasets.apps", Key: "default/rs", UID: "rs", Op: added, Content: history.Content{Workload: history.Workload{Replicas: new(int32(1))}}})
	return b.record("controllers", "", history.Decide{Controller: "replicaset-controller", Action: "create", Resource: podResource, Key: name})
}

// makePods has a ReplicaSet create pods and change each once.
func (b *builder) makePods(pods ...string) *builder {
	for _, one := range pods {
		b.request("make "+one, by("controllers", "create"), 201, web(added, pending, owned, called(one, one)))
		b.request("change "+one, by("controllers", "patch"), 200, web(modified, pending, owned, called(one, one)))
	}
	return b.idle(300)
}

// deleteNamespace creates a namespace and deletes it.
func (b *builder) deleteNamespace(namespace string) *builder {
	made := history.Commit{Resource: "namespaces", Key: namespace, UID: "ns", Op: added}
	b.request("namespace", history.OpCall{Identity: user, Verb: "create", Resource: "namespaces", Key: namespace}, 201, made)
	made.Op, made.Deadline = modified, new(time.Unix(b.clock+2, 0))
	return b.request("end", history.OpCall{Identity: user, Verb: "delete", Resource: "namespaces", Key: namespace}, 200, made)
}

func owned(c *history.Commit) { c.Owner = "rs" }

// releaseFromSet is a StatefulSet of one pod. It has made the pod under some name and released it,
// because the pod's labels were changed, or in spite of those that it has.
func (b *builder) releaseFromSet(pod string, after map[string]string) *builder {
	set := history.Commit{
		Resource: "statefulsets.apps", Key: "default/db", UID: "set", Op: added,
		Content: history.Content{Workload: history.Workload{Replicas: new(int32(1)), InOrder: true}},
	}
	b.request("set", history.OpCall{Identity: user, Verb: "create", Resource: set.Resource, Key: set.Key}, 201, set)
	b.record("controllers", "", history.Decide{Controller: "statefulset-controller", Action: "create", Resource: podResource, Key: pod})
	its := withContent(history.Content{Owner: "set", Labels: map[string]string{"app": "db"}})
	b.request("pod", by("controllers", "create"), 201, web(added, pending, its, called(pod, uid))).idle(5)
	return b.request("free", by("controllers", "patch"), 200, web(modified, pending, called(pod, uid), labelled(after))).idle(300)
}

func labelled(labels map[string]string) func(*history.Commit) {
	return func(c *history.Commit) { c.Labels = labels }
}

// left is how many milliseconds a request has.
func left(milliseconds int64) func(*history.OpCall) {
	return func(o *history.OpCall) { o.TimeLeft = &milliseconds }
}

// watchedPods is a watch of all pods, and the creation of one.
func watchedPods() *builder {
	b := newWatchedBuilder().record("apiserver", "", history.WatchOpen{Watch: allPods, Resource: podResource})
	return b.request("create", by(user, "create"), 201, web(added, pending))
}

// validTroubles returns histories with troubles that keep every invariant.
func validTroubles() map[string]*builder {
	healed := newWatchedBuilder().runPod().beginTrouble(cutNode()).markUnseen().idle(20).endTrouble(cutNode()).seeMark().signalPod("SIGTERM").exitPod().reportEnd().confirmPod().idle(10)
	waits := newWatchedBuilder().runPod().beginTrouble(cutNode()).markUnseen().idle(20).endTrouble(cutNode()).idle(58).seeMark().signalPod("SIGTERM").exitPod().reportEnd().confirmPod().idle(10)
	orphan := newWatchedBuilder().runPod().beginTrouble(cutNode()).forceDelete().idle(20).endTrouble(cutNode()).seeRemoval().signalPod("SIGTERM").exitPod().idle(10)
	sent := watchedPods()
	sent.record("apiserver", "", history.WatchEvent{Watch: allPods, Type: added, Revision: 1, UID: uid}).idle(60)
	owns := newWatchedBuilder().createSet().request("pod", by("controllers", "create"), 201, web(added, pending, owned)).idle(300)
	adopted := newWatchedBuilder().createSet().request("pod", by("controllers", "create"), 201, web(added, pending, owned)).idle(300).beginTrouble(cutNode())
	adopted.request("adopt", by("controllers", "patch"), 200, web(modified, pending, func(c *history.Commit) { c.Owner = "other" }))
	killed := newWatchedBuilder().runPod().beginTrouble(downtimeOf("apiserver")).restart("apiserver")
	killed.record("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).endTrouble(downtimeOf("apiserver")).lengthen(3).idle(10)
	explained := newWatchedBuilder().runPod().beginTrouble(downtimeOf(kubelet)).markUnseen().idle(100).explain(uid, "kubelet-down").idle(100)
	skewed := newWatchedBuilder().runPod().beginTrouble(skewedClock())
	skewed.request("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, skewed.clock+3632)))
	quick := newBuilder().runPod().request("in time", by(user, "patch", left(20000)), 200, web(modified))
	refused := newWatchedBuilder().runPod().markUnseen().consult("no", by(node, "update"), webhookSays(history.HookDenied)).finish("no", 403).idle(50).explain(uid, "webhook-refuses-kubelet")
	ending := newWatchedBuilder().deleteNamespace("default").createSet().idle(300)
	return map[string]*builder{
		"a Job that goes on":     newWatchedBuilder().request("create", by(user, "create"), 201, web(added, pending)).idle(100).createOwner(jobResource).decideForPods(jobResource, "sum"),
		"a pod in the way":       newWatchedBuilder().releaseFromSet("default/db-0", nil),
		"a namespace that ends":  ending,
		"a pod that is refused":  newWatchedBuilder().createSet().idle(100).request("no", by(controllers, "create"), 403).idle(300),
		"a webhook":              refused,
		"a hook":                 newWatchedBuilder().runHook().seeMark().signalPod("SIGTERM").exitPod().reportEnd().confirmPod().idle(10),
		"a hook that fails":      newWatchedBuilder().runHook().signalPod("SIGTERM").idle(100).signalPod("SIGKILL").exitPod().seeMark().reportEnd().confirmPod().idle(10),
		"a hook that never ends": newWatchedBuilder().idle(60).runPod().record(kubelet, "", history.PostStartBegin{ContainerRef: of()}).markUnseen().seeMark().idle(1000),
		"unblocked":              newWatchedBuilder().idle(60).deletePod().idle(10), "healed": healed, "a kubelet waits before it lists again": waits, "orphan": orphan, "sent": sent, "owns": owns, "adopted later": adopted,
		"killed": killed, "explained": explained, "skewed": skewed, "in time": quick, "idle": newWatchedBuilder().request("create", by(user, "create"), 201, web(added, pending)).idle(300),
	}
}

// createOwner has the controllers create the object sum.
func (b *builder) createOwner(resource string) *builder {
	return b.request("begin", by(controllers, "create"), 201, history.Commit{Resource: resource, Key: "default/sum", UID: "sum", Op: added})
}

// decideForPods has a controller repeat a decision about sum each time an owner gets another pod.
func (b *builder) decideForPods(resource, owner string) *builder {
	for i := range 20 {
		pod := fmt.Sprintf("sum-%d", i)
		b.request(pod, by(controllers, "create"), 201, history.Commit{Resource: podResource, Key: "default/" + pod, UID: pod, Op: added, Content: history.Content{Owner: owner}})
		b.record("controllers", "", history.Decide{Controller: "x", Action: "update", Resource: resource, Key: "default/sum"})
	}
	return b.idle(60)
}

// decideRepeatedly has a controller repeat a decision about an object all the time.
func (b *builder) decideRepeatedly(resource, key string) *builder {
	for range 20 {
		b.record("controllers", "", history.Decide{Controller: "x", Action: "update", Resource: resource, Key: key})
	}
	return b.idle(60)
}

func livenessViolations() []violation {
	run := func() *builder { return newWatchedBuilder().runPod() }
	orphan := run().beginTrouble(cutNode()).forceDelete().idle(20).endTrouble(cutNode()).seeRemoval().idle(300)
	strayed := newWatchedBuilder().createSet().request("pod", by("controllers", "create"), 201, web(added, pending, owned))
	strayed.request("adopt", by("controllers", "patch"), 200, web(modified, pending, func(c *history.Commit) { c.Owner = "other" })).idle(300)
	unhindered := newWatchedBuilder().releaseFromSet("default/db-0", nil)
	unhindered.request("away", by(user, "delete", grace(0)), 200, web(deleted, pending, called("default/db-0", uid), marked(0, unhindered.clock+2))).idle(300)
	slow := run().beginTrouble(downtimeOf("apiserver")).restart("apiserver").record("apiserver", "", history.StoreOpen{Revision: 3, ChecksumsOK: true}).endTrouble(downtimeOf("apiserver")).lengthen(60)
	hangs := newBuilder().runPod().record("apiserver", "hangs", by(user, "patch", left(5000))).wait(60).record("apiserver", "hangs", history.OpReturn{Code: 500})
	silent := run().beginTrouble(downtimeOf(kubelet)).markUnseen().idle(200).explain("another", "kubelet-down").idle(20)
	blamed := run().consult("user", by(user, "patch"), webhookSays(history.HookDenied)).finish("user", 403).markUnseen().request("no", by(node, "update"), 403)
	blamed.idle(50).explain(uid, "webhook-refuses-kubelet")
	loops := newWatchedBuilder().createPod().idle(100).decideRepeatedly(podResource, name)
	through := run().beginTrouble(cutNode()).idle(20).request("zombie", by(node, "update"), 200, web(modified)).idle(5).endTrouble(cutNode())
	hears := run().beginTrouble(cutNode()).idle(20).markUnseen().seeMark().idle(5).endTrouble(cutNode())
	reborn := run().beginTrouble(cutNode()).idle(20).restart(kubelet).record(kubelet, "", history.KubeletBoot{Node: "n1"})
	reborn.record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: 30}).idle(5).endTrouble(cutNode())
	return []violation{
		{"L1", "a pod that stays", newWatchedBuilder().idle(60).runPod().markPod().idle(100)},
		{"L1", "a pod that stays, whose kubelet's update was too late", newWatchedBuilder().idle(60).runPod().markPod().idle(30).request("late", by(node, "update"), 409).idle(70)},
		{"L2", "a pod that stays after the heal", run().beginTrouble(cutNode()).markUnseen().idle(20).endTrouble(cutNode()).idle(200)},
		{"L2", "a pod that stays after its hook", newWatchedBuilder().runHook().idle(100)},
		{"L3", "an orphan that keeps running", orphan},
		{"L4", "a watch that is not sent a commit", watchedPods().idle(100)},
		{"L4", "a kubelet that hears nothing", newWatchedBuilder().createPod().idle(100)},
		{"L5", "a set without its pod beside a namespace that ends", newWatchedBuilder().deleteNamespace("other").createSet().idle(300)},
		{"L5", "a set without its pod", newWatchedBuilder().createSet().idle(300)},
		{"L5", "a set without its pod, whose controllers' patch was too late", newWatchedBuilder().createSet().idle(100).request("late", by(controllers, "patch"), 409).idle(300)},
		{"L5", "a set without its pod, whose controllers patched what had gone", newWatchedBuilder().createSet().idle(100).request("late", by(controllers, "patch"), 404).idle(300)},
		{"L5", "a set whose pod is another's", strayed},
		{"L5", "a set with a pod too many, without a recorded creation", newWatchedBuilder().createSet().makePods(name, "default/more").loseCommit(4)},
		{"L5", "a set without a pod in its way", unhindered},
		{"L5", "a set with a pod in the way of none of its own", newWatchedBuilder().releaseFromSet("default/db-1", nil)},
		{"L5", "a set that lets go of what is its own", newWatchedBuilder().releaseFromSet("default/db-0", map[string]string{"app": "db"})},
		{"L6", "an apiserver that takes a minute", slow},
		{"L7", "a request that hangs", hangs},
		{"L8", "a kubelet that is blamed and runs", run().markUnseen().idle(50).explain(uid, "kubelet-down")},
		{"L8", "a webhook that is blamed, but refused another client", blamed},
		{"L8", "a pod without an explanation", silent},
		{"L9", "a controller that decides all the time", loops},
		{"L9", "about a Job of which no pod changes", newWatchedBuilder().createPod().idle(100).createOwner(jobResource).decideRepeatedly(jobResource, "default/sum")},
		{"L9", "about a Job while another's pods change", newWatchedBuilder().createPod().idle(100).createOwner(jobResource).decideForPods(jobResource, "other")},
		{"L9", "about an owner that makes pods all the time", newWatchedBuilder().createPod().idle(100).createOwner("daemonsets.apps").decideForPods("daemonsets.apps", "sum")},
		{"N3", "a request through a cut", through},
		{"N3", "a commit that is heard of through a cut", hears},
		{"K14", "a pod that is taken for removed", run().beginTrouble(cutNode()).idle(20).seeRemoval().idle(5).endTrouble(cutNode())},
		{"K14", "a pod that a new kubelet has not heard of", reborn},
	}
}

// TestCalmPeriods finds the times in which nothing is broken.
func TestCalmPeriods(t *testing.T) {
	lengths := func(b *builder) (seconds []int64) {
		for _, c := range newClusterHistory(b.evidence).calmPeriods() {
			seconds = append(seconds, (c.to-c.from+int64(time.Second)/2)/int64(time.Second))
		}
		return seconds
	}
	again := newWatchedBuilder().beginTrouble(cutNode()).idle(10).record("nemesis", "", history.FaultWatch{Kinds: []history.TroubleKind{history.TroubleCut}})
	reborn := newWatchedBuilder().beginTrouble(cutNode()).idle(10).restart("nemesis")
	reborn.record("nemesis", "", history.FaultWatch{Kinds: []history.TroubleKind{history.TroubleCut}}).idle(10)
	for what, c := range map[string]struct {
		history *builder
		want    []int64
	}{
		"no troubles recorded": {newBuilder().runPod(), nil},
		"nothing":              {newWatchedBuilder().idle(10), []int64{14}},
		"once":                 {newWatchedBuilder().beginTrouble(cutNode()).idle(10).endTrouble(cutNode()).idle(20), []int64{3, 22}},
		"two at once":          {newWatchedBuilder().beginTrouble(cutNode()).beginTrouble(downtimeOf(kubelet)).endTrouble(cutNode()).idle(10).endTrouble(downtimeOf(kubelet)).idle(20), []int64{3, 22}},
		"to the end":           {newWatchedBuilder().beginTrouble(cutNode()).idle(10), []int64{3}},
		"the same writer":      {again, []int64{3}},
		"a new writer":         {reborn, []int64{3, 12}},
	} {
		if got := lengths(c.history); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v seconds, want %v", what, got, c.want)
		}
	}
}

// TestFullCut recognises cuts that let nothing pass.
func TestFullCut(t *testing.T) {
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
		tr := &trouble{Trouble: history.Trouble{Kind: history.TroubleCut}, cut: partition.Cut{Spec: c.spec}}
		if tr.isFullCut() != c.want {
			t.Errorf("%s: %v, want %v", what, tr.isFullCut(), c.want)
		}
	}
}

// TestDiffStates compares two final states.
func TestDiffStates(t *testing.T) {
	one := EndState(newBuilder().runPod().evidence)
	if lines := DiffStates(one, EndState(newBuilder().request("noise", by(user, "patch"), 409).runPod().evidence)); len(lines) > 0 {
		t.Errorf("equal histories differ: %q", lines)
	}
	if lines := DiffStates(one, EndState(newBuilder().deletePod().evidence)); len(lines) != 1 {
		t.Errorf("a pod that is gone: %q, want one line", lines)
	}
	if lines := DiffStates(one, EndState(newBuilder().runPod().markPod().evidence)); len(lines) != 1 {
		t.Errorf("a pod that is going: %q, want one line", lines)
	}
	if lines := DiffStates(State{}, one); len(lines) != 1 {
		t.Errorf("a pod that is new: %q, want one line", lines)
	}
}
