package attachdetach

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/clock"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/services/controllers/control"
	"github.com/podfall/podfall/services/controllers/loop"
	"github.com/podfall/podfall/services/controllers/view"
)

// driver does the work of the attacher of every CSI driver. It attaches what a VolumeAttachment
// asks for and says so in its status, and removes its finalizer once it has detached. There is no
// storage behind it; only an injected fault can make it fail.
type driver struct {
	attachments *view.Copy[*storagev1.VolumeAttachment]
	client      control.Resource[*storagev1.VolumeAttachment]
	faults      *fault.Table
	clock       clock.Clock
	loop        *loop.Loop[view.Key]
}

// Finalizer keeps a VolumeAttachment until the driver has detached its volume.
func Finalizer(driver string) string { return Attacher + "/" + driver }

// driverWorkers is how many volumes are attached or detached at once.
const driverWorkers = 10

// Attacher is the name under which the driver decides: upstream it is a process of its own.
const Attacher = "external-attacher"

func newDriver(base control.Base, attachments *view.Copy[*storagev1.VolumeAttachment]) *driver {
	client := control.Of[*storagev1.VolumeAttachment](control.WithName(base.API, Attacher), "volumeattachments.storage.k8s.io")
	d := &driver{attachments: attachments, client: client, faults: base.Faults, clock: base.Clock}
	d.loop = loop.New(loop.Config{Name: "volume_driver", Metrics: base.Metrics, Clock: base.Clock, Log: base.Log, Workers: driverWorkers}, d.sync)
	attachments.OnChange(func(_, now *storagev1.VolumeAttachment) {
		if now != nil && DriverWork(now) != "" {
			d.loop.Add(view.KeyOf(now))
		}
	})
	return d
}

func (d *driver) sync(ctx context.Context, key view.Key) error {
	attachment, ok := d.attachments.Get(key)
	if !ok || DriverWork(attachment) == "" {
		return nil
	}
	point := DriverWork(attachment)
	about := fault.Attributes{Node: attachment.Spec.NodeName}
	if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
		about.Volume = *name
	}
	if err := d.faults.Inject(ctx, point, about); err != nil {
		return d.recordFailure(ctx, attachment.DeepCopy(), point, err)
	}
	var err error
	if point == fault.VolumeAttach {
		_, err = d.client.UpdateStatus(ctx, AfterDriverWork(attachment))
	} else {
		_, err = d.client.Update(ctx, AfterDriverWork(attachment))
	}
	if control.IsGone(err) {
		return nil // the view is late; what follows brings the key back
	}
	return err
}

// recordFailure stores why a volume could not be attached or detached, and returns an error to have
// it retried.
func (d *driver) recordFailure(ctx context.Context, changed *storagev1.VolumeAttachment, point fault.Point, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failure := &storagev1.VolumeError{Time: metav1.NewTime(d.clock.Now()), Message: cause.Error()}
	have := &changed.Status.AttachError
	if point == fault.VolumeDetach {
		have = &changed.Status.DetachError
	}
	if *have == nil || (*have).Message != failure.Message {
		*have = failure
		if _, err := d.client.UpdateStatus(ctx, changed); err != nil && !control.IsGone(err) {
			return err
		}
	}
	return fmt.Errorf("%s of %s on %s: %w", point, changed.Name, changed.Spec.NodeName, cause)
}

// attachEvent returns the event about a changed attachment, for the pods that wait for it; nil if
// there is none.
func attachEvent(old, now *storagev1.VolumeAttachment, volume string) *eventNote {
	switch {
	case now == nil || now.DeletionTimestamp != nil:
	case now.Status.Attached && (old == nil || !old.Status.Attached):
		return &eventNote{corev1.EventTypeNormal, "SuccessfulAttachVolume", fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", volume)}
	case now.Status.AttachError != nil && (old == nil || old.Status.AttachError == nil || old.Status.AttachError.Message != now.Status.AttachError.Message):
		return &eventNote{corev1.EventTypeWarning, failedAttach, fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", volume, now.Status.AttachError.Message)}
	}
	return nil
}

// eventNote is the type, the reason and the message of an event.
type eventNote struct{ kind, reason, message string }
