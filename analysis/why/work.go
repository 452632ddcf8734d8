package why

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// kubelet asks a kubelet that speaks what it is at with the pod.
func (p Pod) kubelet(f *findings) {
	if p.refused(f) || runtimeTrouble(f, p.Telemetry, p.Now) {
		return
	}
	w := p.work()
	if p.restarted(f, w) {
		return
	}
	switch {
	case p.Now.Sub(p.Kubelet.Said.Began) < patience: // it has not had the time to look
	case w == nil && p.Pod.Status.Phase == corev1.PodFailed:
		if p.Now.Sub(p.marked()) > patience {
			f.add(cause("rejected-pod"), p.marked(), "the pod is Failed: "+p.Pod.Status.Reason, "the kubelet has no worker for it")
		}
	case w == nil || !w.Marked:
		// Without an answer since then it may as well be cut off, which is to be seen soon.
		if p.compares() && p.Now.Sub(p.marked()) > patience && p.Kubelet.Said.API.Last.Sub(p.marked()) > asking {
			f.add(cause("watch-silent"), p.marked(), "the kubelet reaches the API, and knows nothing of the deletion")
		}
	case w.Doing == inspect.StepSync:
		if p.Now.Sub(p.marked()) > patience {
			f.add(cause("start-in-progress"), w.Since, p.starting(w)...)
		}
	case w.State == "Stopping" || w.State == "Syncing":
		p.stopping(f, w)
	default:
		p.cleaning(f, w)
	}
}

// refused is what the API has refused the kubelet about this pod or its node.
func (p Pod) refused(f *findings) bool {
	found := false
	for _, r := range p.Kubelet.Said.Refused {
		ours := r.UID == string(p.Pod.UID) || r.UID == "" && r.Key == p.Namespace+"/"+p.Name
		nodes := r.Key == p.Pod.Spec.NodeName || r.Key == corev1.NamespaceNodeLease+"/"+p.Pod.Spec.NodeName
		if !ours && !nodes || p.Now.Sub(r.Last) > time.Minute || p.compares() && r.Last.Before(p.marked()) {
			continue
		}
		evidence := fmt.Sprintf("the kubelet's %s of %s %s was refused %d times, last %v ago: %d %s",
			r.Verb, r.Resource, r.Key, r.Count, p.Now.Sub(r.Last).Round(time.Second), r.Code, r.Message)
		switch {
		case words(r.Message, "webhook"):
			f.add(cause("webhook-refuses-kubelet"), r.First, evidence)
		case r.Code == 401 || r.Code == 403:
			f.add(cause("kubelet-unauthorised"), r.First, evidence)
		case r.Code >= 500:
			f.add(cause(failure(r.Message)), r.First, evidence)
		default:
			continue
		}
		found = true
	}
	return found
}

// failure names what is wrong with an apiserver that answers that it cannot, by its own words
// (worded, in services/apiserver/server.go).
func failure(message string) string {
	switch {
	case words(message, "the store has not written", "its disk did not take a commit"):
		return "store-does-not-write"
	case words(message, "after its deadline", "the deadline of the request has passed"):
		return "requests-late"
	}
	return "apiserver-fails"
}

// starting is by what a start is known to go on.
func (p Pod) starting(w *inspect.Work) []string {
	evidence := []string{"the kubelet is still at its start or restart " + ago(p.Now, w.Since)}
	if e := p.event("Pulling", "Pulled", "FailedPostStartHook", "Unhealthy", "BackOff"); e != nil {
		evidence = append(evidence, "event "+e.Reason+": "+e.Message)
	}
	for _, c := range p.Kubelet.Said.Calls {
		switch c.Method {
		case "PullImage", "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync", "StopContainer":
			evidence = append(evidence, fmt.Sprintf("%s has not been answered %s", c.Method, ago(p.Now, c.Since)))
		}
	}
	return evidence
}

// stopping is about a stop that is under way.
func (p Pod) stopping(f *findings, w *inspect.Work) {
	if p.stopFailed(f, w) {
		return
	}
	for _, c := range p.alive() {
		if p.stuckContainer(f, c) {
			return
		}
	}
	if call := p.call("StopPodSandbox"); call != nil && len(p.alive()) == 0 && p.Now.Sub(call.Since) > patience {
		f.add(cause("sandbox-teardown-fails"), call.Since, "StopPodSandbox has not been answered "+ago(p.Now, call.Since))
		return
	}
	p.withinGrace(f, w)
}

// stopFailed reads the error of the last attempt.
func (p Pod) stopFailed(f *findings, w *inspect.Work) bool {
	text, since := w.Err, w.First
	if text == "" {
		return false
	}
	evidence := []string{fmt.Sprintf("the kubelet has failed %d times to stop it: %s", w.Failed, text)}
	if e := p.event("FailedKillPod"); e != nil {
		evidence = append(evidence, "event FailedKillPod: "+e.Message)
	}
	switch {
	case words(text, "CRI violation"):
		f.add(cause("runtime-lies"), since, evidence...)
	case words(text, "unprepare", "dynamic resource"):
		f.add(cause("device-unprepare-fails"), since, evidence...)
	case words(text, "to be killed"):
		f.add(cause("process-unkillable"), since, evidence...)
	case words(text, "KillContainerError"):
		for _, c := range p.alive() {
			if !c.Killed.IsZero() {
				f.add(cause("process-unkillable"), c.Killed, append(evidence, p.killed(c))...)
				return true
			}
		}
		switch {
		case !words(text, "Unavailable"):
			f.add(cause("stop-hangs"), since, evidence...)
		case p.call("StopContainer") != nil: // it answers again, and stops the container anew
			return false
		default:
			f.add(cause("runtime-down"), since, evidence...)
		}
	case words(text, "KillPodSandbox", "destroy network"): // of containers that have ended
		f.add(cause("sandbox-teardown-fails"), since, evidence...)
	default:
		return false
	}
	return true
}

func (p Pod) killed(c inspect.Container) string {
	return fmt.Sprintf("container %s got SIGKILL %v ago and is alive", c.Name, p.Now.Sub(c.Killed).Round(time.Second))
}

// stuckContainer asks why a container is alive that should not be.
func (p Pod) stuckContainer(f *findings, c inspect.Container) bool {
	call := p.callOf(c.ID)
	switch {
	case !c.Killed.IsZero() && p.Now.Sub(c.Killed) > patience:
		f.add(cause("process-unkillable"), c.Killed, p.killed(c))
	case call != nil && (c.Signaled.IsZero() || c.Unreachable) && p.Now.Sub(call.Since) > patience:
		f.add(cause("stop-hangs"), call.Since, fmt.Sprintf("StopContainer of %s has not been answered %s, and the runtime has sent no signal", c.Name, ago(p.Now, call.Since)))
	default:
		return false
	}
	return true
}

// withinGrace is about containers that use their grace.
func (p Pod) withinGrace(f *findings, w *inspect.Work) {
	alive := p.alive()
	if len(alive) == 0 {
		return
	}
	grace := time.Duration(max(w.Grace, 2)) * time.Second
	evidence := make([]string, 0, len(alive))
	for _, c := range alive {
		evidence = append(evidence, p.signaled(c))
	}
	switch {
	case w.Grace > int64(p.grace()/time.Second) && p.Now.Sub(p.Pod.DeletionTimestamp.Time) > patience:
		f.add(cause("shorter-grace-ignored"), p.Pod.DeletionTimestamp.Time,
			append(evidence, fmt.Sprintf("the stop began with a grace of %ds, and the object says %v", w.Grace, p.grace()))...)
	case p.onlySidecars(alive) && p.Now.Sub(p.lastExit()) > 2*patience:
		f.add(cause("sidecar-does-not-stop"), p.lastExit(), evidence...)
	case grace >= time.Minute && p.Now.Sub(w.Since) > usual:
		f.add(cause("long-grace"), w.Since, append(evidence, fmt.Sprintf("the grace of %v is over in %v", grace, w.Since.Add(grace).Sub(p.Now).Round(time.Second)))...)
	}
}

// restarted is about a container that has had its stop signal for longer than its grace,
// from a kubelet that has begun anew since.
func (p Pod) restarted(f *findings, w *inspect.Work) bool {
	grace, began := p.grace(), p.Kubelet.Said.Began
	if w != nil {
		grace = max(grace, time.Duration(w.Grace)*time.Second)
	}
	for _, c := range p.alive() {
		if c.Killed.IsZero() && !c.Signaled.IsZero() && began.After(c.Signaled) && p.Now.Sub(c.Signaled) > grace+patience {
			f.add(cause("kubelet-restarts"), c.Signaled, p.signaled(c),
				fmt.Sprintf("the kubelet began %v ago, after that, and the grace of %v with it", p.Now.Sub(began).Round(time.Second), grace))
			return true
		}
	}
	return false
}

func (p Pod) signaled(c inspect.Container) string {
	if c.Signaled.IsZero() {
		return fmt.Sprintf("container %s is alive and has had no signal yet: a preStop hook, or its turn has not come", c.Name)
	}
	return fmt.Sprintf("container %s got its stop signal %v ago and is alive", c.Name, p.Now.Sub(c.Signaled).Round(time.Second))
}

// onlySidecars reports whether all that is alive are restartable init containers, of a
// pod that had others.
func (p Pod) onlySidecars(alive []inspect.Container) bool {
	sidecar := map[string]bool{}
	for _, c := range p.Pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecar[c.Name] = true
		}
	}
	for _, c := range alive {
		if !sidecar[c.Name] {
			return false
		}
	}
	return true
}

// lastExit is when the last container of the pod ended.
func (p Pod) lastExit() time.Time {
	all, _ := p.containers()
	last := p.marked()
	for _, c := range all {
		if c.Exited.After(last) {
			last = c.Exited
		}
	}
	return last
}

// cleaning is about what a kubelet does after the containers have ended.
func (p Pod) cleaning(f *findings, w *inspect.Work) {
	if w.Doing == "" && w.Err == "" || w.Err == "" && p.Now.Sub(w.Since) < cleanPatience {
		return
	}
	since := w.Since
	evidence := []string{fmt.Sprintf("no container is alive; the kubelet is at %q %s", w.Doing, ago(p.Now, w.Since))}
	if w.Err != "" {
		since = w.First
		evidence = append(evidence, fmt.Sprintf("it has failed %d times: %s", w.Failed, w.Err))
	}
	switch {
	case words(w.Err, "unprepare", "dynamic resource"):
		f.add(cause("device-unprepare-fails"), since, evidence...)
	case words(w.Err, "mounted twice", "mounted 2 times", "another mount"):
		f.add(cause("volume-mounted-twice"), since, evidence...)
	case w.Doing == inspect.StepUnmount || words(w.Err, "unmount", "mounted volumes"):
		f.add(cause("volume-unmount-fails"), since, evidence...)
	case w.Doing == inspect.StepRemoveDirs || words(w.Err, "remove volumes", "volume directories"):
		f.add(cause("volume-directory-not-empty"), since, evidence...)
	case w.Doing == inspect.StepCgroup || words(w.Err, "cgroup"):
		f.add(cause("cgroup-busy"), since, evidence...)
	}
}

// call is one of a method that has not been answered, about one of the pod's containers
// or sandboxes, or about an unknown one.
func (p Pod) call(method string) *inspect.Call {
	for i := range p.Kubelet.Said.Calls {
		if c := &p.Kubelet.Said.Calls[i]; c.Method == method {
			return c
		}
	}
	return nil
}

// callOf is the StopContainer of a container that has not been answered.
func (p Pod) callOf(container string) *inspect.Call {
	for i := range p.Kubelet.Said.Calls {
		if c := &p.Kubelet.Said.Calls[i]; c.Method == "StopContainer" && c.ID == container {
			return c
		}
	}
	return nil
}

// fromAPI concludes from the API alone, when no process could be asked.
func (p Pod) fromAPI(f *findings) {
	overdueBy := p.Now.Sub(p.Pod.DeletionTimestamp.Time)
	ready := readyCondition(p.Node.Node)
	switch {
	case ready != nil && words(ready.Message, "PLEG is not healthy"):
		f.add(cause("runtime-listing-hangs"), ready.LastTransitionTime.Time, "node "+p.Node.Node.Name+": "+ready.Message)
	case ready != nil && words(ready.Message, "container runtime is down"):
		f.add(cause("runtime-down"), ready.LastTransitionTime.Time, "node "+p.Node.Node.Name+": "+ready.Message)
	case p.event("FailedKillPod") != nil:
		p.fromEvent(f, p.event("FailedKillPod"))
	case overdueBy < overdue:
	case p.terminal():
		f.add(cause("volume-unmount-fails"), p.Pod.DeletionTimestamp.Time, "the pod's phase is terminal, and its node has not confirmed").Maybe = []string{"STK-16", "STK-17", "STK-18", "STK-23"}
	case p.Pod.Status.ObservedGeneration != 0 && p.Pod.Status.ObservedGeneration < p.Pod.Generation:
		f.add(cause("watch-silent"), p.marked(), "the kubelet has not acknowledged the deletion: observedGeneration is behind").Maybe = []string{"STK-05", "STK-06", "STK-22"}
	}
}

func (p Pod) fromEvent(f *findings, e *corev1.Event) {
	evidence, since := "event FailedKillPod: "+e.Message, e.FirstTimestamp.Time
	switch {
	case words(e.Message, "KillPodSandboxError"):
		f.add(cause("sandbox-teardown-fails"), since, evidence)
	case words(e.Message, "to be killed"):
		f.add(cause("process-unkillable"), since, evidence)
	case words(e.Message, "Unavailable"):
		f.add(cause("runtime-down"), since, evidence)
	default:
		f.add(cause("stop-hangs"), since, evidence).Maybe = []string{"STK-12"}
	}
}
