package persistentvolume

import (
	"context"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/daemon"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

const workers = 4

// Controller binds and provisions.
type Controller struct {
	binder, provisioner control.Recorder
	log                 *slog.Logger
	copies              copies
	client              clients
	machine             control.Machine
	claims, volumes     *loop.Loop[view.Key]
	// classes queues the creation of the default class.
	classes *loop.Loop[view.Key]
}

type copies struct {
	claims  *view.Copy[*corev1.PersistentVolumeClaim]
	volumes *view.Copy[*corev1.PersistentVolume]
	classes *view.Copy[*storagev1.StorageClass]
	nodes   *view.Copy[*corev1.Node]
	// attachments say which nodes volumes are attached to.
	attachments *view.Copy[*storagev1.VolumeAttachment]
}

type clients struct {
	claims  control.Resource[*corev1.PersistentVolumeClaim]
	volumes control.Resource[*corev1.PersistentVolume]
	classes control.Resource[*storagev1.StorageClass]
}

// New returns a controller that is not running yet.
func New(base control.Base) *Controller {
	c := &Controller{
		binder: base.Events("persistentvolume-controller"), provisioner: base.Events(Provisioner), log: base.Log, machine: base.Machine,
		copies: copies{
			claims:  view.Of[*corev1.PersistentVolumeClaim](base.Views, "persistentvolumeclaims"),
			volumes: view.Of[*corev1.PersistentVolume](base.Views, "persistentvolumes"),
			classes: view.Of[*storagev1.StorageClass](base.Views, "storageclasses.storage.k8s.io"),
			nodes:   view.Of[*corev1.Node](base.Views, "nodes"),

			attachments: view.Of[*storagev1.VolumeAttachment](base.Views, "volumeattachments.storage.k8s.io"),
		},
		client: clients{
			claims:  control.Of[*corev1.PersistentVolumeClaim](base.API, "persistentvolumeclaims"),
			volumes: control.Of[*corev1.PersistentVolume](base.API, "persistentvolumes"),
			classes: control.Of[*storagev1.StorageClass](base.API, "storageclasses.storage.k8s.io"),
		},
	}
	c.claims = loop.New(loop.Config{Name: "claims", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.syncClaim)
	c.volumes = loop.New(loop.Config{Name: "volumes", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: workers}, c.syncVolume)
	c.classes = loop.New(loop.Config{Name: "classes", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log}, c.ensureDefaultClass)
	c.subscribe()
	return c
}

// subscribe queues what a change may affect.
func (c *Controller) subscribe() {
	c.copies.claims.OnChange(c.claimChanged)
	c.copies.volumes.OnChange(c.volumeChanged)
	c.copies.attachments.OnChange(func(_, now *storagev1.VolumeAttachment) {
		if now == nil {
			c.queueReleasedVolumes()
		}
	})
	c.copies.nodes.OnChange(func(old, now *corev1.Node) {
		if old != nil && (now == nil || !slices.Equal(old.Status.VolumesInUse, now.Status.VolumesInUse)) {
			c.queueReleasedVolumes()
		}
	})
	c.copies.classes.OnChange(func(_, now *storagev1.StorageClass) {
		if now != nil {
			c.queueUnboundClaims()
		}
	})
}

// claimChanged queues the claim, or the volume of a deleted claim.
func (c *Controller) claimChanged(old, now *corev1.PersistentVolumeClaim) {
	switch {
	case now != nil:
		c.claims.Add(view.KeyOf(now))
	case old.Spec.VolumeName != "":
		c.volumes.Add(view.Key{Name: old.Spec.VolumeName})
	}
}

// volumeChanged queues the volume, its previous and present claims, and if it became free the
// waiting claims.
func (c *Controller) volumeChanged(old, now *corev1.PersistentVolume) {
	for _, volume := range []*corev1.PersistentVolume{old, now} {
		if volume != nil && volume.Spec.ClaimRef != nil {
			c.claims.Add(view.Key{Namespace: volume.Spec.ClaimRef.Namespace, Name: volume.Spec.ClaimRef.Name})
		}
	}
	if now == nil {
		return
	}
	c.volumes.Add(view.KeyOf(now))
	if now.Spec.ClaimRef == nil && (old == nil || old.Status.Phase != now.Status.Phase || old.Spec.ClaimRef != nil) {
		c.queueUnboundClaims()
	}
}

// queueUnboundClaims queues all claims that are not bound.
func (c *Controller) queueUnboundClaims() {
	for _, claim := range c.copies.claims.All() {
		if claim.Status.Phase != corev1.ClaimBound {
			c.claims.Add(view.KeyOf(claim))
		}
	}
}

// queueReleasedVolumes queues all released volumes: they may wait for a node.
func (c *Controller) queueReleasedVolumes() {
	for _, volume := range c.copies.volumes.All() {
		if volume.Status.Phase == corev1.VolumeReleased {
			c.volumes.Add(view.KeyOf(volume))
		}
	}
}

// Run binds until ctx ends. A cluster without any class gets a default class first, or as soon as
// the API accepts it.
func (c *Controller) Run(ctx context.Context) error {
	standard := view.KeyOf(DefaultClass())
	if err := c.ensureDefaultClass(ctx, standard); err != nil {
		c.log.WarnContext(ctx, "could not create the default storage class", "error", err)
		c.classes.Retry(standard)
	}
	return daemon.Run(ctx, c.claims.Run, c.volumes.Run, c.classes.Run)
}

// ensureDefaultClass creates the default class in a cluster without any.
func (c *Controller) ensureDefaultClass(ctx context.Context, _ view.Key) error {
	if len(c.copies.classes.All()) > 0 {
		return nil
	}
	if _, err := c.client.classes.Create(ctx, DefaultClass()); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// DefaultClass is the default class: directories. Every node reaches them, so that binding need not
// wait for a consumer.
func DefaultClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "standard", Annotations: map[string]string{storage.DefaultAnnotation: "true"},
		},
		Provisioner: Provisioner, ReclaimPolicy: new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingImmediate),
	}
}

func (c *Controller) syncClaim(ctx context.Context, key view.Key) error {
	claim, found := c.copies.claims.Get(key)
	if !found {
		return nil
	}
	input := View{Claim: claim, Volumes: c.copies.volumes.All()}
	input.Class, _ = c.copies.classes.Get(view.Key{Name: ClassOf(claim)})
	input.Default = storage.DefaultClass(c.copies.classes.All())
	input.Node, _ = c.copies.nodes.Get(view.Key{Name: claim.Annotations[SelectedNode]})
	return c.applyDecision(ctx, claim, Decide(input))
}

func (c *Controller) applyDecision(ctx context.Context, claim *corev1.PersistentVolumeClaim, decision Decision) error {
	if decision.Event != nil {
		c.binder.Event(claim, decision.Event.Type, decision.Event.Reason, decision.Event.Message)
	}
	if decision.Provision != nil {
		if err := c.provision(ctx, claim, decision.Provision); err != nil {
			return err
		}
	}
	volume := decision.VolumeBound
	if decision.Volume != nil {
		stored, err := c.client.volumes.Update(ctx, decision.Volume)
		if err != nil {
			return err
		}
		if volume != nil {
			volume = stored
		}
	}
	if volume != nil {
		updated := volume.DeepCopy()
		updated.Status.Phase = corev1.VolumeBound
		if _, err := c.client.volumes.UpdateStatus(ctx, updated); err != nil {
			return err
		}
	}
	if decision.Claim != nil {
		stored, err := c.client.claims.Update(ctx, decision.Claim)
		if err != nil {
			return err
		}
		claim = stored
	}
	if decision.Status != nil {
		updated := claim.DeepCopy()
		updated.Status = *decision.Status
		if _, err := c.client.claims.UpdateStatus(ctx, updated); err != nil {
			return err
		}
	}
	return nil
}

// provision creates a volume. If the view is late the volume may exist already.
func (c *Controller) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) error {
	c.provisioner.Event(claim, corev1.EventTypeNormal, "Provisioning",
		"External provisioner is provisioning volume for claim \""+claim.Namespace+"/"+claim.Name+"\"")
	_, err := c.client.volumes.Create(ctx, volume)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		c.provisioner.Event(claim, corev1.EventTypeWarning, "ProvisioningFailed", err.Error())
		return err
	}
	c.provisioner.Event(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume "+volume.Name)
	return nil
}

func (c *Controller) syncVolume(ctx context.Context, key view.Key) error {
	volume, found := c.copies.volumes.Get(key)
	if !found {
		return nil
	}
	var claim *corev1.PersistentVolumeClaim
	if ref := volume.Spec.ClaimRef; ref != nil {
		claim, _ = c.copies.claims.Get(view.Key{Namespace: ref.Namespace, Name: ref.Name})
		if claim == nil && ref.UID != "" { // the view may be late
			live, err := c.client.claims.Get(ctx, ref.Namespace, ref.Name)
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			claim = live
		}
	}
	decision := DecideVolume(volume, claim)
	switch {
	case decision.Delete:
		return c.reclaim(ctx, volume)
	case decision.AddFinalizer:
		return c.addFinalizer(ctx, volume)
	case decision.RemoveFinalizer:
		return c.removeFinalizer(ctx, volume)
	case decision.Unbind:
		updated := volume.DeepCopy()
		updated.Spec.ClaimRef = nil
		_, err := c.client.volumes.Update(ctx, updated)
		return err
	case decision.Phase != "":
		updated := volume.DeepCopy()
		updated.Status.Phase = decision.Phase
		_, err := c.client.volumes.UpdateStatus(ctx, updated)
		return err
	}
	return nil
}
