package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/kubelet/podset"
	"github.com/podfall/podfall/services/kubelet/podsource"
	"github.com/podfall/podfall/services/kubelet/podstate"
	"github.com/podfall/podfall/services/kubelet/staticpod"
)

// sources are where a kubelet gets its pods: the API, and files of the node, whose pods have
// mirrors in the API.
type sources struct {
	set, files *podsource.Set
	mirrors    *staticpod.Mirrors
}

func (p *parts) openSources() sources {
	api := p.api
	if r, recorded := api.(recordedAPI); recorded {
		api = r.API // what becomes of a mirror is nothing that happens to a pod
	}
	return sources{
		set: podsource.New(), files: podsource.New(), mirrors: staticpod.NewMirrors(api, p.kinds.pods, p.cfg.Log),
	}
}

// followPods keeps the set of the node's pods (KBL-01).
func (p *parts) followPods(ctx context.Context) error {
	return p.api.Follow(ctx, podapi.Target{Kind: p.kinds.pods}, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", p.cfg.Node).String(),
	}, p.set)
}

// readManifests keeps the set of the node's static pods.
func (p *parts) readManifests(ctx context.Context) error {
	return staticpod.NewSource(staticpod.Config{
		Dir: cmp.Or(p.cfg.Machine.Manifests, filepath.Join(p.cfg.DataDir, "manifests")), Node: p.cfg.Node,
		Clock: p.cfg.Clock, Period: p.cfg.Timing.Loop.Manifests, Log: p.cfg.Log,
		Replace: func(pods []kinds.Object) { p.files.Replace(pods, "") },
		Refused: func(path string, err error) {
			p.recorder.Event(p.nodeReference(), corev1.EventTypeWarning, "FailedValidation", fmt.Sprintf("Error validating static pod from %s, ignoring: %v", path, err))
		},
	}).Run(ctx)
}

// nodeReference returns the node for events. As in upstream's events, its UID is its name.
func (p *parts) nodeReference() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.cfg.Node, UID: types.UID(p.cfg.Node)}}
}

// takeOps returns the operations of both sources. Ready says whether both are complete (KBL-05).
func (s sources) takeOps() (ops []podset.Op, ready bool) {
	ops, ready = s.set.Take()
	others, read := s.files.Take()
	return append(ops, others...), ready && read
}

// Get implements status.Copies. For a static pod it returns the mirror, which is its object in the
// API.
func (s sources) Get(uid types.UID) (pod *corev1.Pod, known bool) {
	static, _ := s.files.Get(uid)
	if static == nil {
		return s.set.Get(uid)
	}
	if _, known = s.set.Get(uid); !known {
		return nil, false
	}
	for _, other := range s.set.All() {
		if podstate.IsMirror(other) && podstate.IsMirrorOf(other, static) {
			return other, true
		}
	}
	return nil, true
}

// hasPod reports whether a pod with the UID exists; known is false until both sources are complete.
func (s sources) hasPod(uid types.UID) (exists, known bool) {
	pod, seen := s.set.Get(uid)
	static, read := s.files.Get(uid)
	return pod != nil || static != nil, seen && read
}
