package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/internal/fault"
	"github.com/podfall/podfall/internal/storage"
)

// claimCluster configures a cluster with volume controllers.
func claimCluster() stage.Config {
	return stage.Config{
		Nodes:       1,
		Controllers: []string{"scheduler", "persistentvolume-binder", "attachdetach", "pv-protection", "pvc-protection"},
		Plugins:     []string{"DefaultStorageClass", "StorageObjectInUseProtection"},
	}
}

// countVolumeDirs returns how many volume directories exist on the machine.
func (r *rig) countVolumeDirs() int {
	r.Helper()
	found, err := filepath.Glob(filepath.Join(r.Volumes(), "*", "*"))
	if err != nil {
		r.Fatal(err)
	}
	return len(found)
}

// bindVolume creates the claim data with its volume, and the pod web that has mounted it and
// written a file.
func (r *rig) bindVolume() *corev1.PersistentVolume {
	r.create("persistentvolumeclaims", claim("data"))
	createUser("web", "node-1")(r)
	r.until("web runs", func() bool { return get[*corev1.Pod](r, "pods web").Status.Phase == corev1.PodRunning })
	name := get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims data").Spec.VolumeName
	volume := get[*corev1.PersistentVolume](r, "persistentvolumes "+name)
	dir := filepath.Join(r.Volumes(), volume.Spec.CSI.Driver, volume.Spec.CSI.VolumeHandle)
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600); err != nil {
		r.Fatal(err)
	}
	return volume
}

// countDeleteFailures returns how often a volume could not be deleted for the given reason,
// according to events.
func (r *rig) countDeleteFailures(why string) (count int32) {
	for _, obj := range r.list("events") {
		event, ok := obj.(*corev1.Event)
		if ok && event.Reason == "VolumeFailedDelete" && strings.Contains(event.Message, why) {
			count += max(event.Count, 1)
		}
	}
	return count
}

// TestReclaim deletes claims with reclaim policy Delete. The directory goes when no pod uses it,
// and not before. A failing removal is reported and retried.
func TestReclaim(t *testing.T) {
	play(t, claimCluster(), func(r *rig) {
		r.bindVolume()
		r.watch("persistentvolumes", describeVolume)
		r.noteEvents("VolumeFailedDelete")
		r.Break("hold", fault.Spec{Point: fault.VolumeUnmount, Effect: fault.Effect{Kind: fault.Error}})
		r.Break("stays", fault.Spec{Point: fault.VolumeDelete, Effect: fault.Effect{Kind: fault.Error, Message: "device or resource busy"}})
		r.resetNotes()
		now := int64(0)
		r.delete("pods web", metav1.DeleteOptions{GracePeriodSeconds: &now})
		r.delete("persistentvolumeclaims data", metav1.DeleteOptions{})
		time.Sleep(time.Minute)
		if r.countVolumeDirs() != 1 {
			t.Error("the files of a volume that is still mounted are gone")
		}
		r.wantNotes(
			`0s      event Warning PersistentVolume/pvc-UID VolumeFailedDelete: persistentvolume pvc-UID is still attached to node node-1 (podfall.dev/directory)`,
			`0s      volume of data Released`,
		)
		r.Mend("hold")
		r.until("it is tried, and tried again", func() bool { return r.countDeleteFailures("device or resource busy") > 2 })
		if r.countVolumeDirs() != 1 {
			t.Error("the files are gone, though they could not be removed")
		}
		r.Mend("stays")
		r.until("the volume is gone", func() bool { return len(r.list("persistentvolumes")) == 0 })
		if r.countVolumeDirs() != 0 {
			t.Error("the volume is gone, and its files are not")
		}
	})
}

// TestReclaimOrders deletes volume and claim in either order, with either policy.
func TestReclaimOrders(t *testing.T) {
	for _, row := range []struct {
		policy          corev1.PersistentVolumeReclaimPolicy
		first, second   string
		volumes, stayed int
	}{
		{corev1.PersistentVolumeReclaimDelete, "persistentvolumeclaims data", "", 0, 0},
		{corev1.PersistentVolumeReclaimDelete, "persistentvolumes", "persistentvolumeclaims data", 0, 0},
		{corev1.PersistentVolumeReclaimRetain, "persistentvolumeclaims data", "", 1, 1},
		{corev1.PersistentVolumeReclaimRetain, "persistentvolumeclaims data", "persistentvolumes", 0, 1},
		{corev1.PersistentVolumeReclaimRetain, "persistentvolumes", "persistentvolumeclaims data", 0, 1},
	} {
		t.Run(strings.Join([]string{string(row.policy), row.first, row.second}, "/"), func(t *testing.T) {
			play(t, claimCluster(), func(r *rig) {
				volume := "persistentvolumes " + r.bindVolume().Name
				r.patch(volume, map[string]any{"spec": map[string]any{"persistentVolumeReclaimPolicy": row.policy}})
				r.delete("pods web", metav1.DeleteOptions{})
				time.Sleep(time.Minute)
				for _, what := range []string{row.first, row.second} {
					if what == "persistentvolumes" {
						what = volume
					}
					if what != "" {
						r.delete(what, metav1.DeleteOptions{})
						time.Sleep(time.Minute)
					}
				}
				if volumes, files := len(r.list("persistentvolumes")), r.countVolumeDirs(); volumes != row.volumes || files != row.stayed {
					t.Errorf("there are %d volumes and the files of %d, want %d and %d", volumes, files, row.volumes, row.stayed)
				}
			})
		})
	}
}

// TestLateDefaultClass creates a claim without a class before there is a default: it gets the
// default class later, and is bound. A claim with the empty class waits on.
func TestLateDefaultClass(t *testing.T) {
	play(t, claimCluster(), func(r *rig) {
		r.delete("storageclasses.storage.k8s.io standard", metav1.DeleteOptions{})
		// A controller with a stale view may still give claims that class.
		r.Settle()
		none := claim("none")
		none.Spec.StorageClassName = new("")
		r.create("persistentvolumeclaims", claim("data"))
		r.create("persistentvolumeclaims", none)
		time.Sleep(time.Minute)
		if got := get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims data"); got.Spec.StorageClassName != nil || got.Status.Phase != corev1.ClaimPending {
			t.Errorf("without a default it is %s of class %v", got.Status.Phase, got.Spec.StorageClassName)
		}
		r.create("storageclasses.storage.k8s.io", &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: "later", Annotations: map[string]string{storage.DefaultAnnotation: "true"}},
			Provisioner: "podfall.dev/directory",
		})
		r.until("it is bound", func() bool {
			got := get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims data")
			return got.Status.Phase == corev1.ClaimBound && *got.Spec.StorageClassName == "later"
		})
		if got := get[*corev1.PersistentVolumeClaim](r, "persistentvolumeclaims none"); *got.Spec.StorageClassName != "" || got.Status.Phase != corev1.ClaimPending {
			t.Errorf("the one that wants no class is %s of class %q", got.Status.Phase, *got.Spec.StorageClassName)
		}
	})
}
