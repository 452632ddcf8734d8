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

// Rounds is what the controller does, round by round, without its loops: whoever has pods
// and somebody to ask can do them. Explain is called by one at a time, and Haunt too.
type Rounds struct {
	Observer gather.Observer
	// Event tells people about a pod, and Note the history; Note may be nil.
	Event func(pod *corev1.Pod, text string)
	Note  func(fact history.Fact)
	Log   *slog.Logger

	said map[types.UID]Said

	mu     sync.Mutex
	ghosts []*ghost
	taking takingUp
}

func (r *Rounds) note(fact history.Fact) {
	if r.Note != nil {
		r.Note(fact)
	}
}

// kindOfPods is the row of the table. It panics when there is none: a mistake there.
func kindOfPods() kinds.Kind {
	kind, ok := kinds.ByResource("pods")
	if !ok {
		panic("explain: no kind pods")
	}
	return kind
}

// Left notes a pod that has left the API while its node may still have it.
func (r *Rounds) Left(pod *corev1.Pod) {
	if r.Observer.Ask == nil || r.Note == nil || pod.Spec.NodeName == "" || ended(pod) {
		return
	}
	r.enter(&ghost{identity: pod.Namespace + "/" + pod.Name, uid: string(pod.UID), node: pod.Spec.NodeName, revision: pod.ResourceVersion})
}

// ended reports whether the pod's node has said that nothing of it runs any more, nor will. A
// final phase alone is not enough: the pod garbage collector fails pods of nodes that nobody
// hears of, whose containers may be between two runs.
func ended(pod *corev1.Pod) bool {
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

// Explain looks at those of the pods that are overdue.
func (r *Rounds) Explain(ctx context.Context, pods []*corev1.Pod) {
	if r.said == nil {
		r.said = map[types.UID]Said{}
	}
	there := map[types.UID]bool{}
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			continue
		}
		there[pod.UID] = true
		if Due(pod, r.said[pod.UID], r.Observer.Clock.Now(), r.Observer.Clock.Steady()) {
			r.one(ctx, pod)
		}
	}
	for uid := range r.said {
		if !there[uid] {
			delete(r.said, uid)
		}
	}
}

func (r *Rounds) one(ctx context.Context, pod *corev1.Pod) {
	target := podapi.Target{Kind: kindOfPods(), Namespace: pod.Namespace, Name: pod.Name}
	looked := r.Observer.Clock.Steady()
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
	text, next := News(names, texts, r.said[pod.UID], looked)
	r.said[pod.UID] = next
	if text == "" || r.gone(ctx, target, pod.UID) {
		return
	}
	r.Event(pod, text)
	for _, name := range names {
		r.note(history.Blocker{UID: string(pod.UID), Reason: name})
	}
}

// gone reports whether a pod has left the API, as it may while a process is asked that takes its
// time to answer.
func (r *Rounds) gone(ctx context.Context, target podapi.Target, uid types.UID) bool {
	now, err := r.Observer.API.Get(ctx, target, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && now.GetUID() != uid
}

// Haunted reports whether there is anything to haunt: a pod that has left, or a node that is yet
// to tell which it has.
func (r *Rounds) Haunted(nodes []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ghosts) > 0 || len(r.taking.pending(nodes)) > 0
}

// Haunt looks at what has become of the pods that left the API too early.
func (r *Rounds) Haunt(ctx context.Context, views Views) {
	said := asked{}
	r.takeUp(ctx, views, said)
	r.mu.Lock()
	ghosts := slices.Clone(r.ghosts)
	r.mu.Unlock()
	for _, g := range ghosts {
		namespace, name, _ := strings.Cut(g.identity, "/")
		now := views.pod(namespace, name)
		if stands(now, g.uid) { // a static pod whose mirror has come
			r.forget(g)
			continue
		}
		successors := r.successors(g, now)
		there, err := ask[inspect.Runtime](ctx, r, "runtime/"+g.node, said)
		if err != nil {
			continue // what cannot be seen is not over
		}
		younger := map[string]life{}
		for _, s := range successors {
			if other, err := ask[inspect.Runtime](ctx, r, "runtime/"+s.node, said); err == nil {
				younger[s.uid] = lifeOf(other, s.uid)
			}
		}
		older := lifeOf(there, g.uid)
		older.kept = older.kept || r.known(ctx, g, said)
		r.mu.Lock()
		windows, over := g.step(older, younger, r.Observer.Clock.Steady())
		r.mu.Unlock()
		for _, w := range windows {
			r.note(w)
		}
		if over {
			r.forget(g)
		}
	}
}

// forget is the end of a ghost.
func (r *Rounds) forget(g *ghost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ghosts = slices.DeleteFunc(r.ghosts, func(other *ghost) bool { return other == g })
}

// successors are those of a ghost, with the pod that has its name now; nil for none.
func (r *Rounds) successors(g *ghost, now *corev1.Pod) []*successor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now != nil {
		g.follow(string(now.UID), now.Spec.NodeName)
	}
	return slices.Clone(g.successors)
}

// known reports whether a ghost's kubelet still knows it, or is yet to hear of it, and may start
// it: one that is cut off does not hear that the pod has left, and later hears first that it
// was there. A kubelet that does not answer may.
func (r *Rounds) known(ctx context.Context, g *ghost, said asked) bool {
	kubelet, err := ask[inspect.Kubelet](ctx, r, "kubelet/"+g.node, said)
	return err != nil || g.unheard(kubelet.PodsRevision) || slices.ContainsFunc(kubelet.Pods, func(w inspect.PodWorker) bool { return w.UID == g.uid })
}

// asked is what processes have said in a round, by their names: the answer, or the error of
// one that did not give any.
type asked map[string]any

// ask asks a process, once in a round: those that do not answer are waited for once.
func ask[T any](ctx context.Context, r *Rounds, process string, before asked) (*T, error) {
	switch said := before[process].(type) {
	case *T:
		return said, nil
	case error:
		return nil, said
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	said := new(T)
	if err := r.Observer.Ask(ctx, process, said); err != nil {
		before[process] = err
		return nil, err
	}
	before[process] = said
	return said, nil
}
