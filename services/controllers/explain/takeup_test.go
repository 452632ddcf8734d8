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

// web is the pod, of a uid, on n2.
func web(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: "n2"}}
}

// mirror is the pod if it stands for a static one.
func mirror(hash string) *corev1.Pod {
	pod := web("mirror")
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

// rounds are those of controllers that begin anew.
func (n *node) rounds(told *[]history.Window) *Rounds {
	return &Rounds{
		Observer: gather.Observer{API: n, Ask: gather.JSON(n.ask)},
		Note: func(fact history.Fact) {
			if w, is := fact.(history.Window); is {
				*told = append(*told, w)
			}
		},
	}
}

// uids are those of the ghosts, each with its successors'.
func (r *Rounds) uids() (all []string) {
	for _, g := range r.ghosts {
		uid := g.uid
		for _, s := range g.successors {
			uid += "<" + s.uid
		}
		all = append(all, uid)
	}
	return all
}

// TestTakeUp has controllers begin anew, and ask a node which pods it has: those that have left the
// API are ghosts, and the node is asked again until it cannot have others.
func TestTakeUp(t *testing.T) {
	for name, c := range map[string]struct {
		node    node
		ghosts  []string
		pending bool
	}{
		"one that has left":                  {node{runs: []string{"old"}, heard: "10"}, []string{"old"}, false},
		"one whose name another has":         {node{runs: []string{"old"}, heard: "10", viewed: web("new"), has: web("new")}, []string{"old"}, false},
		"one that is there":                  {node{runs: []string{"old"}, heard: "10", viewed: web("old"), has: web("old")}, nil, false},
		"one that the copy is yet to hear":   {node{runs: []string{"old"}, heard: "10", has: web("old")}, nil, true},
		"one whose next the copy has not":    {node{runs: []string{"old"}, heard: "10", viewed: web("first"), has: web("new")}, nil, true},
		"two, the second of which is older":  {node{runs: []string{"second", "first"}, heard: "10"}, []string{"second", "first<second"}, false},
		"between two runs":                   {node{knows: []string{"old"}, heard: "10"}, []string{"old"}, false},
		"nothing":                            {node{heard: "10"}, nil, false},
		"a kubelet that is yet to hear":      {node{heard: "9"}, nil, true},
		"a kubelet that does not answer":     {node{runs: []string{"old"}, silent: []string{"kubelet/n1"}}, []string{"old"}, true},
		"a runtime that does not answer":     {node{runs: []string{"old"}, heard: "10", silent: []string{"runtime/n1"}}, nil, true},
		"an apiserver that does not answer":  {node{runs: []string{"old"}, heard: "10", silent: []string{"apiserver"}}, nil, true},
		"a static pod":                       {node{runs: []string{"hash"}, heard: "10", viewed: mirror("hash"), has: mirror("hash")}, nil, false},
		"a static pod of an earlier content": {node{runs: []string{"hash"}, heard: "10", viewed: mirror("other"), has: mirror("other")}, []string{"hash"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := &c.node
			r := n.rounds(new([]history.Window))
			r.takeUp(t.Context(), n.views(), asked{})
			if got := r.uids(); !slices.Equal(got, c.ghosts) {
				t.Errorf("ghosts are %v, want %v", got, c.ghosts)
			}
			if got := len(r.taking.pending([]string{"n1"})) > 0; got != c.pending {
				t.Errorf("pending is %v, want %v", got, c.pending)
			}
		})
	}
}

// TestTakeUpLater has somebody not answer at first: users are told of the window when all do, and
// nobody is asked any more after that.
func TestTakeUpLater(t *testing.T) {
	for _, silent := range []string{"runtime/n1", "apiserver"} {
		var told []history.Window
		n := &node{runs: []string{"old"}, heard: "10", viewed: web("new"), has: web("new"), silent: []string{silent}}
		r := n.rounds(&told)
		r.Haunt(t.Context(), n.views())
		if len(told) > 0 || !r.Haunted([]string{"n1"}) {
			t.Errorf("%s is silent: told %v, and haunted is %v", silent, told, r.Haunted([]string{"n1"}))
		}
		n.silent = nil
		r.Haunt(t.Context(), n.views())
		if len(told) != 1 || !slices.Equal(told[0].UIDs, []string{"old", "new"}) || !told[0].Begin.Equal(now) {
			t.Errorf("%s answers: told %v", silent, told)
		}
		asked := n.gets
		n.runs = nil
		r.Haunt(t.Context(), n.views())
		if len(told) != 2 || r.Haunted([]string{"n1"}) || n.gets != asked {
			t.Errorf("it is over: told %v, haunted is %v, asked %d times more", told, r.Haunted([]string{"n1"}), n.gets-asked)
		}
	}
}

// TestAskedOnce has a node that is yet to tell be asked again, but not the API about who is a ghost.
func TestAskedOnce(t *testing.T) {
	n := &node{runs: []string{"old"}, heard: "9"}
	r := n.rounds(new([]history.Window))
	for range 2 {
		r.takeUp(t.Context(), n.views(), asked{})
	}
	if n.gets != 1 {
		t.Errorf("the API was asked %d times", n.gets)
	}
}

// TestTakenUpBefore has a pod that was taken up be older than one whose leaving was seen, and no
// ghost twice; and a static pod, whose mirror comes late, be none any more.
func TestTakenUpBefore(t *testing.T) {
	n := &node{runs: []string{"old"}, heard: "10"}
	r := n.rounds(new([]history.Window))
	r.Left(web("new"))
	r.takeUp(t.Context(), n.views(), asked{})
	r.Left(web("old"))
	if got := r.uids(); !slices.Equal(got, []string{"new", "old<new"}) {
		t.Errorf("ghosts are %v", got)
	}
	n.viewed = mirror("old")
	r.Haunt(t.Context(), n.views())
	if r.haunts("old") {
		t.Errorf("a static pod is a ghost: %v", r.uids())
	}
}
