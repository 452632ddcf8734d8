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

// Views is what the rounds know of the API from its watches.
type Views struct {
	// Pod finds the pod that has a name now.
	Pod func(namespace, name string) (*corev1.Pod, bool)
	// Nodes are the names of all nodes.
	Nodes func() []string
}

// findPod returns the pod with the name; nil for none.
func (v Views) findPod(namespace, name string) *corev1.Pod {
	pod, _ := v.Pod(namespace, name)
	return pod
}

// nodeSurvey is which nodes have listed their pods, to find those that left the API before the
// controllers began. No watch event tells of those.
type nodeSurvey struct {
	// since is the resourceVersion of pods at the start of the survey; empty before it. A kubelet
	// that has seen pods up to it starts no pod that left before. Only the rounds use it.
	since string
	// done are the nodes that have listed all their pods; nil for none.
	done map[string]bool
}

// pendingNodes are the nodes that have not listed their pods yet.
func (t nodeSurvey) pendingNodes(nodes []string) (pending []string) {
	for _, node := range nodes {
		if !t.done[node] {
			pending = append(pending, node)
		}
	}
	return pending
}

// incarnation is a pod on a node.
type incarnation struct {
	namespace, name, uid string
	// began is the start of the oldest container that the node still has, in cluster time; zero
	// without one.
	began time.Time
}

// listIncarnations returns the pods that have a container in the runtime or that the kubelet knows.
// kubelet is nil if it does not answer.
func listIncarnations(runtime *inspect.Runtime, kubelet *inspect.Kubelet) (all []incarnation) {
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

// presence is whether an incarnation is in the API.
type presence string

const (
	// present incarnations are in the view: a watch event will tell of their removal.
	present presence = "present"
	// absent incarnations have left the API.
	absent presence = "left"
	// unclear incarnations need a request to the API.
	unclear presence = "unclear"
)

// classifyByView compares with the pod that has the name in the view; nil for none.
func (i incarnation) classifyByView(pod *corev1.Pod) presence {
	if isIncarnation(pod, i.uid) {
		return present
	}
	return unclear
}

// classifyByAnswer compares with the API's pod of the name, nil for none, if the view lacks the
// incarnation. If the view has a different pod, it is older than the answer. A watch event may
// still tell of the incarnation, or the view's pod may be an earlier one that would look like a
// successor.
func (i incarnation) classifyByAnswer(viewed, pod *corev1.Pod) presence {
	if uidOf(viewed) != uidOf(pod) {
		return unclear
	}
	return absent
}

// isIncarnation reports whether a pod of the API has that uid or is the mirror of it: a static
// pod's uid is the hash of its file.
func isIncarnation(pod *corev1.Pod, uid string) bool {
	return pod != nil && (string(pod.UID) == uid || pod.Annotations[corev1.MirrorPodAnnotationKey] == uid)
}

func uidOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return string(pod.UID)
}

// surveyNodes asks the pending nodes for their pods, and watches those that have left the API. If
// the API does not answer, the next round continues.
func (r *Rounds) surveyNodes(ctx context.Context, views Views, answered answers) {
	if r.Observer.Ask == nil || r.Record == nil {
		return
	}
	r.mu.Lock()
	pending := r.survey.pendingNodes(views.Nodes())
	r.mu.Unlock()
	if len(pending) == 0 || r.beginSurvey(ctx) != nil {
		return
	}
	for _, node := range pending {
		if r.surveyNode(ctx, node, views, answered) != nil {
			return
		}
	}
}

// surveyNode surveys one node; the error is the API's. The node is done if both its processes have
// answered and its kubelet cannot start other removed pods.
func (r *Rounds) surveyNode(ctx context.Context, node string, views Views, answered answers) error {
	runtime, err := askProcess[inspect.Runtime](ctx, r, "runtime/"+node, answered)
	if err != nil {
		return nil //nolint:nilerr // it is asked again
	}
	kubelet, err := askProcess[inspect.Kubelet](ctx, r, "kubelet/"+node, answered)
	complete := err == nil && !isBehind(kubelet.PodsRevision, r.survey.since)
	for _, i := range listIncarnations(runtime, kubelet) {
		if r.isUnknown(i.uid) {
			continue
		}
		state, err := r.classify(ctx, i, views)
		if err != nil {
			return err
		}
		if state == absent {
			r.addUnknown(&unknownPod{
				identity: i.namespace + "/" + i.name, uid: i.uid, node: node, revision: r.survey.since, surveyed: true, began: i.began,
			})
		}
		complete = complete && state != unclear
	}
	if complete {
		r.markSurveyed(node)
	}
	return nil
}

// classify asks the API about an incarnation if the view lacks it. The error is the API's.
func (r *Rounds) classify(ctx context.Context, i incarnation, views Views) (presence, error) {
	viewed := views.findPod(i.namespace, i.name)
	if state := i.classifyByView(viewed); state != unclear {
		return state, nil
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	target := podapi.Target{Kind: mustFindPodKind(), Namespace: i.namespace, Name: i.name}
	obj, err := r.Observer.API.Get(ctx, target, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return unclear, err
	}
	pod, _ := obj.(*corev1.Pod)
	return i.classifyByAnswer(viewed, pod), nil
}

// beginSurvey reads the resourceVersion of pods at which the survey begins.
func (r *Rounds) beginSurvey(ctx context.Context) error {
	if r.survey.since != "" {
		return nil
	}
	ctx, cancel := clock.Clock{}.Timeout(ctx, gather.Patience)
	defer cancel()
	all, err := r.Observer.API.List(ctx, podapi.Target{Kind: mustFindPodKind()}, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	r.survey.since = all.ResourceVersion
	return nil
}

// markSurveyed records that a node has listed all its pods.
func (r *Rounds) markSurveyed(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.survey.done == nil {
		r.survey.done = map[string]bool{}
	}
	r.survey.done[node] = true
}

// isUnknown reports whether a uid is an unknown pod already.
func (r *Rounds) isUnknown(uid string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.unknown, func(g *unknownPod) bool { return g.uid == uid })
}

// addUnknown adds an unknown pod unless it is known, and links it with those of the same name: two
// may have come and gone between two rounds.
func (r *Rounds) addUnknown(left *unknownPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.unknown, func(g *unknownPod) bool { return g.uid == left.uid }) {
		return
	}
	for _, g := range r.unknown {
		switch {
		case g.identity != left.identity:
		case left.isOlderThan(g):
			left.addSuccessor(g.uid, g.node)
		default:
			g.addSuccessor(left.uid, left.node)
		}
	}
	r.unknown = append(r.unknown, left)
}
