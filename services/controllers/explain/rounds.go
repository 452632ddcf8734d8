package explain

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podcondition"
	"github.com/podfall/podfall/proto/kinds"
)

// Rounds has the controller's work without its loops, so that the simulator can run it. Explain
// must not run twice at once, and neither must CheckUnknownPods.
type Rounds struct {
	Observer gather.Observer
	// Event records an event about a pod, and Record a fact in the history; Record may be nil.
	Event  func(pod *corev1.Pod, text string)
	Record func(fact history.Fact)
	Log    *slog.Logger

	lastReports map[types.UID]LastReport

	mu      sync.Mutex
	unknown []*unknownPod
	survey  nodeSurvey
}

func (r *Rounds) recordFact(fact history.Fact) {
	if r.Record != nil {
		r.Record(fact)
	}
}

// mustFindPodKind returns the kind of pods. It panics if the table has none.
func mustFindPodKind() kinds.Kind {
	kind, ok := kinds.ByResource("pods")
	if !ok {
		panic("explain: no kind pods")
	}
	return kind
}

// PodRemoved records that a pod has left the API while its node may still run it.
func (r *Rounds) PodRemoved(pod *corev1.Pod) {
	if r.Observer.Ask == nil || r.Record == nil || pod.Spec.NodeName == "" || hasEnded(pod) {
		return
	}
	r.addUnknown(&unknownPod{identity: pod.Namespace + "/" + pod.Name, uid: string(pod.UID), node: pod.Spec.NodeName, revision: pod.ResourceVersion})
}

// hasEnded reports whether the pod's node has said that nothing of the pod runs or will run. A
// terminal phase alone is not enough: the pod garbage collector fails pods of unreachable nodes,
// and their containers may be between two runs.
func hasEnded(pod *corev1.Pod) bool {
	if !podcondition.IsFinal(pod) {
		return false
	}
	for _, all := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range all {
			if all[i].State.Running != nil {
				return false
			}
		}
	}
	return true
}

// Explain checks the overdue pods.
func (r *Rounds) Explain(ctx context.Context, pods []*corev1.Pod) {
	if r.lastReports == nil {
		r.lastReports = map[types.UID]LastReport{}
	}
	terminating := map[types.UID]bool{}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		terminating[pod.UID] = true
		if IsDue(pod, r.lastReports[pod.UID], r.Observer.Clock.Now(), r.Observer.Clock.Steady()) {
			r.explainPod(ctx, pod)
		}
	}
	for uid := range r.lastReports {
		if !terminating[uid] {
			delete(r.lastReports, uid)
		}
	}
}

func (r *Rounds) explainPod(ctx context.Context, pod *corev1.Pod) {
	target := podapi.Target{Kind: mustFindPodKind(), Namespace: pod.Namespace, Name: pod.Name}
	checkedAt := r.Observer.Clock.Steady()
	report, err := r.Observer.Why(ctx, target)
	if err != nil {
		r.Log.DebugContext(ctx, "could not find out why a pod is still there", "pod", pod.Namespace+"/"+pod.Name, "err", err)
		return
	}
	if report.UID != string(pod.UID) || report.AllSilent() {
		return // the next round may hear more
	}
	var names, texts []string
	for _, f := range report.Findings {
		if f.Blocks {
			names, texts = append(names, f.Name), append(texts, f.Title()+": "+f.Cause+" (who acts: "+f.Who+")")
		}
	}
	text, next := NextReport(names, texts, r.lastReports[pod.UID], checkedAt)
	r.lastReports[pod.UID] = next
	if text == "" || r.isRemoved(ctx, target, pod.UID) {
		return
	}
	r.Event(pod, text)
	for _, name := range names {
		r.recordFact(history.Blocker{UID: string(pod.UID), Reason: name})
	}
}

// isRemoved reports whether a pod has left the API. It may have, if a process took long to answer.
func (r *Rounds) isRemoved(ctx context.Context, target podapi.Target, uid types.UID) bool {
	now, err := r.Observer.API.Get(ctx, target, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid
}

// HasUnknownPods reports whether CheckUnknownPods has work: a pod that has left the API, or a node
// that has not listed its pods yet.
func (r *Rounds) HasUnknownPods(nodes []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.unknown) > 0 || len(r.survey.pendingNodes(nodes)) > 0
}

// CheckUnknownPods checks the pods that left the API before their nodes had confirmed.
func (r *Rounds) CheckUnknownPods(ctx context.Context, views Views) {
	answered := answers{}
	r.surveyNodes(ctx, views, answered)
	r.mu.Lock()
	unknown := slices.Clone(r.unknown)
	r.mu.Unlock()
	for _, g := range unknown {
		namespace, name, _ := strings.Cut(g.identity, "/")
		now := views.findPod(namespace, name)
		if isIncarnation(now, g.uid) { // the mirror of a static pod is back
			r.dropUnknown(g)
			continue
		}
		successors := r.updateSuccessors(g, now)
		runtime, err := askProcess[inspect.Runtime](ctx, r, "runtime/"+g.node, answered)
		if err != nil {
			continue // an unreachable pod may still run
		}
		younger := map[string]runtimeState{}
		for _, s := range successors {
			if other, err := askProcess[inspect.Runtime](ctx, r, "runtime/"+s.node, answered); err == nil {
				younger[s.uid] = newRuntimeState(other, s.uid)
			}
		}
		older := newRuntimeState(runtime, g.uid)
		older.kept = older.kept || r.mayStart(ctx, g, answered)
		r.mu.Lock()
		windows, over := g.updateWindows(older, younger, r.Observer.Clock.Steady())
		r.mu.Unlock()
		for _, w := range windows {
			r.recordFact(w)
		}
		if over {
			r.dropUnknown(g)
		}
	}
}

// dropUnknown stops watching an unknown pod.
func (r *Rounds) dropUnknown(g *unknownPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = slices.DeleteFunc(r.unknown, func(other *unknownPod) bool { return other == g })
}

// updateSuccessors adds the pod that has the name now, nil for none, and returns the unknown pod's
// successors.
func (r *Rounds) updateSuccessors(g *unknownPod, now *corev1.Pod) []*successor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now != nil {
		g.addSuccessor(string(now.UID), now.Spec.NodeName)
	}
	return slices.Clone(g.successors)
}

// mayStart reports whether the pod's kubelet still knows the pod, or has not seen its creation yet
// and may start it. A disconnected kubelet does not see the pod's removal, and later sees its
// creation first. A kubelet that does not answer may start it.
func (r *Rounds) mayStart(ctx context.Context, g *unknownPod, answered answers) bool {
	kubelet, err := askProcess[inspect.Kubelet](ctx, r, "kubelet/"+g.node, answered)
	return err != nil || g.mayBeUnseenBy(kubelet.PodsRevision) || slices.ContainsFunc(kubelet.Pods, func(w inspect.PodWorker) bool { return w.UID == g.uid })
}

// answers are the processes' answers in a round, by the processes' names: the answer, or the error.
type answers map[string]any

// askProcess asks a process once in a round, so that a process that does not answer is waited for
// once.
func askProcess[T any](ctx context.Context, r *Rounds, process string, answered answers) (*T, error) {
	switch answer := answered[process].(type) {
	case *T:
		return answer, nil
	case error:
		return nil, answer
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	answer := new(T)
	if err := r.Observer.Ask(ctx, process, answer); err != nil {
		answered[process] = err
		return nil, err
	}
	answered[process] = answer
	return answer, nil
}
