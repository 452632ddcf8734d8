package why

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// checkKubelet finds what an answering kubelet is doing with the pod.
func (p Pod) checkKubelet(f *findings) {
	if p.checkRefusals(f) || checkRuntime(f, p.Telemetry, p.Now) {
		return
	}
	w := p.kubeletWork()
	if p.checkRestart(f, w) {
		return
	}
	switch {
	case p.Now.Sub(p.Kubelet.Report.Began) < stepPatience: // the kubelet had no time to look yet
	case w == nil && p.Pod.Status.Phase == corev1.PodFailed:
		if p.Now.Sub(p.markedAt()) > stepPatience {
			f.add(cause("rejected-pod"), p.markedAt(), "the pod is Failed: "+p.Pod.Status.Reason, "the kubelet has no worker for it")
		}
	case w == nil || !w.Marked:
		// Without an answer since the mark, the node may be cut off; that shows soon.
		if p.hasAPIServerClock() && p.Now.Sub(p.markedAt()) > stepPatience && p.Kubelet.Report.API.Last.Sub(p.markedAt()) > askingSkew {
			f.add(cause("watch-silent"), p.markedAt(), "the kubelet reaches the API, and knows nothing of the deletion")
		}
	case w.Step == inspect.StepSync:
		if p.Now.Sub(p.markedAt()) > stepPatience {
			f.add(cause("start-in-progress"), w.Since, p.startEvidence(w)...)
		}
	case w.State == "Stopping" || w.State == "Syncing":
		p.checkStop(f, w)
	default:
		p.checkCleanup(f, w)
	}
}

// checkRefusals reports what the API refused the kubelet about this pod or its node.
func (p Pod) checkRefusals(f *findings) bool {
	found := false
	for _, r := range p.Kubelet.Report.Refused {
		aboutPod := r.UID == string(p.Pod.UID) || r.UID == "" && r.Key == p.Namespace+"/"+p.Name
		aboutNode := r.Key == p.Pod.Spec.NodeName || r.Key == corev1.NamespaceNodeLease+"/"+p.Pod.Spec.NodeName
		if !aboutPod && !aboutNode || p.Now.Sub(r.Last) > time.Minute || p.hasAPIServerClock() && r.Last.Before(p.markedAt()) {
			continue
		}
		evidence := fmt.Sprintf("the kubelet's %s of %s %s was refused %d times, last %v ago: %d %s",
			r.Verb, r.Resource, r.Key, r.Count, p.Now.Sub(r.Last).Round(time.Second), r.Code, r.Message)
		switch {
		case containsAny(r.Message, "webhook"):
			f.add(cause("webhook-refuses-kubelet"), r.First, evidence)
		case r.Code == 401 || r.Code == 403:
			f.add(cause("kubelet-unauthorised"), r.First, evidence)
		case r.Code >= 500:
			f.add(cause(apiFailureCause(r.Message)), r.First, evidence)
		default:
			continue
		}
		found = true
	}
	return found
}

// apiFailureCause returns the cause for a 5xx answer of the apiserver, by its text (made in
// services/apiserver/server.go).
func apiFailureCause(message string) string {
	switch {
	case containsAny(message, "the store has not written", "its disk did not take a commit"):
		return "store-does-not-write"
	case containsAny(message, "after its deadline", "the deadline of the request has passed"):
		return "requests-late"
	}
	return "apiserver-fails"
}

// startEvidence returns what a start in progress is waiting for.
func (p Pod) startEvidence(w *inspect.PodWorker) []string {
	evidence := []string{"the kubelet is still at its start or restart " + lastingFor(p.Now, w.Since)}
	if e := p.newestEvent("Pulling", "Pulled", "FailedPostStartHook", "Unhealthy", "BackOff"); e != nil {
		evidence = append(evidence, "event "+e.Reason+": "+e.Message)
	}
	for _, c := range p.Kubelet.Report.Calls {
		switch c.Method {
		case "PullImage", "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync", "StopContainer":
			evidence = append(evidence, fmt.Sprintf("%s has not been answered %s", c.Method, lastingFor(p.Now, c.Since)))
		}
	}
	return evidence
}

// checkStop handles a stop in progress.
func (p Pod) checkStop(f *findings, w *inspect.PodWorker) {
	if p.checkStopError(f, w) {
		return
	}
	for _, c := range p.liveContainers() {
		if p.checkStuckContainer(f, c) {
			return
		}
	}
	if call := p.openCall("StopPodSandbox"); call != nil && len(p.liveContainers()) == 0 && p.Now.Sub(call.Since) > stepPatience {
		f.add(cause("sandbox-teardown-fails"), call.Since, "StopPodSandbox has not been answered "+lastingFor(p.Now, call.Since))
		return
	}
	p.checkGraceUse(f, w)
}

// checkStopError interprets the error of the last attempt.
func (p Pod) checkStopError(f *findings, w *inspect.PodWorker) bool {
	text, since := w.Err, w.First
	if text == "" {
		return false
	}
	evidence := []string{fmt.Sprintf("the kubelet has failed %d times to stop it: %s", w.Failed, text)}
	if e := p.newestEvent("FailedKillPod"); e != nil {
		evidence = append(evidence, "event FailedKillPod: "+e.Message)
	}
	switch {
	case containsAny(text, "CRI violation"):
		f.add(cause("runtime-lies"), since, evidence...)
	case containsAny(text, "unprepare", "dynamic resource"):
		f.add(cause("device-unprepare-fails"), since, evidence...)
	case containsAny(text, "to be killed"):
		f.add(cause("process-unkillable"), since, evidence...)
	case containsAny(text, "KillContainerError"):
		for _, c := range p.liveContainers() {
			if !c.Killed.IsZero() {
				f.add(cause("process-unkillable"), c.Killed, append(evidence, p.killEvidence(c))...)
				return true
			}
		}
		switch {
		case !containsAny(text, "Unavailable"):
			f.add(cause("stop-hangs"), since, evidence...)
		case p.openCall("StopContainer") != nil: // the runtime answers again, and stops the container again
			return false
		default:
			f.add(cause("runtime-down"), since, evidence...)
		}
	case containsAny(text, "KillPodSandbox", "destroy network"): // the containers have ended
		f.add(cause("sandbox-teardown-fails"), since, evidence...)
	default:
		return false
	}
	return true
}

func (p Pod) killEvidence(c inspect.Container) string {
	return fmt.Sprintf("container %s got SIGKILL %v ago and is alive", c.Name, p.Now.Sub(c.Killed).Round(time.Second))
}

// checkStuckContainer reports why a container is alive that should have ended.
func (p Pod) checkStuckContainer(f *findings, c inspect.Container) bool {
	call := p.openStopCall(c.ID)
	switch {
	case !c.Killed.IsZero() && p.Now.Sub(c.Killed) > stepPatience:
		f.add(cause("process-unkillable"), c.Killed, p.killEvidence(c))
	case call != nil && (c.Signaled.IsZero() || c.Unreachable) && p.Now.Sub(call.Since) > stepPatience:
		f.add(cause("stop-hangs"), call.Since, fmt.Sprintf("StopContainer of %s has not been answered %s, and the runtime has sent no signal", c.Name, lastingFor(p.Now, call.Since)))
	default:
		return false
	}
	return true
}

// checkGraceUse handles containers that use their grace period.
func (p Pod) checkGraceUse(f *findings, w *inspect.PodWorker) {
	alive := p.liveContainers()
	if len(alive) == 0 {
		return
	}
	grace := time.Duration(max(w.Grace, 2)) * time.Second
	evidence := make([]string, 0, len(alive))
	for _, c := range alive {
		evidence = append(evidence, p.signalEvidence(c))
	}
	switch {
	case w.Grace > int64(p.grace()/time.Second) && p.Now.Sub(p.Pod.DeletionTimestamp.Time) > stepPatience:
		f.add(cause("shorter-grace-ignored"), p.Pod.DeletionTimestamp.Time,
			append(evidence, fmt.Sprintf("the stop began with a grace of %ds, and the object says %v", w.Grace, p.grace()))...)
	case p.onlySidecars(alive) && p.Now.Sub(p.lastExit()) > 2*stepPatience:
		f.add(cause("sidecar-does-not-stop"), p.lastExit(), evidence...)
	case grace >= time.Minute && p.Now.Sub(w.Since) > usualStopTime:
		f.add(cause("long-grace"), w.Since, append(evidence, fmt.Sprintf("the grace of %v is over in %v", grace, w.Since.Add(grace).Sub(p.Now).Round(time.Second)))...)
	}
}

// checkRestart reports a container that has had its stop signal for longer than its grace period,
// while its kubelet has restarted since.
func (p Pod) checkRestart(f *findings, w *inspect.PodWorker) bool {
	grace, began := p.grace(), p.Kubelet.Report.Began
	if w != nil {
		grace = max(grace, time.Duration(w.Grace)*time.Second)
	}
	for _, c := range p.liveContainers() {
		if c.Killed.IsZero() && !c.Signaled.IsZero() && began.After(c.Signaled) && p.Now.Sub(c.Signaled) > grace+stepPatience {
			f.add(cause("kubelet-restarts"), c.Signaled, p.signalEvidence(c),
				fmt.Sprintf("the kubelet began %v ago, after that, and the grace of %v with it", p.Now.Sub(began).Round(time.Second), grace))
			return true
		}
	}
	return false
}

func (p Pod) signalEvidence(c inspect.Container) string {
	if c.Signaled.IsZero() {
		return fmt.Sprintf("container %s is alive and has had no signal yet: a preStop hook, or its turn has not come", c.Name)
	}
	return fmt.Sprintf("container %s got its stop signal %v ago and is alive", c.Name, p.Now.Sub(c.Signaled).Round(time.Second))
}

// onlySidecars reports whether all live containers are restartable init containers.
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

// lastExit returns when the last container of the pod ended.
func (p Pod) lastExit() time.Time {
	all, _ := p.containers()
	last := p.markedAt()
	for _, c := range all {
		if c.Exited.After(last) {
			last = c.Exited
		}
	}
	return last
}

// checkCleanup handles what a kubelet does after the containers have ended.
func (p Pod) checkCleanup(f *findings, w *inspect.PodWorker) {
	if w.Step == "" && w.Err == "" || w.Err == "" && p.Now.Sub(w.Since) < cleanPatience {
		return
	}
	since := w.Since
	evidence := []string{fmt.Sprintf("no container is alive; the kubelet is at %q %s", w.Step, lastingFor(p.Now, w.Since))}
	if w.Err != "" {
		since = w.First
		evidence = append(evidence, fmt.Sprintf("it has failed %d times: %s", w.Failed, w.Err))
	}
	switch {
	case containsAny(w.Err, "unprepare", "dynamic resource"):
		f.add(cause("device-unprepare-fails"), since, evidence...)
	case containsAny(w.Err, "mounted twice", "mounted 2 times", "another mount"):
		f.add(cause("volume-mounted-twice"), since, evidence...)
	case w.Step == inspect.StepUnmount || containsAny(w.Err, "unmount", "mounted volumes"):
		f.add(cause("volume-unmount-fails"), since, evidence...)
	case w.Step == inspect.StepRemoveDirs || containsAny(w.Err, "remove volumes", "volume directories"):
		f.add(cause("volume-directory-not-empty"), since, evidence...)
	case w.Step == inspect.StepCgroup || containsAny(w.Err, "cgroup"):
		f.add(cause("cgroup-busy"), since, evidence...)
	}
}

// openCall returns an unanswered call of a method; nil for none.
func (p Pod) openCall(method string) *inspect.Call {
	for i := range p.Kubelet.Report.Calls {
		if c := &p.Kubelet.Report.Calls[i]; c.Method == method {
			return c
		}
	}
	return nil
}

// openStopCall returns the unanswered StopContainer call of a container; nil for none.
func (p Pod) openStopCall(container string) *inspect.Call {
	for i := range p.Kubelet.Report.Calls {
		if c := &p.Kubelet.Report.Calls[i]; c.Method == "StopContainer" && c.ID == container {
			return c
		}
	}
	return nil
}

// checkFromAPI concludes from the API alone, if no process could be asked.
func (p Pod) checkFromAPI(f *findings) {
	overdueBy := p.Now.Sub(p.Pod.DeletionTimestamp.Time)
	ready := readyCondition(p.Node.Node)
	switch {
	case ready != nil && containsAny(ready.Message, "PLEG is not healthy"):
		f.add(cause("runtime-listing-hangs"), ready.LastTransitionTime.Time, "node "+p.Node.Node.Name+": "+ready.Message)
	case ready != nil && containsAny(ready.Message, "container runtime is down"):
		f.add(cause("runtime-down"), ready.LastTransitionTime.Time, "node "+p.Node.Node.Name+": "+ready.Message)
	case p.newestEvent("FailedKillPod") != nil:
		p.checkStopEvent(f, p.newestEvent("FailedKillPod"))
	case overdueBy < overdueAfter:
	case p.isTerminal():
		f.add(cause("volume-unmount-fails"), p.Pod.DeletionTimestamp.Time, "the pod's phase is terminal, and its node has not confirmed").Maybe = []string{"STK-16", "STK-17", "STK-18", "STK-23"}
	case p.Pod.Status.ObservedGeneration != 0 && p.Pod.Status.ObservedGeneration < p.Pod.Generation:
		f.add(cause("watch-silent"), p.markedAt(), "the kubelet has not acknowledged the deletion: observedGeneration is behind").Maybe = []string{"STK-05", "STK-06", "STK-22"}
	}
}

func (p Pod) checkStopEvent(f *findings, e *corev1.Event) {
	evidence, since := "event FailedKillPod: "+e.Message, e.FirstTimestamp.Time
	switch {
	case containsAny(e.Message, "KillPodSandboxError"):
		f.add(cause("sandbox-teardown-fails"), since, evidence)
	case containsAny(e.Message, "to be killed"):
		f.add(cause("process-unkillable"), since, evidence)
	case containsAny(e.Message, "Unavailable"):
		f.add(cause("runtime-down"), since, evidence)
	default:
		f.add(cause("stop-hangs"), since, evidence).Maybe = []string{"STK-12"}
	}
}
