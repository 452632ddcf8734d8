package kubelet

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/podworker"
	"github.com/podfall/podfall/services/kubelet/staticpod"
)

// statics is what the loop knows of static pods.
type statics struct {
	// pods are the static pods as the files last showed them, until their workers are forgotten.
	pods map[types.UID]*corev1.Pod
	// mirrors are their mirror pods in the API, by name.
	mirrors map[string]*corev1.Pod
	names   staticpod.NameQueue
}

func newStatics() statics {
	return statics{pods: map[types.UID]*corev1.Pod{}, mirrors: map[string]*corev1.Pod{}}
}

func (s statics) addStatic(pod *corev1.Pod) {
	if podstate.IsStatic(pod) {
		s.pods[pod.UID] = pod
	}
}

// handleMirror takes a change of a mirror pod. It changes nothing for the static pod, whose status
// the mirror must show (KBL-82).
func (l *loop) handleMirror(op podset.Op) {
	name := podstate.Key(op.Pod)
	if op.Verb != podset.Remove {
		l.static.mirrors[name] = op.Pod
	} else if was := l.static.mirrors[name]; was != nil && was.UID == op.Pod.UID {
		delete(l.static.mirrors, name)
	}
	for _, pod := range l.static.pods {
		if podstate.Key(pod) == name {
			l.parts.reporter.Refresh(pod)
		}
	}
}

// isWanted reports whether a pod should run.
func (l *loop) isWanted(uid types.UID) bool { return l.pods[uid] != nil }

// sendMirrorView sends the present static pods and mirrors to the mirror keeper. If there are
// neither, it sends nothing.
func (l *loop) sendMirrorView() {
	if !l.ready || len(l.static.pods)+len(l.static.mirrors) == 0 {
		return
	}
	view := staticpod.View{
		Running: map[string]*corev1.Pod{}, Ending: map[string]bool{}, Mirrors: maps.Clone(l.static.mirrors), Node: l.parts.node.Current(),
	}
	for uid, pod := range l.static.pods {
		v, worked := l.parts.workers.Get(uid)
		switch {
		case !worked && !l.isWanted(uid):
			delete(l.static.pods, uid)
		case !worked:
		case v.State == podworker.Syncing && l.isWanted(uid):
			view.Running[podstate.Key(pod)] = pod
		case v.State < podworker.Confirming || l.isWanted(uid):
			view.Ending[podstate.Key(pod)] = true
		}
	}
	l.parts.mirrors.SetView(view)
}
