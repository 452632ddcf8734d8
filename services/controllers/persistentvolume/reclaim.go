package persistentvolume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/services/controllers/control"
)

// reclaim removes a volume's files and then deletes the volume, and releases it once it is
// terminating (SyncVolume of the provisioners' library). A volume still on a node waits for that
// node. A failed removal of files is retried. Each failure is an event.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if holder := InUseMessage(volume, c.copies.attachments.All(), c.copies.nodes.All()); holder != "" {
		c.provisioner.Event(volume, corev1.EventTypeWarning, "VolumeFailedDelete", holder)
		return nil
	}
	err := c.machine.Faults.Inject(ctx, fault.VolumeDelete, fault.Attributes{Volume: volume.Name})
	if err == nil {
		err = removeFiles(c.machine.Storage, volume)
	}
	if err != nil {
		c.provisioner.Event(volume, corev1.EventTypeWarning, "VolumeFailedDelete", err.Error())
		return err
	}
	if volume.DeletionTimestamp != nil {
		return c.removeFinalizer(ctx, volume)
	}
	err = c.client.volumes.Delete(ctx, volume, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeFiles removes a volume's directory inside the volume root, and follows no link out of the
// root. A volume that was never mounted has no directory.
func removeFiles(dir string, volume *corev1.PersistentVolume) error {
	if dir == "" || volume.Spec.CSI == nil || volume.Spec.CSI.Driver != Driver {
		return nil
	}
	inside, err := storage.VolumeDir(volume.Spec.CSI)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(inside)
}

// addFinalizer adds the finalizer to a volume.
func (c *Controller) addFinalizer(ctx context.Context, volume *corev1.PersistentVolume) error {
	return c.setFinalizers(ctx, volume, append(otherFinalizers(volume.Finalizers), Finalizer))
}

// removeFinalizer removes the finalizer from a volume.
func (c *Controller) removeFinalizer(ctx context.Context, volume *corev1.PersistentVolume) error {
	return c.setFinalizers(ctx, volume, otherFinalizers(volume.Finalizers))
}

// otherFinalizers returns a copy without our finalizer.
func otherFinalizers(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(one string) bool { return one == Finalizer })
}

// setFinalizers updates a volume's finalizers. A volume that is gone is no error.
func (c *Controller) setFinalizers(ctx context.Context, volume *corev1.PersistentVolume, finalizers []string) error {
	updated := volume.DeepCopy()
	updated.Finalizers = finalizers
	_, err := c.client.volumes.Update(ctx, updated)
	if control.IsGone(err) {
		return nil
	}
	return err
}
