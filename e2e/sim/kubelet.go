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
	of      kubeletConfig
	begun   begun
	api     apiSide
	runtime runtimeSide
	host
	pods     map[types.UID]*corev1.Pod
	ready    bool
	timers   timers
	untidied bool // housekeeping has something to look at
}

// host is what the product's shells run on, and the shells.
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

// kubeletConfig is what every incarnation of a kubelet has.
type kubeletConfig struct {
	node string
	// runtime is the process that it asks; empty for none that answers.
	runtime string
	kernel  *Kernel
	timing  kubelet.Timing
	compat  proto.Compat
	kinds   nodeKinds
	// silent has it say nothing about its node.
	silent bool
}

type nodeKinds struct{ pods, nodes, leases kinds.Kind }

// begun is when and as which incarnation.
type begun struct {
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
	k.api.contacts = kubelet.NewContacts(func() time.Time { return k.begun.now })
	return k
}

func kindOfResource(name string) kinds.Kind {
	kind, ok := kinds.ByResource(name)
	if !ok {
		panic("sim: the table of kinds has no " + name)
	}
	return kind
}

// Held is which versions of pods it has, and what its workers are at: what does not follow
// from what it was given when that came in another order.
func (k *kubeletProcess) Held() string {
	var text strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		_, _ = fmt.Fprint(&text, uid, k.pods[uid].ResourceVersion, k.worked(uid), len(k.tasks.waiting), k.untidied, " ")
	}
	return text.String()
}

// End is called when the process crashes: the machine knows.
func (k *kubeletProcess) End() {
	if k.of.kernel.kubelet == k.begun.boot {
		k.of.kernel.kubelet = ""
	}
	k.out = noOut{}
	k.tasks.end()
}

func (k *kubeletProcess) Step(now time.Time, in Input, out Out) {
	if boot, is := in.(Boot); is {
		k.begin(now, boot, out)
		return
	}
	k.begun.now = now
	switch {
	case k.api.client.Step(now, in, out):
	case k.api.follower.Step(now, in, out):
	default:
		switch in := in.(type) {
		case Answered:
			k.answered(in)
		case Message:
			if news, is := in.Body.(News); is {
				k.noticed(news)
			}
		case Alarm:
			k.timers.fire(now, in.Key, out)
		case Boot, Called:
		}
	}
	k.take(now, out)
	k.proceed()
	k.plan(now, out)
}

func (k *kubeletProcess) begin(now time.Time, boot Boot, out Out) {
	k.begun = begun{now, boot.Boot, boot.Seed, now}
	k.out, k.tasks = out, newTaskScheduler()
	k.of.kernel.kubelet = boot.Boot
	k.timers = timers{}
	out.Note("", history.KubeletBoot{Node: k.of.node})
	k.resumeDevices()
	k.api.set = podsource.New()
	k.reporter, k.prober = k.newReporter(), k.newProber()
	k.workers = k.newWorkers()
	k.start(k.reporter.Run)
	k.start(k.prober.Run)
	k.api.client = new(newClient(proto.Node(k.of.node), boot))
	k.api.follower = &Follower{
		Key: "pods", Client: k.api.client, Target: podapi.Target{Kind: k.of.kinds.pods}, Sink: k.api.set,
		Selector: fields.OneTermEqualSelector("spec.nodeName", k.of.node).String(),
	}
	k.api.follower.Start(now, out)
	k.relist(now, out)
	if !k.of.silent {
		k.start(k.speak)
	}
	k.collectLater(now, out)
	k.untidied = true
	k.proceed()
	k.plan(now, out)
}

// boundary is the next tick of that period; they are counted from the beginning.
func (k *kubeletProcess) boundary(now time.Time, period time.Duration) time.Time {
	past := now.Sub(k.begun.at)
	return now.Add(period - past%period)
}

// plan sets the alarms of what the product does at every tick, where there is something to
// be done.
func (k *kubeletProcess) plan(now time.Time, out Out) {
	timing := k.of.timing
	if k.runtime.wanted && !k.runtime.listing {
		k.timers.soonest("relist", k.boundary(now, timing.Relist.Period), k.relist, out)
	}
	if k.untidied {
		k.timers.soonest("keep", k.boundary(now, timing.Loop.Housekeeping), k.housekeep, out)
	}
	due := k.workers.NextDue()
	if !due.IsZero() {
		k.timers.soonest("tick", k.boundary(latestOf(now, due.Add(-1)), timing.Loop.Tick), k.tick, out)
	}
}

func latestOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// tick tells every worker whose retry or resync is due.
func (k *kubeletProcess) tick(time.Time, Out) { k.workers.Due(k.tasks.ctx) }

// well reports whether the loop does not stand still (KBL-07).
func (k *kubeletProcess) well(now time.Time) bool {
	return len(k.runtime.views.Problems(now, k.of.timing.Relist)) == 0
}

// take takes up what has changed in the API and in the runtime.
func (k *kubeletProcess) take(now time.Time, out Out) {
	if !k.well(now) {
		return
	}
	ops, ready := k.api.set.Take()
	if ready != k.ready || len(ops) > 0 {
		k.ready, k.untidied = ready, true
	}
	for _, op := range ops {
		k.handle(op, out)
	}
	for _, uid := range k.runtime.views.Take() {
		k.tell(uid, podworker.Changed{})
	}
}

// handle passes an operation on (KBL-02).
func (k *kubeletProcess) handle(op podset.Op, out Out) {
	pod := op.Pod
	out.Note("", history.KubeletSee{
		Pod: podstate.Key(pod), UID: string(pod.UID), Op: op.Verb.String(), Revision: pod.ResourceVersion, Grace: pod.DeletionGracePeriodSeconds,
	})
	if op.Verb == podset.Remove {
		delete(k.pods, pod.UID)
		k.tell(pod.UID, podworker.Removed{})
		return
	}
	k.pods[pod.UID] = pod
	if v, worked := k.workers.Get(pod.UID); podworker.Heeds(op, v.State, worked, false) {
		k.see(pod)
	}
	if op.Verb != podset.Add {
		k.reporter.Refresh(pod)
	}
}

func (k *kubeletProcess) see(pod *corev1.Pod) {
	seen, listed := k.runtime.views.Last(pod.UID)
	k.tell(pod.UID, podworker.Seen{Pod: pod, Idle: listed && seen.Idle()})
}

// housekeep puts right what no event says.
func (k *kubeletProcess) housekeep(now time.Time, _ Out) {
	k.untidied = false
	if !k.ready || !k.well(now) {
		k.untidied = true
		return
	}
	forget, again := podworker.Keep(k.workers.All(), k.pods)
	for _, uid := range forget {
		k.workers.Forget(k.tasks.ctx, uid)
	}
	for _, uid := range again {
		k.tell(uid, podworker.Removed{})
		k.tell(uid, podworker.Due{})
	}
	for _, uid := range k.reporter.Known() {
		if k.pods[uid] == nil {
			k.reporter.Forget(uid)
		}
	}
	k.sweep()
	for _, uid := range slices.Sorted(maps.Keys(k.pods)) {
		if !k.worked(uid) {
			k.see(k.pods[uid])
		}
	}
	expected := func(uid types.UID) bool { return k.pods[uid] != nil }
	for _, seen := range podworker.Strays(k.runtime.views.All(), k.worked, expected) {
		k.tell(seen.UID, podworker.Orphan{Pod: podworker.Synthesise(seen)})
	}
	k.untidied = k.untidied || len(forget)+len(again) > 0
}
