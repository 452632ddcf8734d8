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
	loop     *loop.Loop[string]
	unused   map[string]time.Time
	waiting  map[waiter]bool
	departed departed
	own      *own
	oldWords bool
}

// overlays are the API's answers to our writes that the views may not show yet.
type own struct {
	nodes       Written[corev1.Node, *corev1.Node]
	attachments Written[storagev1.VolumeAttachment, *storagev1.VolumeAttachment]
}

type copies struct {
	pods        *view.Copy[*corev1.Pod]
	nodes       *view.Copy[*corev1.Node]
	claims      *view.Copy[*corev1.PersistentVolumeClaim]
	volumes     *view.Copy[*corev1.PersistentVolume]
	attachments *view.Copy[*storagev1.VolumeAttachment]
}

// reportedWait is a pod's wait for which an event was emitted; there is one event per wait.
type waiter struct {
	pod     types.UID
	message string
}

// deletedNodes are the nodes that are gone, in their last known version.
type departed struct {
	mu    sync.Mutex
	nodes map[string]*corev1.Node
}

const (
	everything   = "volumes"
	failedAttach = "FailedAttachVolume"
)

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	c := &Controller{
		clock: base.Clock, recorder: base.Events("attachdetach-controller"), oldWords: base.Compat.MultiAttachErrors,
		copies: copies{
			pods:        view.Of[*corev1.Pod](base.Views, "pods"),
			nodes:       view.Of[*corev1.Node](base.Views, "nodes"),
			claims:      view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"),
			volumes:     view.Of[*corev1.PersistentVolume](base.Views, "persistentvolumes"),
			attachments: view.Of[*storagev1.VolumeAttachment](base.Views, "volumeattachments.storage.k8s.io"),
		},
		client:   control.Of[*storagev1.VolumeAttachment](base.API, "volumeattachments.storage.k8s.io"),
		nodes:    control.Of[*corev1.Node](base.API, "nodes"),
		departed: departed{nodes: map[string]*corev1.Node{}}, own: &own{},
	}
	c.driver = newDriver(base, c.copies.attachments)
	c.loop = loop.New(loop.Config{Name: "attach_detach", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.sync)
	c.copies.pods.OnChange(func(old, now *corev1.Pod) {
		if pod := view.Either(old, now); len(pod.Spec.Volumes) > 0 && pod.Spec.NodeName != "" {
			c.loop.Add(everything)
		}
	})
	c.copies.nodes.OnChange(c.nodeChanged)
	c.copies.claims.OnChange(func(_, _ *corev1.PersistentVolumeClaim) { c.loop.Add(everything) })
	c.copies.volumes.OnChange(func(old, now *corev1.PersistentVolume) {
		if Needs(view.Either(old, now)) {
			c.loop.Add(everything)
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
	c.own.nodes.Shown(old, now)
	c.departed.mu.Lock()
	defer c.departed.mu.Unlock()
	if now == nil {
		c.departed.nodes[old.Name] = old
	} else {
		delete(c.departed.nodes, now.Name)
	}
	if Concerns(old, now) {
		c.loop.Add(everything)
	}
}

func (c *Controller) attachmentChanged(old, now *storagev1.VolumeAttachment) {
	c.own.attachments.Shown(old, now)
	c.loop.Add(everything)
	name := view.Either(old, now).Spec.Source.PersistentVolumeName
	if name == nil {
		return
	}
	tell := told(old, now, *name)
	if tell == nil {
		return
	}
	for _, use := range c.uses() {
		if is(now, use) {
			c.recorder.Event(use.Pod, tell.kind, tell.reason, tell.message)
		}
	}
}

func (c *Controller) sync(ctx context.Context, _ string) error {
	looked := c.look()
	if len(looked.Uses)+len(looked.Attachments)+len(c.unused) == 0 {
		return nil
	}
	plan := Decide(looked, c.clock.Steady())
	c.unused = plan.Unused
	c.tell(plan.Blocked)
	if !plan.Recheck.IsZero() {
		c.loop.AddAfter(everything, plan.Recheck.Sub(c.clock.Steady()))
	}
	for _, detach := range plan.Detach {
		if err := c.detach(ctx, detach, looked); err != nil {
			return err
		}
	}
	for _, use := range plan.Attach {
		if err := c.attach(ctx, use); err != nil {
			return err
		}
	}
	for _, node := range looked.Nodes {
		if err := c.report(ctx, node, looked); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) look() View {
	c.departed.mu.Lock()
	departed := maps.Clone(c.departed.nodes)
	c.departed.mu.Unlock()
	looked := View{
		Uses: c.uses(), Attachments: c.own.attachments.Over(c.copies.attachments.All, c.clock.Steady()), Unused: c.unused, OldWords: c.oldWords,
		Nodes: map[string]*corev1.Node{}, Departed: departed,
	}
	looked.Volumes = VolumesOf(looked.Attachments, c.lookup())
	for _, node := range c.own.nodes.Over(c.copies.nodes.All, c.clock.Steady()) {
		looked.Nodes[node.Name] = node
	}
	return looked
}

// reportBlocked emits an event for each pod that begins to wait.
func (c *Controller) tell(blocked []Blocked) {
	waiting := map[waiter]bool{}
	for _, one := range blocked {
		who := waiter{one.Pod.UID, one.Message}
		if waiting[who] = true; !c.waiting[who] {
			c.recorder.Event(one.Pod, corev1.EventTypeWarning, failedAttach, one.Message)
		}
	}
	c.waiting = waiting
}

// currentUses returns the pods with a node that use a volume which has to be attached.
func (c *Controller) uses() []Use {
	if !slices.ContainsFunc(c.copies.volumes.All(), Needs) {
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
	made, err := c.client.Create(ctx, AttachmentFor(use))
	if apierrors.IsAlreadyExists(err) {
		return nil // the view is late
	}
	if err == nil {
		c.own.attachments.Put(made, c.clock.Steady())
		c.loop.AddAfter(everything, latest)
	}
	return err
}

// detach detaches a volume from its node, step by step.
func (c *Controller) detach(ctx context.Context, detach Detach, looked View) error {
	attachment := detach.Attachment
	looked.Leaving(attachment, c.clock.Now())
	node := looked.Nodes[attachment.Spec.NodeName]
	for move := detach.First(node); ; move = detach.After(move, node) {
		var err error
		switch move {
		case FindNode, AskNode:
			node, err = c.nodeNow(ctx, attachment.Spec.NodeName)
		case TellNode:
			err = c.report(ctx, node, looked)
		case TakeAway:
			return c.takeAway(ctx, attachment)
		case LeaveBe:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readNode reads a node from the API; nil if it does not exist.
func (c *Controller) nodeNow(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.nodes.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no node is an answer
	}
	return node, err
}

func (c *Controller) takeAway(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	err := c.client.Delete(ctx, attachment, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		c.own.attachments.Gone(attachment.Name)
	}
	if control.IsGone(err) {
		return nil
	}
	return err
}

// updateAttached stores in a node's status which volumes are attached to it.
func (c *Controller) report(ctx context.Context, node *corev1.Node, looked View) error {
	attached := Attached(node.Name, looked.Attachments, looked.Volumes)
	if slices.Equal(attached, node.Status.VolumesAttached) {
		return nil
	}
	stored, err := c.nodes.PatchStrategic(ctx, node, "status", map[string]any{"status": map[string]any{"volumesAttached": attached}})
	if control.IsGone(err) {
		return nil
	}
	if err == nil {
		c.own.nodes.Put(stored, c.clock.Steady())
		looked.Nodes[node.Name] = stored
	}
	return err
}
