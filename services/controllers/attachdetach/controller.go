package attachdetach

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller attaches and detaches.
type Controller struct {
	clock    clock.Clock
	recorder control.Recorder
	log      *slog.Logger
	copies   copies
	client   control.Resource[*storagev1.VolumeAttachment]
	// loop has one key: all is looked at together.
	loop   *loop.Loop[string]
	unused map[string]time.Time
}

type copies struct {
	pods        *view.Copy[*corev1.Pod]
	nodes       *view.Copy[*corev1.Node]
	claims      *view.Copy[*corev1.PersistentVolumeClaim]
	volumes     *view.Copy[*corev1.PersistentVolume]
	attachments *view.Copy[*storagev1.VolumeAttachment]
}

const everything = "volumes"

// New is a controller that has not begun.
func New(base control.Base) *Controller {
	c := &Controller{
		clock: base.Clock, recorder: base.Events("attachdetach-controller"), log: base.Log,
		copies: copies{
			pods:        view.Of[*corev1.Pod](base.Views, "pods"),
			nodes:       view.Of[*corev1.Node](base.Views, "nodes"),
			claims:      view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"),
			volumes:     view.Of[*corev1.PersistentVolume](base.Views, "persistentvolumes"),
			attachments: view.Of[*storagev1.VolumeAttachment](base.Views, "volumeattachments.storage.k8s.io"),
		},
		client: control.Of[*storagev1.VolumeAttachment](base.API, "volumeattachments.storage.k8s.io"),
	}
	c.loop = loop.New(loop.Config{Clock: base.Clock, Log: base.Log}, c.sync)
	c.copies.pods.On(func(old, now *corev1.Pod) {
		if now == nil {
			now = old
		}
		if len(now.Spec.Volumes) > 0 && now.Spec.NodeName != "" {
			c.loop.Add(everything)
		}
	})
	c.copies.nodes.On(func(old, now *corev1.Node) {
		if len(c.copies.attachments.All()) > 0 || now == nil || old == nil {
			c.loop.Add(everything)
		}
	})
	c.copies.attachments.On(func(_, _ *storagev1.VolumeAttachment) { c.loop.Add(everything) })
	c.copies.claims.On(func(_, _ *corev1.PersistentVolumeClaim) { c.loop.Add(everything) })
	return c
}

// Run attaches and detaches until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *Controller) sync(ctx context.Context, _ string) error {
	looked := View{Uses: c.uses(), Attachments: c.copies.attachments.All(), Nodes: map[string]*corev1.Node{}, Unused: c.unused}
	if len(looked.Uses)+len(looked.Attachments) == 0 {
		return nil
	}
	for _, node := range c.copies.nodes.All() {
		looked.Nodes[node.Name] = node
	}
	plan := Decide(looked, c.clock.Now())
	c.unused = plan.Unused
	for _, blocked := range plan.Blocked {
		c.recorder.Event(blocked.Pod, corev1.EventTypeWarning, "FailedAttachVolume", blocked.Message)
	}
	for _, attachment := range plan.Detach {
		if err := c.client.Delete(ctx, attachment, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, use := range plan.Attach {
		if err := c.attach(ctx, use); err != nil {
			return err
		}
	}
	if !plan.Recheck.IsZero() {
		c.loop.AddAfter(everything, c.clock.Until(plan.Recheck))
	}
	return nil
}

// uses are the pods with a node that use a volume which has to be attached.
func (c *Controller) uses() []Use {
	var found []Use
	if !c.anyNeeds() {
		return nil
	}
	for _, pod := range c.copies.pods.All() {
		if pod.Spec.NodeName == "" || Done(pod) {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			name := ""
			switch {
			case volume.PersistentVolumeClaim != nil:
				name = volume.PersistentVolumeClaim.ClaimName
			case volume.Ephemeral != nil:
				name = pod.Name + "-" + volume.Name
			}
			claim, ok := c.copies.claims.Get(view.Key{Namespace: pod.Namespace, Name: name})
			if !ok || claim.Spec.VolumeName == "" {
				continue
			}
			if bound, ok := c.copies.volumes.Get(view.Key{Name: claim.Spec.VolumeName}); ok && Needs(bound) {
				found = append(found, Use{Pod: pod, Volume: bound})
			}
		}
	}
	return Sorted(found)
}

func (c *Controller) anyNeeds() bool {
	return slices.ContainsFunc(c.copies.volumes.All(), Needs)
}

// attach makes an attachment and says that it is done, as a driver would.
func (c *Controller) attach(ctx context.Context, use Use) error {
	csi := use.Volume.Spec.CSI
	sum := sha256.Sum256([]byte(csi.VolumeHandle + csi.Driver + use.Pod.Spec.NodeName))
	stored, err := c.client.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%x", sum)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: csi.Driver, NodeName: use.Pod.Spec.NodeName,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &use.Volume.Name},
		},
	})
	if apierrors.IsAlreadyExists(err) {
		return nil // the view is late
	}
	if err != nil {
		return err
	}
	attached := stored.DeepCopy()
	attached.Status.Attached = true
	if _, err := c.client.UpdateStatus(ctx, attached); err != nil {
		return err
	}
	c.recorder.Event(use.Pod, corev1.EventTypeNormal, "SuccessfulAttachVolume",
		fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", use.Volume.Name))
	return nil
}
