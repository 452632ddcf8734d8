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

// sources are where a kubelet has its pods from: the API, and files of the node, for whose
// pods mirrors stand in the API.
type sources struct {
	set, files *podsource.Set
	mirrors    *staticpod.Mirrors
}

func (p *parts) openSources() sources {
	api := p.api
	if r, recorded := api.(recording); recorded {
		api = r.API // what becomes of a mirror is nothing that happens to a pod
	}
	return sources{
		set: podsource.New(), files: podsource.New(), mirrors: staticpod.NewMirrors(api, p.kinds.pods, p.cfg.Log),
	}
}

// follow keeps the set of the node's pods (KBL-01).
func (p *parts) follow(ctx context.Context) error {
	return p.api.Follow(ctx, podapi.Target{Kind: p.kinds.pods}, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", p.cfg.Node).String(),
	}, p.set)
}

// readFiles keeps the set of the node's static pods.
func (p *parts) readFiles(ctx context.Context) error {
	return staticpod.NewSource(staticpod.Config{
		Dir: cmp.Or(p.cfg.Machine.Manifests, filepath.Join(p.cfg.DataDir, "manifests")), Node: p.cfg.Node,
		Clock: p.cfg.Clock, Period: p.cfg.Timing.Loop.Manifests, Log: p.cfg.Log,
		Replace: func(pods []kinds.Object) { p.files.Replace(pods, "") },
		Refused: func(path string, err error) {
			p.recorder.Event(p.self(), corev1.EventTypeWarning, "FailedValidation", fmt.Sprintf("Error validating static pod from %s, ignoring: %v", path, err))
		},
	}).Run(ctx)
}

// self is the node in events, of which upstream's have the name for a UID.
func (p *parts) self() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.cfg.Node, UID: types.UID(p.cfg.Node)}}
}

// take hands over what has happened in both, and says whether both are complete (KBL-05).
func (s sources) take() (ops []podset.Op, ready bool) {
	ops, ready = s.set.Take()
	others, read := s.files.Take()
	return append(ops, others...), ready && read
}

// Get implements status.Copies: of a static pod, the object in the API is its mirror.
func (s sources) Get(uid types.UID) (pod *corev1.Pod, known bool) {
	static, _ := s.files.Get(uid)
	if static == nil {
		return s.set.Get(uid)
	}
	if _, known = s.set.Get(uid); !known {
		return nil, false
	}
	for _, other := range s.set.All() {
		if podstate.Mirror(other) && podstate.MirrorOf(other, static) {
			return other, true
		}
	}
	return nil, true
}

// has reports whether the UID is that of a pod; it reports false for known until both
// sources are complete.
func (s sources) has(uid types.UID) (exists, known bool) {
	pod, seen := s.set.Get(uid)
	static, read := s.files.Get(uid)
	return pod != nil || static != nil, seen && read
}
