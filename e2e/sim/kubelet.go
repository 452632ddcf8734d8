package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet"
	"github.com/podfall/podfall/services/kubelet/pleg"
	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podsource"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// kubeletProcess is a node's kubelet: the product's pod workers, reporter, prober and node as
// tasks, between a twin of its sync loop and its relister. It has no images, cgroups, static
// pods and admission.
//
// Where the product looks every second or two, this looks when there is something to be
// seen, at the instant at which the product would.
type kubeletProcess struct {
	of          kubeletConfig
	incarnation incarnation
	api         apiSide
	runtime     runtimeSide
	host
	pods     map[types.UID]*corev1.Pod
	ready    bool
	timers   timers
	untidied bool // housekeeping has something to look at
}

// host holds the product's shells and what they run on.
type host struct {
	// out acts for the process, between its steps too.
	out      Out
	tasks    *taskScheduler
	workers  *podworker.Workers
	reporter *status.Reporter
	prober   *probes.Prober
	volumes  *kernelVolumes
	// devices are the attachable volumes that the node uses.
	devices *volumes.Devices
}

// kubeletConfig is the configuration of every incarnation of a kubelet.
type kubeletConfig struct {
	node string
	// runtime is the process that it asks; empty for none that answers.
	runtime string
	kernel  *Kernel
	timing  kubelet.Timing
	compat  proto.Compat
	kinds   nodeKinds
	// silent means that the kubelet does not report its node.
	silent bool
}

type nodeKinds struct{ pods, nodes, leases kinds.Kind }

// incarnation is when and as which boot the kubelet began.
type incarnation struct {
	at   time.Time
	boot proto.Boot
	seed uint64
	// now is when it was stepped last.
	now time.Time
}

// apiSide is the way to the apiserver.
type apiSide struct {
	client   *Client
	follower *Follower
	set      *podsource.Set
	contacts *kubelet.Contacts
}

// newKubelet is the next incarnation of a node's kubelet.
func newKubelet(node string, kernel *Kernel, timing kubelet.Timing) *kubeletProcess {
	compat, err := proto.CompatFor("")
	if err != nil {
		panic("sim: " + err.Error()) // a mistake in package proto
	}
	k := &kubeletProcess{
		of: kubeletConfig{node: node, runtime: "runtime/" + node, kernel: kernel, timing: timing, compat: compat, kinds: nodeKinds{
			pods: kindOfResource("pods"), nodes: kindOfResource("nodes"), leases: kindOfResource("leases.coordination.k8s.io"),
		}},
		pods:    map[types.UID]*corev1.Pod{},
		runtime: runtimeSide{views: pleg.NewViews(), calls: map[CallID]*runtimeCall{}, next: make(chan struct{})},
	}
	k.volumes = &kernelVolumes{k: k, pods: map[types.UID]*volumesOfPod{}}
	k.api.contacts = kubelet.NewContacts(func() time.Time { return k.incarnation.now })
	return k
}

func kindOfResource(name string) kinds.Kind {
	kind, ok := kinds.ByResource(name)
	if !ok {
		panic("sim: the table of kinds has no " + name)
	}
	return kind
}

// StateSummary describes the versions of pods and the states of workers. They may depend on the
// order of inputs within an instant.
func (k *kubeletProcess) StateSummary() string {
	var text strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		_, _ = fmt.Fprint(&text, uid, k.pods[uid].ResourceVersion, k.hasWorker(uid), len(k.tasks.waiting), k.untidied, " ")
	}
	return text.String()
}

// End is called on a crash, and lets the machine know.
func (k *kubeletProcess) End() {
	if k.of.kernel.kubelet == k.incarnation.boot {
		k.of.kernel.kubelet = ""
	}
	k.out = deadOut{}
	k.tasks.end()
}

func (k *kubeletProcess) Step(now time.Time, in Input, out Out) {
	if boot, is := in.(Boot); is {
		k.boot(now, boot, out)
		return
	}
	k.incarnation.now = now
	switch {
	case k.api.client.Step(now, in, out):
	case k.api.follower.Step(now, in, out):
	default:
		switch in := in.(type) {
		case Answered:
			k.handleAnswer(in)
		case Message:
			if news, is := in.Body.(News); is {
				k.handleNews(news)
			}
		case Alarm:
			k.timers.fire(now, in.Key, out)
		case Boot, Called:
		}
	}
	k.handleChanges(now, out)
	k.runTasks()
	k.setAlarms(now, out)
}

func (k *kubeletProcess) boot(now time.Time, boot Boot, out Out) {
	k.incarnation = incarnation{now, boot.Boot, boot.Seed, now}
	k.out, k.tasks = out, newTaskScheduler()
	k.of.kernel.kubelet = boot.Boot
	k.timers = timers{}
	out.Note("", history.KubeletBoot{Node: k.of.node})
	k.resumeDevices()
	k.api.set = podsource.New()
	k.reporter, k.prober = k.newReporter(), k.newProber()
	k.workers = k.newWorkers()
	k.startTask(k.reporter.Run)
	k.startTask(k.prober.Run)
	k.api.client = new(newClient(proto.Node(k.of.node), boot))
	k.api.follower = &Follower{
		Key: "pods", Client: k.api.client, Target: podapi.Target{Kind: k.of.kinds.pods}, Sink: k.api.set,
		Selector: fields.OneTermEqualSelector("spec.nodeName", k.of.node).String(),
	}
	k.api.follower.Start(now, out)
	k.relist(now, out)
	if !k.of.silent {
		k.startTask(k.runNode)
	}
	k.scheduleCollection(now, out)
	k.untidied = true
	k.runTasks()
	k.setAlarms(now, out)
}

// nextTick returns the next tick of a period. Ticks are counted from the kubelet's start.
func (k *kubeletProcess) nextTick(now time.Time, period time.Duration) time.Time {
	past := now.Sub(k.incarnation.at)
	return now.Add(period - past%period)
}

// setAlarms sets the alarms of the product's periodic work, if there is something to do.
func (k *kubeletProcess) setAlarms(now time.Time, out Out) {
	timing := k.of.timing
	if k.runtime.wanted && !k.runtime.listing {
		k.timers.soonest("relist", k.nextTick(now, timing.Relist.Period), k.relist, out)
	}
	if k.untidied {
		k.timers.soonest("keep", k.nextTick(now, timing.Loop.Housekeeping), k.housekeep, out)
	}
	due := k.workers.NextDue()
	if !due.IsZero() {
		k.timers.soonest("tick", k.nextTick(latestOf(now, due.Add(-1)), timing.Loop.Tick), k.wakeDueWorkers, out)
	}
}

func latestOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wakeDueWorkers wakes every worker whose retry or resync is due.
func (k *kubeletProcess) wakeDueWorkers(time.Time, Out) { k.workers.StepDue(k.tasks.ctx) }

// isHealthy reports whether the sync loop is healthy (KBL-07).
func (k *kubeletProcess) isHealthy(now time.Time) bool {
	return len(k.runtime.views.Problems(now, k.of.timing.Relist)) == 0
}

// handleChanges handles changes of the API and of the runtime.
func (k *kubeletProcess) handleChanges(now time.Time, out Out) {
	if !k.isHealthy(now) {
		return
	}
	ops, ready := k.api.set.Take()
	if ready != k.ready || len(ops) > 0 {
		k.ready, k.untidied = ready, true
	}
	for _, op := range ops {
		k.dispatch(op, out)
	}
	for _, uid := range k.runtime.views.Take() {
		k.sendEvent(uid, podworker.Changed{})
	}
}

// dispatch passes an operation on (KBL-02).
func (k *kubeletProcess) dispatch(op podset.Op, out Out) {
	pod := op.Pod
	out.Note("", history.KubeletSee{
		Pod: podstate.Key(pod), UID: string(pod.UID), Op: op.Verb.String(), Revision: pod.ResourceVersion, Grace: pod.DeletionGracePeriodSeconds,
	})
	if op.Verb == podset.Remove {
		delete(k.pods, pod.UID)
		k.sendEvent(pod.UID, podworker.Removed{})
		return
	}
	k.pods[pod.UID] = pod
	if v, worked := k.workers.Get(pod.UID); podworker.MustSend(op, v.State, worked, false) {
		k.recordPod(pod)
	}
	if op.Verb != podset.Add {
		k.reporter.Refresh(pod)
	}
}

func (k *kubeletProcess) recordPod(pod *corev1.Pod) {
	seen, listed := k.runtime.views.Last(pod.UID)
	k.sendEvent(pod.UID, podworker.Seen{Pod: pod, Idle: listed && seen.IsIdle()})
}

// housekeep repairs what no event reports.
func (k *kubeletProcess) housekeep(now time.Time, _ Out) {
	k.untidied = false
	if !k.ready || !k.isHealthy(now) {
		k.untidied = true
		return
	}
	forget, again := podworker.Housekeep(k.workers.All(), k.pods)
	for _, uid := range forget {
		k.workers.Forget(k.tasks.ctx, uid)
	}
	for _, uid := range again {
		k.sendEvent(uid, podworker.Removed{})
		k.sendEvent(uid, podworker.Due{})
	}
	for _, uid := range k.reporter.Known() {
		if k.pods[uid] == nil {
			k.reporter.Forget(uid)
		}
	}
	k.unmountOrphans()
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		if !k.hasWorker(uid) {
			k.recordPod(k.pods[uid])
		}
	}
	expected := func(uid types.UID) bool { return k.pods[uid] != nil }
	for _, seen := range podworker.FindOrphans(k.runtime.views.All(), k.hasWorker, expected) {
		k.sendEvent(seen.UID, podworker.Orphan{Pod: podworker.PodFromRuntime(seen)})
	}
	k.untidied = k.untidied || len(forget)+len(again) > 0
}
