package explain

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/analysis/why/gather"
	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/internal/inspect"
	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
)

var errNoAnswer = errors.New("no answer")

// node is what the node n1 is like when controllers begin anew, and what the API has of the pod
// default/web; nil for none.
type node struct {
	// runs and knows are the uids of web's that its runtime and its kubelet have.
	runs, knows []string
	// heard is how far its kubelet has heard; the API is at 10.
	heard string
	// silent are the processes that do not answer, the apiserver among them.
	silent []string
	// viewed is what the copy has, and has what the API has.
	viewed, has *corev1.Pod
	// gets counts how often the API was asked for the pod.
	gets int
}

// webPod is the pod with a uid, on n2.
func webPod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: "n2"}}
}

// mirrorPod is the pod as the mirror of a static pod.
func mirrorPod(hash string) *corev1.Pod {
	pod := webPod("mirror")
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: hash}
	return pod
}

func (n *node) Get(_ context.Context, target podapi.Target, _ metav1.GetOptions) (kinds.Object, error) {
	n.gets++
	switch {
	case slices.Contains(n.silent, "apiserver"):
		return nil, errNoAnswer
	case n.has == nil:
		return nil, apierrors.NewNotFound(target.Kind.GroupResource(), target.Name)
	}
	return n.has, nil
}

func (n *node) List(context.Context, podapi.Target, metav1.ListOptions) (*podapi.List, error) {
	return &podapi.List{ResourceVersion: "10"}, nil
}

func (n *node) ask(_ context.Context, process string) ([]byte, error) {
	switch {
	case slices.Contains(n.silent, process):
		return nil, errNoAnswer
	case process == "runtime/n1":
		var said inspect.Runtime
		for i, uid := range n.runs {
			said.Containers = append(said.Containers, inspect.Container{
				Namespace: "default", Pod: "web", UID: uid, Alive: true, Times: inspect.Times{Started: now.Add(-time.Duration(i) * time.Second)},
			})
		}
		return json.Marshal(said)
	case process == "kubelet/n1":
		said := inspect.Kubelet{PodsRevision: n.heard}
		for _, uid := range n.knows {
			said.Pods = append(said.Pods, inspect.PodWorker{Namespace: "default", Name: "web", UID: uid})
		}
		return json.Marshal(said)
	}
	return json.Marshal(inspect.Runtime{Containers: []inspect.Container{ // of n2
		{Namespace: "default", Pod: "web", UID: "new", Alive: true, Times: inspect.Times{Started: now}},
	}})
}

func (n *node) views() Views {
	return Views{
		Pod:   func(string, string) (*corev1.Pod, bool) { return n.viewed, n.viewed != nil },
		Nodes: func() []string { return []string{"n1"} },
	}
}

// newRounds returns the rounds of new controllers.
func (n *node) newRounds(recorded *[]history.Window) *Rounds {
	return &Rounds{
		Observer: gather.Observer{API: n, Ask: gather.JSON(n.ask)},
		Record: func(fact history.Fact) {
			if w, is := fact.(history.Window); is {
				*recorded = append(*recorded, w)
			}
		},
	}
}

// unknownUIDs lists the unknown pods, each with its successors.
func (r *Rounds) unknownUIDs() (all []string) {
	for _, g := range r.unknown {
		uid := g.uid
		for _, s := range g.successors {
			uid += "<" + s.uid
		}
		all = append(all, uid)
	}
	return all
}

// TestSurvey starts controllers that ask a node for its pods. Those that have left the API are
// unknown pods, and the node is asked again until it cannot have others.
func TestSurvey(t *testing.T) {
	for name, c := range map[string]struct {
		node    node
		unknown []string
		pending bool
	}{
		"one that has left":                  {node{runs: []string{"old"}, heard: "10"}, []string{"old"}, false},
		"one whose name another has":         {node{runs: []string{"old"}, heard: "10", viewed: webPod("new"), has: webPod("new")}, []string{"old"}, false},
		"one that is there":                  {node{runs: []string{"old"}, heard: "10", viewed: webPod("old"), has: webPod("old")}, nil, false},
		"one that the copy is yet to hear":   {node{runs: []string{"old"}, heard: "10", has: webPod("old")}, nil, true},
		"one whose next the copy has not":    {node{runs: []string{"old"}, heard: "10", viewed: webPod("first"), has: webPod("new")}, nil, true},
		"two, the second of which is older":  {node{runs: []string{"second", "first"}, heard: "10"}, []string{"second", "first<second"}, false},
		"between two runs":                   {node{knows: []string{"old"}, heard: "10"}, []string{"old"}, false},
		"nothing":                            {node{heard: "10"}, nil, false},
		"a kubelet that is yet to hear":      {node{heard: "9"}, nil, true},
		"a kubelet that does not answer":     {node{runs: []string{"old"}, silent: []string{"kubelet/n1"}}, []string{"old"}, true},
		"a runtime that does not answer":     {node{runs: []string{"old"}, heard: "10", silent: []string{"runtime/n1"}}, nil, true},
		"an apiserver that does not answer":  {node{runs: []string{"old"}, heard: "10", silent: []string{"apiserver"}}, nil, true},
		"a static pod":                       {node{runs: []string{"hash"}, heard: "10", viewed: mirrorPod("hash"), has: mirrorPod("hash")}, nil, false},
		"a static pod of an earlier content": {node{runs: []string{"hash"}, heard: "10", viewed: mirrorPod("other"), has: mirrorPod("other")}, []string{"hash"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := &c.node
			r := n.newRounds(new([]history.Window))
			r.surveyNodes(t.Context(), n.views(), answers{})
			if got := r.unknownUIDs(); !slices.Equal(got, c.unknown) {
				t.Errorf("unknown pods are %v, want %v", got, c.unknown)
			}
			if got := len(r.survey.pendingNodes([]string{"n1"})) > 0; got != c.pending {
				t.Errorf("pending is %v, want %v", got, c.pending)
			}
		})
	}
}

// TestSurveyRetries has a process not answer at first. The window is recorded once all answer, and
// no process is asked after that.
func TestSurveyRetries(t *testing.T) {
	for _, silent := range []string{"runtime/n1", "apiserver"} {
		var recorded []history.Window
		n := &node{runs: []string{"old"}, heard: "10", viewed: webPod("new"), has: webPod("new"), silent: []string{silent}}
		r := n.newRounds(&recorded)
		r.CheckUnknownPods(t.Context(), n.views())
		if len(recorded) > 0 || !r.HasUnknownPods([]string{"n1"}) {
			t.Errorf("%s is silent: told %v, and haunted is %v", silent, recorded, r.HasUnknownPods([]string{"n1"}))
		}
		n.silent = nil
		r.CheckUnknownPods(t.Context(), n.views())
		if len(recorded) != 1 || !slices.Equal(recorded[0].UIDs, []string{"old", "new"}) || !recorded[0].Begin.Equal(now) {
			t.Errorf("%s answers: told %v", silent, recorded)
		}
		asked := n.gets
		n.runs = nil
		r.CheckUnknownPods(t.Context(), n.views())
		if len(recorded) != 2 || r.HasUnknownPods([]string{"n1"}) || n.gets != asked {
			t.Errorf("it is over: told %v, haunted is %v, asked %d times more", recorded, r.HasUnknownPods([]string{"n1"}), n.gets-asked)
		}
	}
}

// TestSurveyAsksAPIOnce asks a node again until it is surveyed, but not the API about a known
// unknown pod.
func TestSurveyAsksAPIOnce(t *testing.T) {
	n := &node{runs: []string{"old"}, heard: "9"}
	r := n.newRounds(new([]history.Window))
	for range 2 {
		r.surveyNodes(t.Context(), n.views(), answers{})
	}
	if n.gets != 1 {
		t.Errorf("the API was asked %d times", n.gets)
	}
}

// TestSurveyedIsOlder: a surveyed pod is older than one whose removal was seen, no pod is unknown
// twice, and a static pod is not unknown once its mirror is there.
func TestSurveyedIsOlder(t *testing.T) {
	n := &node{runs: []string{"old"}, heard: "10"}
	r := n.newRounds(new([]history.Window))
	r.PodRemoved(webPod("new"))
	r.surveyNodes(t.Context(), n.views(), answers{})
	r.PodRemoved(webPod("old"))
	if got := r.unknownUIDs(); !slices.Equal(got, []string{"new", "old<new"}) {
		t.Errorf("unknown pods are %v", got)
	}
	n.viewed = mirrorPod("old")
	r.CheckUnknownPods(t.Context(), n.views())
	if r.isUnknown("old") {
		t.Errorf("a static pod is unknown: %v", r.unknownUIDs())
	}
}
