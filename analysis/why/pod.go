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

// How long something may take that usually takes moments, before it counts as stuck.
const (
	// patience is for one step.
	patience = 4 * time.Second
	// asking is how far two processes' words may be apart that were asked at once: by so much what one
	// tells is sooner or later than it seems beside what another does.
	asking = 2 * time.Second
	// cleanPatience is for what a kubelet does after the containers have ended.
	cleanPatience = 8 * time.Second
	// collects is how long pod garbage collection may take with a pod of a node that is
	// not in the API any more: it looks every 20 s, and waits 40 s.
	collects = 70 * time.Second
	// overdue is how long after its grace a pod may be there, with nothing wrong.
	overdue = 10 * time.Second
	// usual is how long a stop takes that nobody wonders about.
	usual = 40 * time.Second
)

// OfPod says what a pod waits for.
func OfPod(p Pod) Report {
	report := Report{
		Object: "pod/" + p.Name, Namespace: p.Namespace, Findings: []Finding{}, Sources: p.sources(p.Now),
	}
	if report.Unheard() {
		p.Telemetry = Telemetry{}
	}
	p.Telemetry, p.Node, p.Now = p.settled(p.Node, p.Now)
	report.At = p.Now
	f := &findings{}
	if p.Pod == nil {
		report.State = p.gone(f)
		report.Findings = append(report.Findings, f.all...)
		return report
	}
	report.UID = string(p.Pod.UID)
	stuck := p.store(f)
	if p.Pod.DeletionTimestamp == nil {
		report.State = "it is not being deleted"
		p.again(f)
		report.Findings = append(report.Findings, f.all...)
		return report
	}
	report.Deleted = p.marked()
	report.State = p.state()
	switch {
	case stuck: // nobody can say anything
	case p.nodesTurn():
		p.node(f)
		p.late(f)
		p.besides(f)
	case p.managed():
		p.manager(f)
		finalizers(f, p.Pod, p.Now, p.Telemetry, without(p.Pod.Finalizers, jobTracking))
	case p.kept():
		p.keeper(f)
		finalizers(f, p.Pod, p.Now, p.Telemetry, without(p.Pod.Finalizers, jobTracking))
	default:
		finalizers(f, p.Pod, p.Now, p.Telemetry, p.Pod.Finalizers)
	}
	p.unread(f)
	p.skew(f)
	report.Findings = append(report.Findings, f.all...)
	return report
}

// nodesTurn reports whether the object waits for its node: it does until the grace is 0,
// by the node's last word or by force (API-41, API-53).
func (p Pod) nodesTurn() bool { return p.Pod.Spec.NodeName != "" && p.grace() > 0 }

func (p Pod) state() string {
	since := ago(p.Now, p.marked())
	switch {
	case !p.nodesTurn():
		return "terminating " + since + "; its node has nothing more to say"
	case p.Now.Before(p.Pod.DeletionTimestamp.Time):
		return fmt.Sprintf("terminating %s, within its grace of %v", since, p.grace())
	}
	return fmt.Sprintf("terminating %s, %v longer than its grace of %v", since, p.Now.Sub(p.Pod.DeletionTimestamp.Time).Round(time.Second), p.grace())
}

// gone is about a pod that the API does not have: what may be left of it.
func (p Pod) gone(f *findings) string {
	state := "the API has no such pod"
	if p.Runtime.Said != nil {
		for _, c := range p.Runtime.Said.Containers {
			if c.Alive && c.Namespace == p.Namespace && c.Pod == p.Name {
				state = "the API has no such pod, and its container " + c.Name + " is alive on " + p.Runtime.Said.Node
			}
		}
	}
	if p.Kubelet.Said == nil {
		return state
	}
	orphans(f, p.Kubelet.Said, p.Now, func(w inspect.Work) bool { return w.Namespace == p.Namespace && w.Name == p.Name })
	return state
}

// again is about a pod that looks as if it had not gone: it is another.
func (p Pod) again(f *findings) {
	if metav1.GetControllerOf(p.Pod) == nil || p.Runtime.Said == nil {
		return
	}
	for _, c := range p.Runtime.Said.Containers {
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

// store asks whether anything can be written at all.
func (p Pod) store(f *findings) bool {
	said := p.APIServer.Said
	if said == nil || said.Writing.IsZero() || p.Now.Sub(said.Writing) < patience {
		return false
	}
	f.add(cause("store-does-not-write"), said.Writing, "a commit has waited for the apiserver's disk "+ago(p.Now, said.Writing))
	return true
}

// skew compares the clocks of those who were asked.
func (p Pod) skew(f *findings) {
	const much = 5 * time.Second
	if api := p.APIServer.Said; api != nil {
		off := api.Now.Sub(p.APIServer.At)
		if off < 0 { // it was said before it was heard
			off = min(off+p.APIServer.Took, 0)
		}
		if off.Abs() > much {
			f.add(cause("clock-skew"), time.Time{}, fmt.Sprintf("the apiserver's clock is %v off", off.Round(time.Second)))
		}
		return
	}
	if ahead := p.marked().Sub(p.Now); ahead > much {
		f.add(cause("clock-skew"), time.Time{}, fmt.Sprintf("the deletion was asked for %v from now, by the apiserver's clock", ahead.Round(time.Second)))
	}
}

// late is the last resort: the pod is overdue and nothing explains it.
func (p Pod) late(f *findings) {
	if len(f.all) > 0 || p.Now.Sub(p.Pod.DeletionTimestamp.Time) < overdue || p.moves() {
		return
	}
	evidence := []string{fmt.Sprintf("its grace was over %v ago", p.Now.Sub(p.Pod.DeletionTimestamp.Time).Round(time.Second))}
	if w := p.work(); w != nil {
		evidence = append(evidence, fmt.Sprintf("the kubelet's worker is %s %s", w.State, w.Doing))
	}
	f.add(cause("unexplained"), p.Pod.DeletionTimestamp.Time, evidence...)
}

// besides names the finalizers that will keep a pod while it waits for its node. Once its containers
// have ended, those that a DELETE warns of are named. If its node has trouble after the grace, those
// of controllers that do not run are named too. A controller that runs may wait for the node.
func (p Pod) besides(f *findings) {
	if len(f.all) == 0 || p.Now.Sub(p.Pod.DeletionTimestamp.Time) < patience {
		if p.hasEnded() {
			finalizers(f, p.Pod, p.Now, p.Telemetry, slices.DeleteFunc(slices.Clone(p.Pod.Finalizers), usualFinalizer))
		}
		return
	}
	finalizers(f, p.Pod, p.Now, p.Telemetry, slices.DeleteFunc(slices.Clone(p.Pod.Finalizers), func(finalizer string) bool {
		controller := controllerOf(finalizer)
		runs, known := p.runs(controller)
		return controller != "" && (runs || !known || controller == jobController && p.managed())
	}))
}

// moves reports whether the kubelet has got on with the pod lately: one that heard of the
// deletion late gives it its full grace all the same.
func (p Pod) moves() bool {
	w := p.work()
	if w == nil {
		return p.Kubelet.Said != nil && p.Now.Sub(p.Kubelet.Said.Began) < overdue
	}
	allowed := overdue
	if w.Doing == inspect.StepStop {
		allowed += time.Duration(max(w.Grace, 2)) * time.Second
	}
	return p.Now.Sub(w.Since) < allowed
}

// hasEnded reports whether the pod has run, and all its containers have ended: by its status, or by
// what its runtime says.
func (p Pod) hasEnded() bool {
	if p.terminal() {
		return true
	}
	if p.Runtime.Said != nil {
		known := slices.DeleteFunc(slices.Clone(p.Runtime.Said.Containers), func(c inspect.Container) bool { return c.UID != string(p.Pod.UID) })
		return len(known) > 0 && !slices.ContainsFunc(known, func(c inspect.Container) bool { return c.Alive })
	}
	statuses := slices.Concat(p.Pod.Status.InitContainerStatuses, p.Pod.Status.ContainerStatuses)
	return len(statuses) > 0 && !slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil })
}

// terminal reports whether the pod's phase is an end.
func (p Pod) terminal() bool {
	return p.Pod.Status.Phase == corev1.PodSucceeded || p.Pod.Status.Phase == corev1.PodFailed
}

// words reports whether text has one of them, whatever their case.
func words(text string, those ...string) bool {
	text = strings.ToLower(text)
	for _, word := range those {
		if strings.Contains(text, strings.ToLower(word)) {
			return true
		}
	}
	return false
}
