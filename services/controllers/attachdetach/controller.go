package attachdetach

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// Controller attaches and detaches volumes.
type Controller struct {
	clock    clock.Clock
	recorder control.Recorder
	copies   copies
	client   control.Resource[*storagev1.VolumeAttachment]
	nodes    control.Resource[*corev1.Node]
	driver   *driver
	// loop has one key: everything is decided together.
	loop         *loop.Loop[string]
	unused       map[string]time.Time
	waiting      map[reportedWait]bool
	deletedNodes deletedNodes
	overlays     *overlays
	oldMessages  bool
}

// overlays are the API's answers to our writes that the views may not show yet.
type overlays struct {
	nodes       Overlay[corev1.Node, *corev1.Node]
	attachments Overlay[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]
}

type copies struct {
	pods        *view.Copy[*corev1.Pod]
	nodes       *view.Copy[*corev1.Node]
	claims      *view.Copy[*corev1.PersistentVolumeClaim]
	volumes     *view.Copy[*corev1.PersistentVolume]
	attachments *view.Copy[*storagev1.VolumeAttachment]
}

// reportedWait is a pod's wait for which an event was emitted; there is one event per wait.
type reportedWait struct {
	pod     types.UID
	message string
}

// deletedNodes are the nodes that are gone, in their last known version.
type deletedNodes struct {
	mu    sync.Mutex
	nodes map[string]*corev1.Node
}

const (
	syncKey      = "volumes"
	failedAttach = "FailedAttachVolume"
)

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	c := &Controller{
		clock: base.Clock, recorder: base.Events("attachdetach-controller"), oldMessages: base.Compat.MultiAttachErrors,
		copies: copies{
			pods:        view.Of[*corev1.Pod](base.Views, "pods"),
			nodes:       view.Of[*corev1.Node](base.Views, "nodes"),
			claims:      view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"),
			volumes:     view.Of[*corev1.PersistentVolume](base.Views, "persistentvolumes"),
			attachments: view.Of[*storagev1.VolumeAttachment](base.Views, "volumeattachments.storage.k8s.io"),
		},
		client:       control.Of[*storagev1.VolumeAttachment](base.API, "volumeattachments.storage.k8s.io"),
		nodes:        control.Of[*corev1.Node](base.API, "nodes"),
		deletedNodes: deletedNodes{nodes: map[string]*corev1.Node{}}, overlays: &overlays{},
	}
	c.driver = newDriver(base, c.copies.attachments)
	c.loop = loop.New(loop.Config{Name: "attach_detach", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.sync)
	c.copies.pods.OnChange(func(old, now *corev1.Pod) {
		if pod := view.Either(old, now); len(pod.Spec.Volumes) > 0 && pod.Spec.NodeName != "" {
			c.loop.Add(syncKey)
		}
	})
	c.copies.nodes.OnChange(c.nodeChanged)
	c.copies.claims.OnChange(func(_, _ *corev1.PersistentVolumeClaim) { c.loop.Add(syncKey) })
	c.copies.volumes.OnChange(func(old, now *corev1.PersistentVolume) {
		if NeedsAttach(view.Either(old, now)) {
			c.loop.Add(syncKey)
		}
	})
	c.copies.attachments.OnChange(c.attachmentChanged)
	return c
}

// Run attaches and detaches until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	return daemon.Run(ctx, c.loop.Run, c.driver.loop.Run)
}

// nodeChanged starts a sync if a change of a node affects attachments; its heartbeats do not.
func (c *Controller) nodeChanged(old, now *corev1.Node) {
	c.overlays.nodes.Observe(old, now)
	c.deletedNodes.mu.Lock()
	defer c.deletedNodes.mu.Unlock()
	if now == nil {
		c.deletedNodes.nodes[old.Name] = old
	} else {
		delete(c.deletedNodes.nodes, now.Name)
	}
	if AffectsAttachments(old, now) {
		c.loop.Add(syncKey)
	}
}

func (c *Controller) attachmentChanged(old, now *storagev1.VolumeAttachment) {
	c.overlays.attachments.Observe(old, now)
	c.loop.Add(syncKey)
	name := view.Either(old, now).Spec.Source.PersistentVolumeName
	if name == nil {
		return
	}
	event := attachEvent(old, now, *name)
	if event == nil {
		return
	}
	for _, use := range c.currentUses() {
		if attachmentServes(now, use) {
			c.recorder.Event(use.Pod, event.kind, event.reason, event.message)
		}
	}
}

func (c *Controller) sync(ctx context.Context, _ string) error {
	current := c.currentView()
	if len(current.Uses)+len(current.Attachments)+len(c.unused) == 0 {
		return nil
	}
	plan := Decide(current, c.clock.Steady())
	c.unused = plan.Unused
	c.reportBlocked(plan.Blocked)
	if !plan.Recheck.IsZero() {
		c.loop.AddAfter(syncKey, plan.Recheck.Sub(c.clock.Steady()))
	}
	for _, detach := range plan.Detach {
		if err := c.detach(ctx, detach, current); err != nil {
			return err
		}
	}
	for _, use := range plan.Attach {
		if err := c.attach(ctx, use); err != nil {
			return err
		}
	}
	for _, node := range current.Nodes {
		if err := c.updateAttached(ctx, node, current); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) currentView() View {
	c.deletedNodes.mu.Lock()
	departed := maps.Clone(c.deletedNodes.nodes)
	c.deletedNodes.mu.Unlock()
	current := View{
		Uses: c.currentUses(), Attachments: c.overlays.attachments.Merge(c.copies.attachments.All, c.clock.Steady()), Unused: c.unused, OldMessages: c.oldMessages,
		Nodes: map[string]*corev1.Node{}, DeletedNodes: departed,
	}
	current.Volumes = VolumesOf(current.Attachments, c.lookup())
	for _, node := range c.overlays.nodes.Merge(c.copies.nodes.All, c.clock.Steady()) {
		current.Nodes[node.Name] = node
	}
	return current
}

// reportBlocked emits an event for each pod that begins to wait.
func (c *Controller) reportBlocked(blocked []Blocked) {
	waiting := map[reportedWait]bool{}
	for _, one := range blocked {
		wait := reportedWait{one.Pod.UID, one.Message}
		if waiting[wait] = true; !c.waiting[wait] {
			c.recorder.Event(one.Pod, corev1.EventTypeWarning, failedAttach, one.Message)
		}
	}
	c.waiting = waiting
}

// currentUses returns the pods with a node that use a volume which has to be attached.
func (c *Controller) currentUses() []Use {
	if !slices.ContainsFunc(c.copies.volumes.All(), NeedsAttach) {
		return nil
	}
	return UsesOf(c.copies.pods.All(), c.lookup())
}

func (c *Controller) lookup() Lookup {
	return Lookup{
		Claim: func(namespace, name string) (*corev1.PersistentVolumeClaim, bool) {
			return c.copies.claims.Get(view.Key{Namespace: namespace, Name: name})
		},
		Volume: func(name string) (*corev1.PersistentVolume, bool) { return c.copies.volumes.Get(view.Key{Name: name}) },
	}
}

// attach creates the attachment of a volume to a node.
func (c *Controller) attach(ctx context.Context, use Use) error {
	created, err := c.client.Create(ctx, AttachmentFor(use))
	if apierrors.IsAlreadyExists(err) {
		return nil // the view is late
	}
	if err == nil {
		c.overlays.attachments.Put(created, c.clock.Steady())
		c.loop.AddAfter(syncKey, maxViewDelay)
	}
	return err
}

// detach detaches a volume from its node, step by step.
func (c *Controller) detach(ctx context.Context, detach Detach, current View) error {
	attachment := detach.Attachment
	current.MarkDetaching(attachment, c.clock.Now())
	node := current.Nodes[attachment.Spec.NodeName]
	for move := detach.FirstStep(node); ; move = detach.NextStep(move, node) {
		var err error
		switch move {
		case ReadNode, CheckInUse:
			node, err = c.readNode(ctx, attachment.Spec.NodeName)
		case RemoveFromStatus:
			err = c.updateAttached(ctx, node, current)
		case DeleteAttachment:
			return c.deleteAttachment(ctx, attachment)
		case KeepAttached:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readNode reads a node from the API; nil if it does not exist.
func (c *Controller) readNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.nodes.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no node is an answer
	}
	return node, err
}

func (c *Controller) deleteAttachment(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	err := c.client.Delete(ctx, attachment, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		c.overlays.attachments.Forget(attachment.Name)
	}
	if control.IsGone(err) {
		return nil
	}
	return err
}

// updateAttached stores in a node's status which volumes are attached to it.
func (c *Controller) updateAttached(ctx context.Context, node *corev1.Node, current View) error {
	attached := AttachedVolumes(node.Name, current.Attachments, current.Volumes)
	if slices.Equal(attached, node.Status.VolumesAttached) {
		return nil
	}
	stored, err := c.nodes.PatchStrategic(ctx, node, "status", map[string]any{"status": map[string]any{"volumesAttached": attached}})
	if control.IsGone(err) {
		return nil
	}
	if err == nil {
		c.overlays.nodes.Put(stored, c.clock.Steady())
		current.Nodes[node.Name] = stored
	}
	return err
}
