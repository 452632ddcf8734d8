package sim

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/controllers/attachdetach"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/view"
)

// The attach/detach controller and the driver of its volumes.
const (
	attachController = "persistentvolume-attach-detach-controller"
	lookAttach       = "attach"
	lookDriver       = "driver"
)

const (
	claimsResource      = "persistentvolumeclaims"
	volumesResource     = "persistentvolumes"
	attachmentsResource = "volumeattachments.storage.k8s.io"
)

// disks are the copies of what persistent volumes are about, and what is remembered of them.
type disks struct {
	claims      *copyOf[*corev1.PersistentVolumeClaim]
	volumes     *copyOf[*corev1.PersistentVolume]
	attachments *copyOf[*storagev1.VolumeAttachment]
	departed    map[string]*corev1.Node
	unused      map[string]time.Time
	own         *ownDisks
}

// ownDisks are what the API has answered writes with that the views may not show yet.
type ownDisks struct {
	nodes       attachdetach.Overlay[corev1.Node, *corev1.Node]
	attachments attachdetach.Overlay[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]
}

func (c *controllers) newDisks() disks {
	return disks{
		claims: newCopy(c.claimChanged), volumes: newCopy(c.volumeChanged), attachments: newCopy(c.attachmentChanged),
		departed: map[string]*corev1.Node{}, own: &ownDisks{},
	}
}

func (c *controllers) attachmentChanged(old, now *storagev1.VolumeAttachment) {
	c.disks.own.attachments.Observe(old, now)
	c.out.Wake(lookAttach, c.now)
	if now != nil && attachdetach.DriverWork(now) != "" {
		c.look(lookDriver, nameOf(now))
	}
}

// diskPodChanged and diskNodeChanged have looked at what is attached, when it may matter.
func (c *controllers) diskPodChanged(old, now *corev1.Pod) {
	if pod := view.Either(old, now); len(pod.Spec.Volumes) > 0 && pod.Spec.NodeName != "" {
		c.out.Wake(lookAttach, c.now)
	}
}

func (c *controllers) diskNodeChanged(old, now *corev1.Node) {
	c.disks.own.nodes.Observe(old, now)
	if now == nil {
		c.disks.departed[old.Name] = old
	} else {
		delete(c.disks.departed, now.Name)
	}
	if attachdetach.AffectsAttachments(old, now) {
		c.out.Wake(lookAttach, c.now)
	}
}

func (c *controllers) syncDisks(what, key string, of name) {
	switch what {
	case lookClaim:
		c.syncClaim(key, of)
	case lookAttach:
		c.syncAttach(key)
	case lookDriver:
		c.syncDriver(key, of)
	}
}

// attached is what the attach/detach controller looks at.
func (c *controllers) attached() attachdetach.View {
	find := attachdetach.Lookup{
		Claim: func(namespace, called string) (*corev1.PersistentVolumeClaim, bool) {
			return c.disks.claims.get(name{namespace, called})
		},
		Volume: func(called string) (*corev1.PersistentVolume, bool) { return c.disks.volumes.get(name{"", called}) },
	}
	attachments := c.disks.own.attachments.Merge(c.disks.attachments.all, c.now)
	looked := attachdetach.View{
		Uses: attachdetach.UsesOf(c.pods.all(), find), Attachments: attachments, Volumes: attachdetach.VolumesOf(attachments, find),
		Nodes: map[string]*corev1.Node{}, DeletedNodes: maps.Clone(c.disks.departed), Unused: c.disks.unused,
	}
	for _, node := range c.disks.own.nodes.Merge(c.nodes.all, c.now) {
		looked.Nodes[node.Name] = node
	}
	return looked
}

// syncAttach does one round: it detaches, attaches, and says of nodes what is attached to them.
func (c *controllers) syncAttach(key string) {
	looked := c.attached()
	if len(looked.Uses)+len(looked.Attachments)+len(c.disks.unused) == 0 {
		return
	}
	plan := attachdetach.Decide(looked, c.now)
	c.disks.unused = plan.Unused
	if !plan.Recheck.IsZero() {
		c.out.Wake(lookAttach, plan.Recheck)
	}
	var steps []func(func(error))
	for _, detach := range plan.Detach {
		steps = append(steps, func(then func(error)) { c.detach(detach, looked, then) })
	}
	for _, use := range plan.Attach {
		steps = append(steps, func(then func(error)) { c.attach(use, then) })
	}
	for _, node := range slices.Sorted(maps.Keys(looked.Nodes)) {
		steps = append(steps, func(then func(error)) { c.tellAttached(looked.Nodes[node], looked, then) })
	}
	inOrder(steps, c.begun(key))
}

// inOrder does one step after the other, until one fails.
func inOrder(steps []func(func(error)), then func(error)) {
	if len(steps) == 0 {
		then(nil)
		return
	}
	steps[0](func(failed error) {
		if failed != nil {
			then(failed)
			return
		}
		inOrder(steps[1:], then)
	})
}

func (c *controllers) attach(use attachdetach.Use, then func(error)) {
	target := podapi.Target{Kind: kindOfResource(attachmentsResource)}
	c.write(attachController, Ask{Verb: proto.VerbCreate, Target: target, Object: attachdetach.AttachmentFor(use)}, nil, func(got Got) {
		if made, is := got.Object.(*storagev1.VolumeAttachment); is && got.Err == nil {
			c.disks.own.attachments.Put(made, c.now)
		}
		then(lest(apierrors.IsAlreadyExists, got.Err))
	})
}

// detach takes a volume off its node, move by move.
func (c *controllers) detach(detach attachdetach.Detach, looked attachdetach.View, then func(error)) {
	looked.MarkDetaching(detach.Attachment, c.shown())
	node := looked.Nodes[detach.Attachment.Spec.NodeName]
	leave := leaving{c, detach, looked, then}
	leave.move(detach.FirstStep(node), node)
}

// leaving is a volume on its way off a node.
type leaving struct {
	*controllers

	detach attachdetach.Detach
	looked attachdetach.View
	then   func(error)
}

// move does a move, and what follows; node is the node as it was last read.
func (l leaving) move(move attachdetach.DetachStep, node *corev1.Node) {
	next := func(node *corev1.Node, err error) {
		if err != nil {
			l.then(err)
			return
		}
		l.move(l.detach.NextStep(move, node), node)
	}
	switch move {
	case attachdetach.ReadNode, attachdetach.CheckInUse:
		l.nodeNow(l.detach.Attachment.Spec.NodeName, next)
	case attachdetach.RemoveFromStatus:
		l.tellAttached(node, l.looked, func(err error) { next(node, err) })
	case attachdetach.DeleteAttachment:
		l.away(l.detach.Attachment, l.then)
	case attachdetach.KeepAttached:
		l.then(nil)
	}
}

// nodeNow is a node as the API has it; nil when it has none.
func (c *controllers) nodeNow(called string, then func(*corev1.Node, error)) {
	c.write(attachController, Ask{Verb: proto.VerbGet, Target: nodeTarget(called)}, nil, func(got Got) {
		node, _ := got.Object.(*corev1.Node)
		then(node, lest(apierrors.IsNotFound, got.Err))
	})
}

func (c *controllers) away(attachment *storagev1.VolumeAttachment, then func(error)) {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &attachment.UID}}
	c.write(attachController, Ask{Verb: proto.VerbDelete, Target: targetOf(attachmentsResource, attachment, ""), Options: options}, attachment, func(got Got) {
		if apierrors.IsNotFound(got.Err) {
			c.disks.own.attachments.Forget(attachment.Name)
		}
		then(lest(control.IsGone, got.Err))
	})
}

// tellAttached stores in a node's status what is attached to it.
func (c *controllers) tellAttached(node *corev1.Node, looked attachdetach.View, then func(error)) {
	attached := attachdetach.AttachedVolumes(node.Name, looked.Attachments, looked.Volumes)
	if slices.Equal(attached, node.Status.VolumesAttached) {
		then(nil)
		return
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": attached}})
	if err != nil {
		panic("sim: " + err.Error()) // plain values
	}
	c.write(attachController, Ask{
		Verb: proto.VerbPatch, Target: targetOf("nodes", node, "status"), PatchType: types.StrategicMergePatchType, Patch: patch,
	}, node, func(got Got) {
		if stored, is := got.Object.(*corev1.Node); is && got.Err == nil {
			c.disks.own.nodes.Put(stored, c.now)
			looked.Nodes[node.Name] = stored
		}
		then(lest(control.IsGone, got.Err))
	})
}

// syncDriver attaches or detaches what an attachment asks for, and says so.
func (c *controllers) syncDriver(key string, of name) {
	attachment, known := c.disks.attachments.get(of)
	if !known || attachdetach.DriverWork(attachment) == "" {
		return
	}
	subresource := "status"
	if attachment.DeletionTimestamp != nil {
		subresource = ""
	}
	done := c.begun(key)
	ask := updating(attachmentsResource, attachdetach.AfterDriverWork(attachment), subresource)
	c.write(attachdetach.Attacher, ask, attachment, func(got Got) { done(lest(control.IsGone, got.Err)) })
}
