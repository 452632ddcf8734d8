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

// reclaim takes away a volume's files, then marks the volume, and lets it go when it comes
// again marked (SyncVolume of the provisioners' library). A volume that a node has still waits
// for that node; one whose files stay is tried again. Both are told each time.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if holder := Holder(volume, c.copies.attachments.All(), c.copies.nodes.All()); holder != "" {
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
		return c.release(ctx, volume)
	}
	err = c.client.volumes.Delete(ctx, volume, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// removeFiles removes the directory of a volume from that of all volumes, and follows no link
// out of there. One that was never mounted has none.
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

// guard adds the finalizer to a volume.
func (c *Controller) guard(ctx context.Context, volume *corev1.PersistentVolume) error {
	return c.finalize(ctx, volume, append(others(volume.Finalizers), Finalizer))
}

// release takes the finalizer away from a volume.
func (c *Controller) release(ctx context.Context, volume *corev1.PersistentVolume) error {
	return c.finalize(ctx, volume, others(volume.Finalizers))
}

// others are the finalizers that are not ours, in a slice of their own.
func others(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(one string) bool { return one == Finalizer })
}

// finalize gives a volume these finalizers. That it has gone meanwhile is no error.
func (c *Controller) finalize(ctx context.Context, volume *corev1.PersistentVolume, finalizers []string) error {
	updated := volume.DeepCopy()
	updated.Finalizers = finalizers
	_, err := c.client.volumes.Update(ctx, updated)
	if control.IsGone(err) {
		return nil
	}
	return err
}
