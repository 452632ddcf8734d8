package attachdetach

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/controllers/control"
)

// asked is an API that notes what it is asked, and has one node.
type asked struct {
	control.API

	node  *corev1.Node
	calls []string
	// between happens once what the node is said to have is stored.
	between func()
}

func (a *asked) Get(context.Context, podapi.Target, metav1.GetOptions) (kinds.Object, error) {
	a.calls = append(a.calls, "get")
	if a.node == nil {
		return nil, apierrors.NewNotFound(corev1.Resource("nodes"), "n1")
	}
	return a.node.DeepCopy(), nil
}

func (a *asked) Patch(_ context.Context, _ podapi.Target, _ types.PatchType, patch []byte, _ metav1.PatchOptions) (kinds.Object, error) {
	a.calls = append(a.calls, "patch "+string(patch))
	a.node.Status.VolumesAttached = nil
	a.between()
	return a.node.DeepCopy(), nil
}

func (a *asked) Delete(_ context.Context, target podapi.Target, _ metav1.DeleteOptions) (runtime.Object, error) {
	a.calls = append(a.calls, "delete "+target.Name)
	return &metav1.Status{}, nil
}

// TestDetachAsksLast has a node be asked whether it uses a volume after it was told that it has
// it no more, by which its kubelet goes, and the volume stay when it does.
func TestDetachAsksLast(t *testing.T) {
	const told = `patch {"status":{"volumesAttached":null}}`
	for _, known := range []bool{true, false} {
		for _, uses := range []bool{true, false} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
			node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: device}}
			api := &asked{node: node}
			api.between = func() {
				if uses {
					node.Status.VolumesInUse = []corev1.UniqueVolumeName{device}
				}
			}
			c := &Controller{
				client: control.Of[*storagev1.VolumeAttachment](api, "volumeattachments.storage.k8s.io"),
				nodes:  control.Of[*corev1.Node](api, "nodes"), overlays: &overlays{},
			}
			looked := View{
				Attachments: onN1(), Nodes: map[string]*corev1.Node{},
				Volumes: map[string]*corev1.PersistentVolume{"v": volume(corev1.ReadWriteOnce)},
			}
			looked.Attachments[0].Status.Attached = true
			want := []string{told, "get"}
			if known {
				looked.Nodes["n1"] = node.DeepCopy()
			} else {
				want = []string{"get", told, "get"}
			}
			if !uses {
				want = append(want, "delete on-n1")
			}
			err := c.detach(t.Context(), Detach{Attachment: looked.Attachments[0], Device: device}, looked)
			if err != nil || !slices.Equal(api.calls, want) {
				t.Errorf("%s: %v %v, want %v", fmt.Sprint(known, uses), err, api.calls, want)
			}
		}
	}
}

// TestDetachOfALateView has a volume stay that the node is still said to have, which a late view
// does not show: its kubelet may be about to mount it.
func TestDetachOfALateView(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	late := node.DeepCopy()
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: device}}
	for _, forced := range []bool{false, true} {
		api := &asked{node: node}
		c := &Controller{
			client: control.Of[*storagev1.VolumeAttachment](api, "volumeattachments.storage.k8s.io"),
			nodes:  control.Of[*corev1.Node](api, "nodes"), overlays: &overlays{},
		}
		looked := View{
			Attachments: onN1(), Nodes: map[string]*corev1.Node{"n1": late},
			Volumes: map[string]*corev1.PersistentVolume{"v": volume(corev1.ReadWriteOnce)},
		}
		err := c.detach(t.Context(), Detach{Attachment: looked.Attachments[0], Device: device, Forced: forced}, looked)
		if detached := slices.Contains(api.calls, "delete on-n1"); err != nil || detached != forced {
			t.Errorf("by force: %t: %v %v", forced, err, api.calls)
		}
	}
}

// TestMoves is every way that a volume can take off its node.
func TestMoves(t *testing.T) {
	idle, using := &corev1.Node{}, &corev1.Node{}
	using.Status.VolumesInUse = []corev1.UniqueVolumeName{device}
	for name, c := range map[string]struct {
		view, api *corev1.Node
		forced    bool
		want      []DetachStep
	}{
		"not in use":                      {idle, idle, false, []DetachStep{RemoveFromStatus, CheckInUse, DeleteAttachment}},
		"in use":                          {idle, using, false, []DetachStep{RemoveFromStatus, CheckInUse, KeepAttached}},
		"in use, by force":                {idle, using, true, []DetachStep{RemoveFromStatus, CheckInUse, DeleteAttachment}},
		"the view does not have the node": {nil, using, false, []DetachStep{ReadNode, RemoveFromStatus, CheckInUse, KeepAttached}},
		"there is no such node":           {nil, nil, false, []DetachStep{ReadNode, DeleteAttachment}},
		"the node has just gone":          {idle, nil, false, []DetachStep{RemoveFromStatus, CheckInUse, DeleteAttachment}},
	} {
		d := Detach{Device: device, Forced: c.forced}
		got := []DetachStep{d.FirstStep(c.view)}
		for last := got[0]; last != DeleteAttachment && last != KeepAttached; got = append(got, last) {
			last = d.NextStep(last, c.api)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestDetachFromNowhere takes a volume away at once that is attached to a node that there is not.
func TestDetachFromNowhere(t *testing.T) {
	api := &asked{}
	c := &Controller{
		client: control.Of[*storagev1.VolumeAttachment](api, "volumeattachments.storage.k8s.io"),
		nodes:  control.Of[*corev1.Node](api, "nodes"), overlays: &overlays{},
	}
	looked := View{Attachments: onN1()}
	err := c.detach(t.Context(), Detach{Attachment: looked.Attachments[0], Device: device}, looked)
	if want := []string{"get", "delete on-n1"}; err != nil || !slices.Equal(api.calls, want) {
		t.Errorf("%v %v, want %v", err, api.calls, want)
	}
}
