package why

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/inspect"
)

// How long something usually quick may take before it counts as stuck.
const (
	// stepPatience is the limit for one step.
	stepPatience = 4 * time.Second
	// askingSkew is how far the answers of two processes that were asked at once may be apart.
	// Times in one answer may be that much earlier or later than they seem beside another.
	askingSkew = 2 * time.Second
	// cleanPatience is the limit for what a kubelet does after the containers have ended.
	cleanPatience = 8 * time.Second
	// podGCTime is how long pod garbage collection may take with a pod of a missing node: it looks
	// every 20 s, and waits 40 s.
	podGCTime = 70 * time.Second
	// overdueAfter is how long after its grace period a healthy pod may exist.
	overdueAfter = 10 * time.Second
	// usualStopTime is how long an ordinary stop takes.
	usualStopTime = 40 * time.Second
)

// ExplainPod returns what a pod waits for.
func ExplainPod(p Pod) Report {
	report := Report{
		Object: "pod/" + p.Name, Namespace: p.Namespace, Findings: []Finding{}, Sources: p.sources(p.Now),
	}
	if report.AllSilent() {
		p.Telemetry = Telemetry{}
	}
	p.Telemetry, p.Node, p.Now = p.onAPIServerClock(p.Node, p.Now)
	report.At = p.Now
	f := &findings{}
	if p.Pod == nil {
		report.State = p.checkGonePod(f)
		report.Findings = append(report.Findings, f.all...)
		return report
	}
	report.UID = string(p.Pod.UID)
	stuck := p.checkStore(f)
	if p.Pod.DeletionTimestamp == nil {
		report.State = "it is not being deleted"
		p.checkRecreated(f)
		report.Findings = append(report.Findings, f.all...)
		return report
	}
	report.Deleted = p.markedAt()
	report.State = p.describeState()
	switch {
	case stuck: // without the store nothing else can be judged
	case p.waitsForNode():
		p.checkNode(f)
		p.checkOverdue(f)
		p.addOtherFinalizers(f)
	case p.managedByOther():
		p.addOtherManager(f)
		checkFinalizers(f, p.Pod, p.Now, p.Telemetry, without(p.Pod.Finalizers, jobTracking))
	case p.keptByJob():
		p.addJobKeepsPod(f)
		checkFinalizers(f, p.Pod, p.Now, p.Telemetry, without(p.Pod.Finalizers, jobTracking))
	default:
		checkFinalizers(f, p.Pod, p.Now, p.Telemetry, p.Pod.Finalizers)
	}
	p.noteUnreadJob(f)
	p.checkClockSkew(f)
	report.Findings = append(report.Findings, f.all...)
	return report
}

// waitsForNode reports whether the object waits for its node: until the grace period is 0, by the
// node's confirmation or by force (API-41, API-53).
func (p Pod) waitsForNode() bool { return p.Pod.Spec.NodeName != "" && p.grace() > 0 }

func (p Pod) describeState() string {
	since := lastingFor(p.Now, p.markedAt())
	switch {
	case !p.waitsForNode():
		return "terminating " + since + "; its node has nothing more to say"
	case p.Now.Before(p.Pod.DeletionTimestamp.Time):
		return fmt.Sprintf("terminating %s, within its grace of %v", since, p.grace())
	}
	return fmt.Sprintf("terminating %s, %v longer than its grace of %v", since, p.Now.Sub(p.Pod.DeletionTimestamp.Time).Round(time.Second), p.grace())
}

// checkGonePod looks for what is left of a pod that the API does not have.
func (p Pod) checkGonePod(f *findings) string {
	state := "the API has no such pod"
	if p.Runtime.Report != nil {
		for _, c := range p.Runtime.Report.Containers {
			if c.Alive && c.Namespace == p.Namespace && c.Pod == p.Name {
				state = "the API has no such pod, and its container " + c.Name + " is alive on " + p.Runtime.Report.Node
			}
		}
	}
	if p.Kubelet.Report == nil {
		return state
	}
	addOrphanedVolumes(f, p.Kubelet.Report, p.Now, func(w inspect.PodWorker) bool { return w.Namespace == p.Namespace && w.Name == p.Name })
	return state
}

// checkRecreated reports a pod that looks as if it had not gone, but is another one.
func (p Pod) checkRecreated(f *findings) {
	if metav1.GetControllerOf(p.Pod) == nil || p.Runtime.Report == nil {
		return
	}
	for _, c := range p.Runtime.Report.Containers {
		if c.Namespace == p.Namespace && c.Pod == p.Name && c.UID != string(p.Pod.UID) {
			f.add(cause("created-again"), p.Pod.CreationTimestamp.Time,
				fmt.Sprintf("uid %s was created %s; the runtime still has a container of uid %s", p.Pod.UID, p.Pod.CreationTimestamp.UTC().Format(time.RFC3339), c.UID))
			return
		}
	}
	for i := range p.Events {
		if e := &p.Events[i]; e.Reason == "Killing" && e.InvolvedObject.UID != p.Pod.UID {
			f.add(cause("created-again"), p.Pod.CreationTimestamp.Time,
				fmt.Sprintf("uid %s was created %s; the pod that was stopped before had uid %s", p.Pod.UID, p.Pod.CreationTimestamp.UTC().Format(time.RFC3339), e.InvolvedObject.UID))
			return
		}
	}
}

// checkStore reports whether the store does not write at all.
func (p Pod) checkStore(f *findings) bool {
	said := p.APIServer.Report
	if said == nil || said.Writing.IsZero() || p.Now.Sub(said.Writing) < stepPatience {
		return false
	}
	f.add(cause("store-does-not-write"), said.Writing, "a commit has waited for the apiserver's disk "+lastingFor(p.Now, said.Writing))
	return true
}

// checkClockSkew compares the clocks of the processes that were asked.
func (p Pod) checkClockSkew(f *findings) {
	const much = 5 * time.Second
	if api := p.APIServer.Report; api != nil {
		off := api.Now.Sub(p.APIServer.At)
		if off < 0 { // the answer took Took to arrive
			off = min(off+p.APIServer.RoundTrip, 0)
		}
		if off.Abs() > much {
			f.add(cause("clock-skew"), time.Time{}, fmt.Sprintf("the apiserver's clock is %v off", off.Round(time.Second)))
		}
		return
	}
	if ahead := p.markedAt().Sub(p.Now); ahead > much {
		f.add(cause("clock-skew"), time.Time{}, fmt.Sprintf("the deletion was asked for %v from now, by the apiserver's clock", ahead.Round(time.Second)))
	}
}

// checkOverdue is the last resort: the pod is overdue and nothing explains why.
func (p Pod) checkOverdue(f *findings) {
	if len(f.all) > 0 || p.Now.Sub(p.Pod.DeletionTimestamp.Time) < overdueAfter || p.isMoving() {
		return
	}
	evidence := []string{fmt.Sprintf("its grace was over %v ago", p.Now.Sub(p.Pod.DeletionTimestamp.Time).Round(time.Second))}
	if w := p.kubeletWork(); w != nil {
		evidence = append(evidence, fmt.Sprintf("the kubelet's worker is %s %s", w.State, w.Step))
	}
	f.add(cause("unexplained"), p.Pod.DeletionTimestamp.Time, evidence...)
}

// addOtherFinalizers names the finalizers that will keep a pod while it waits for its node. Once its containers
// have ended, those that a DELETE warns of are named. If its node has trouble after the grace, those
// of controllers that do not run are named too. A controller that runs may wait for the node.
func (p Pod) addOtherFinalizers(f *findings) {
	if len(f.all) == 0 || p.Now.Sub(p.Pod.DeletionTimestamp.Time) < stepPatience {
		if p.hasEnded() {
			checkFinalizers(f, p.Pod, p.Now, p.Telemetry, slices.DeleteFunc(slices.Clone(p.Pod.Finalizers), usualFinalizer))
		}
		return
	}
	checkFinalizers(f, p.Pod, p.Now, p.Telemetry, slices.DeleteFunc(slices.Clone(p.Pod.Finalizers), func(finalizer string) bool {
		controller := controllerOf(finalizer)
		runs, known := p.controllerRuns(controller)
		return controller != "" && (runs || !known || controller == jobController && p.managedByOther())
	}))
}

// isMoving reports whether the kubelet made progress with the pod lately. A kubelet that heard of
// the deletion late still gives the full grace period.
func (p Pod) isMoving() bool {
	w := p.kubeletWork()
	if w == nil {
		return p.Kubelet.Report != nil && p.Now.Sub(p.Kubelet.Report.Began) < overdueAfter
	}
	allowed := overdueAfter
	if w.Step == inspect.StepStop {
		allowed += time.Duration(max(w.Grace, 2)) * time.Second
	}
	return p.Now.Sub(w.Since) < allowed
}

// hasEnded reports whether the pod has run, and all its containers have ended: by its status, or by
// what its runtime says.
func (p Pod) hasEnded() bool {
	if p.isTerminal() {
		return true
	}
	if p.Runtime.Report != nil {
		known := slices.DeleteFunc(slices.Clone(p.Runtime.Report.Containers), func(c inspect.Container) bool { return c.UID != string(p.Pod.UID) })
		return len(known) > 0 && !slices.ContainsFunc(known, func(c inspect.Container) bool { return c.Alive })
	}
	statuses := slices.Concat(p.Pod.Status.InitContainerStatuses, p.Pod.Status.ContainerStatuses)
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil })
}

// isTerminal reports whether the pod's phase is terminal.
func (p Pod) isTerminal() bool {
	return p.Pod.Status.Phase == corev1.PodSucceeded || p.Pod.Status.Phase == corev1.PodFailed
}

// containsAny reports whether text contains one of the words, in any case.
func containsAny(text string, substrings ...string) bool {
	text = strings.ToLower(text)
	for _, word := range substrings {
		if strings.Contains(text, strings.ToLower(word)) {
			return true
		}
	}
	return false
}
