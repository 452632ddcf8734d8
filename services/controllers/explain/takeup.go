package explain

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
)

// Views are what the rounds know of the API, as far as its watches have told.
type Views struct {
	// Pod finds the pod that has a name now.
	Pod func(namespace, name string) (*corev1.Pod, bool)
	// Nodes are the names of all nodes.
	Nodes func() []string
}

// pod is the one that has the name; nil for none.
func (v Views) pod(namespace, name string) *corev1.Pod {
	pod, _ := v.Pod(namespace, name)
	return pod
}

// takingUp is how far the nodes have been asked for the pods that left the API before these
// controllers began, whose leaving nobody told them.
type takingUp struct {
	// since is the resourceVersion of pods at which it began; empty before. No kubelet that has
	// heard of pods up to it begins one that left before. Only the rounds use it.
	since string
	// done are the nodes that have told of all that they have; nil for none.
	done map[string]bool
}

// pending are the nodes that have not told yet.
func (t takingUp) pending(nodes []string) (pending []string) {
	for _, node := range nodes {
		if !t.done[node] {
			pending = append(pending, node)
		}
	}
	return pending
}

// incarnation is a pod that a node has.
type incarnation struct {
	namespace, name, uid string
	// began is when the first of its containers that are kept did, in the cluster's time; zero for
	// one that has none.
	began time.Time
}

// incarnations are the pods of which a runtime has a container or that its kubelet knows, which
// is nil when it does not answer.
func incarnations(runtime *inspect.Runtime, kubelet *inspect.Kubelet) (all []incarnation) {
	find := func(namespace, name, uid string) *incarnation {
		at := slices.IndexFunc(all, func(i incarnation) bool { return i.uid == uid })
		if at < 0 {
			at, all = len(all), append(all, incarnation{namespace: namespace, name: name, uid: uid})
		}
		return &all[at]
	}
	for _, c := range runtime.Containers {
		one := find(c.Namespace, c.Pod, c.UID)
		if c.Started.IsZero() {
			continue
		}
		if began := inspect.ShiftTime(c.Started, -runtime.ClockOffset); one.began.IsZero() || began.Before(one.began) {
			one.began = began
		}
	}
	if kubelet != nil {
		for _, w := range kubelet.Pods {
			find(w.Namespace, w.Name, w.UID)
		}
	}
	return all
}

// outcome is what an incarnation turns out to be.
type outcome string

const (
	// present is one that the view of the API has: its leaving will be told.
	present outcome = "present"
	// left is one that the API does not have any more.
	left outcome = "left"
	// unclear is one of which the API has to be asked, or asked again.
	unclear outcome = "unclear"
)

// viewed is what an incarnation is, by the pod that has its name in the view; nil for none.
func (i incarnation) viewed(pod *corev1.Pod) outcome {
	if stands(pod, i.uid) {
		return present
	}
	return unclear
}

// answered is what an incarnation is that the view does not have, when the API has been asked and
// has this pod of its name; nil for none. While the view has another it is older than the answer,
// and may still hear of the incarnation, or have one that was before it for its successor.
func (i incarnation) answered(viewed, pod *corev1.Pod) outcome {
	if uidOf(viewed) != uidOf(pod) {
		return unclear
	}
	return left
}

// stands reports whether a pod of the API is the incarnation of that uid, or the mirror of it: a
// static pod's uid is the hash of its file.
func stands(pod *corev1.Pod, uid string) bool {
	return pod != nil && (string(pod.UID) == uid || pod.Annotations[corev1.MirrorPodAnnotationKey] == uid)
}

func uidOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return string(pod.UID)
}

// takeUp asks the nodes that have not told yet which pods they have, and takes up as ghosts those
// that have left the API. Where the API does not answer the next round goes on.
func (r *Rounds) takeUp(ctx context.Context, views Views, said asked) {
	if r.Observer.Ask == nil || r.Note == nil {
		return
	}
	r.mu.Lock()
	pending := r.taking.pending(views.Nodes())
	r.mu.Unlock()
	if len(pending) == 0 || r.begin(ctx) != nil {
		return
	}
	for _, node := range pending {
		if r.takeUpFrom(ctx, node, views, said) != nil {
			return
		}
	}
}

// takeUpFrom takes up what one node has; the error is the API's. The node has told of all when
// both its processes have answered, and its kubelet may not begin others.
func (r *Rounds) takeUpFrom(ctx context.Context, node string, views Views, said asked) error {
	runtime, err := ask[inspect.Runtime](ctx, r, "runtime/"+node, said)
	if err != nil {
		return nil //nolint:nilerr // it is asked again
	}
	kubelet, err := ask[inspect.Kubelet](ctx, r, "kubelet/"+node, said)
	complete := err == nil && !unheard(kubelet.PodsRevision, r.taking.since)
	for _, i := range incarnations(runtime, kubelet) {
		if r.haunts(i.uid) {
			continue
		}
		what, err := r.decide(ctx, i, views)
		if err != nil {
			return err
		}
		if what == left {
			r.enter(&ghost{
				identity: i.namespace + "/" + i.name, uid: i.uid, node: node, revision: r.taking.since, takenUp: true, began: i.began,
			})
		}
		complete = complete && what != unclear
	}
	if complete {
		r.told(node)
	}
	return nil
}

// decide asks the API about an incarnation, if the view does not have it. The error is the API's.
func (r *Rounds) decide(ctx context.Context, i incarnation, views Views) (outcome, error) {
	viewed := views.pod(i.namespace, i.name)
	if what := i.viewed(viewed); what != unclear {
		return what, nil
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	target := podapi.Target{Kind: kindOfPods(), Namespace: i.namespace, Name: i.name}
	obj, err := r.Observer.API.Get(ctx, target, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return unclear, err
	}
	pod, _ := obj.(*corev1.Pod)
	return i.answered(viewed, pod), nil
}

// begin finds out the resourceVersion of pods at which taking up begins.
func (r *Rounds) begin(ctx context.Context) error {
	if r.taking.since != "" {
		return nil
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	all, err := r.Observer.API.List(ctx, podapi.Target{Kind: kindOfPods()}, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	r.taking.since = all.ResourceVersion
	return nil
}

// told notes that a node has told of all that it has.
func (r *Rounds) told(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taking.done == nil {
		r.taking.done = map[string]bool{}
	}
	r.taking.done[node] = true
}

// haunts reports whether a uid is a ghost's already.
func (r *Rounds) haunts(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.ghosts, func(g *ghost) bool { return g.uid == uid })
}

// enter adds a ghost, unless it is there already, and has those before it be followed by it: the
// two may have come and gone between two rounds.
func (r *Rounds) enter(left *ghost) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.ghosts, func(g *ghost) bool { return g.uid == left.uid }) {
		return
	}
	for _, g := range r.ghosts {
		switch {
		case g.identity != left.identity:
		case left.before(g):
			left.follow(g.uid, g.node)
		default:
			g.follow(left.uid, left.node)
		}
	}
	r.ghosts = append(r.ghosts, left)
}
