package sim

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/probes"
	"github.com/podfall/podfall/services/kubelet/status"
)

// probed are the pods that have probes: what probes.Prober has a goroutine for is a timer
// here.
type probed map[types.UID]*probedPod

type probedPod struct {
	pod    *corev1.Pod
	probes map[probeKey]*probe
}

type probeKey struct {
	container string
	kind      probes.Kind
}

func (k probeKey) String() string { return k.container + "/" + strconv.Itoa(int(k.kind)) }

// probe is one probe of one container.
type probe struct {
	tracker probes.Tracker
	asking  bool
}

// probe probes a pod that is to run, or takes up its newer version.
func (k *kubeletProcess) probe(now time.Time, pod *corev1.Pod, out Out) {
	p := k.runtime.probes[pod.UID]
	if p == nil {
		if !probes.HasAny(pod) {
			return
		}
		p = &probedPod{probes: map[probeKey]*probe{}}
		k.runtime.probes[pod.UID] = p
	}
	p.pod = pod
	seen, _ := k.runtime.views.Last(pod.UID)
	for _, spec := range probes.Probed(pod) {
		for _, kind := range probes.Kinds() {
			at := probeKey{spec.Name, kind}
			if probes.Of(spec, kind) == nil {
				continue
			}
			one := p.probes[at]
			if one == nil {
				one = &probe{tracker: probes.NewTracker(kind)}
				p.probes[at] = one
				k.probeAt(now, pod.UID, at, out)
				continue
			}
			// A container that has just started need not wait for a period to be ready.
			impatient := kind == probes.Readiness && pod.DeletionTimestamp == nil && one.tracker.Result() != probes.Success
			if impatient && !one.asking && podstate.Alive(seen.Latest(spec.Name)) {
				k.probeAt(now, pod.UID, at, out)
			}
		}
	}
}

// unprobe ends all probes of a pod.
func (k *kubeletProcess) unprobe(uid types.UID, out Out) {
	p := k.runtime.probes[uid]
	if p == nil {
		return
	}
	for at := range p.probes { // independent of each other
		k.timers.stop(probeTimer(uid, at), out)
	}
	delete(k.runtime.probes, uid)
}

func probeTimer(uid types.UID, at probeKey) string { return "probe/" + string(uid) + "/" + at.String() }

func (k *kubeletProcess) probeAt(at time.Time, uid types.UID, key probeKey, out Out) {
	k.timers.set(probeTimer(uid, key), at, func(now time.Time, out Out) { k.probeNow(now, uid, key, out) }, out)
}

// probeNow is one look at a container.
func (k *kubeletProcess) probeNow(now time.Time, uid types.UID, at probeKey, out Out) {
	p := k.runtime.probes[uid]
	if p == nil || p.probes[at] == nil {
		return
	}
	spec := podstate.Container(p.pod, at.container)
	if spec == nil || probes.Of(spec, at.kind) == nil {
		return
	}
	what, one := probes.Of(spec, at.kind), p.probes[at]
	seen, _ := k.runtime.views.Last(uid)
	target := probes.TargetOf(p.pod, spec, seen.Latest(spec.Name), func(id string) probes.State { return k.probeState(uid, spec.Name, id) })
	var decision probes.Decision
	k.change(now, uid, one, out, func(t probes.Tracker) (next probes.Tracker) {
		next, decision = t.Tick(target, what, out.Shows(now))
		return next
	})
	again := func(now time.Time, out Out) { k.probeAt(now.Add(probes.Period(what)), uid, at, out) }
	switch decision {
	case probes.End:
	case probes.Leave:
		again(now, out)
	case probes.Ask:
		one.asking = true
		var question any = Reach{target.ID}
		if what.Exec != nil {
			question = Exec{target.ID}
		}
		k.ask(now, question, probes.Timeout(what), out, func(now time.Time, answer RuntimeResponse, out Out) {
			one.asking = false
			if k.runtime.probes[uid] != p || p.probes[at] != one {
				return
			}
			outcome := probes.Success
			if code, _ := answer.Body.(int32); answer.Err != nil || code != 0 {
				outcome = probes.Failure
			}
			k.change(now, uid, one, out, func(t probes.Tracker) probes.Tracker { return t.Answer(outcome, what) })
			again(now, out)
		})
	}
}

// change steps a tracker, and has the pod refreshed when its result is another one.
func (k *kubeletProcess) change(now time.Time, uid types.UID, one *probe, out Out, step func(probes.Tracker) probes.Tracker) {
	before := one.tracker.Result()
	one.tracker = step(one.tracker)
	if one.tracker.Result() != before {
		k.refresh(now, uid, out)
	}
}

// refresh reports what a probe has found, and has a container looked after that failed.
func (k *kubeletProcess) refresh(now time.Time, uid types.UID, out Out) {
	w := k.workers[uid]
	seen, _ := k.runtime.views.Last(uid)
	if w == nil || w.machine.State() > podworker.Stopping || len(seen.Containers) == 0 {
		return
	}
	pod := w.machine.Pod()
	k.book.Report(pod, seen, k.facts(pod, seen, status.Facts{MayRun: true, Waiting: w.waiting}), out.Shows(now))
	if w.machine.State() == podworker.Syncing {
		k.tell(now, uid, podworker.Changed{}, out)
	}
}

// probeState is what probes say of a container.
func (k *kubeletProcess) probeState(uid types.UID, name, id string) probes.State {
	p := k.runtime.probes[uid]
	return probes.StateOf(id, func(kind probes.Kind) (probes.Tracker, bool) {
		if p == nil || p.probes[probeKey{name, kind}] == nil {
			return probes.Tracker{}, false
		}
		return p.probes[probeKey{name, kind}].tracker, true
	})
}

// facts adds what the probes say.
func (k *kubeletProcess) facts(pod *corev1.Pod, seen podstate.Pod, facts status.Facts) status.Facts {
	if k.runtime.probes[pod.UID] == nil {
		return facts
	}
	for _, c := range seen.Running() {
		state := k.probeState(pod.UID, c.GetName(), c.GetId())
		if state.Started && state.Ready {
			continue
		}
		if facts.Probed == nil {
			facts.Probed = map[string]status.Probed{}
		}
		facts.Probed[c.GetId()] = status.Probed{Started: state.Started, Ready: state.Ready}
	}
	return facts
}

// probedOf is what the probes say of the running containers, by container id.
func (k *kubeletProcess) probedOf(pod *corev1.Pod, seen podstate.Pod) map[string]probes.State {
	said := map[string]probes.State{}
	for _, c := range seen.Running() {
		said[c.GetId()] = k.probeState(pod.UID, c.GetName(), c.GetId())
	}
	return said
}
