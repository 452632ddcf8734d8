package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podfall/podfall/e2e/stage"
	"github.com/podfall/podfall/proto/kinds"
)

// diskCluster configures a cluster with claims that are attachable disks.
func diskCluster() stage.Config {
	return stage.Config{
		Nodes:       2,
		Controllers: []string{"scheduler", "persistentvolume-binder", "attachdetach", "nodelifecycle"},
		Plugins:     []string{"DefaultStorageClass", "DefaultTolerationSeconds"},
	}
}

// describeAttachment describes where a disk is attached.
func describeAttachment(obj kinds.Object, kind watch.EventType) string {
	attachment, ok := obj.(*storagev1.VolumeAttachment)
	if !ok {
		return ""
	}
	text := "disk on " + attachment.Spec.NodeName
	switch {
	case kind == watch.Deleted:
		return text + " no more"
	case attachment.DeletionTimestamp != nil:
		return text + " detaching"
	case attachment.Status.Attached:
		return text + " attached"
	}
	return text + " attaching"
}

// holdDisk runs the pod web with a disk on node-1, which then becomes silent. The zero of noted
// times is set when the pod is deleted by force, and a second pod wants the disk on node-2.
func (r *rig) holdDisk() {
	r.create("persistentvolumeclaims", claim("data"))
	createUser("web", "node-1")(r)
	r.until("web runs", func() bool { return get[*corev1.Pod](r, "pods web").Status.Phase == corev1.PodRunning })
	r.Stop("kubelet/node-1")
	time.Sleep(2 * time.Minute)
	r.watch("volumeattachments.storage.k8s.io", describeAttachment)
	r.watch("pods", func(obj kinds.Object, kind watch.EventType) string {
		if obj.GetName() != "second" {
			return ""
		}
		return describePod(obj, kind)
	})
	r.noteEvents("FailedAttachVolume", "SuccessfulAttachVolume")
	stage.Align(0)
	r.resetNotes()
	now := int64(0)
	r.delete("pods web", metav1.DeleteOptions{GracePeriodSeconds: &now})
	createUser("second", "node-2")(r)
}

// TestHAZ03 force-deletes a pod whose silent node has its disk. The next pod waits for six minutes
// in ContainerCreating, until the disk is detached by force (CTL-20).
func TestHAZ03(t *testing.T) {
	play(t, diskCluster(), func(r *rig) {
		r.holdDisk()
		time.Sleep(5*time.Minute + 59*time.Second)
		r.wantNotes(
			`0s      event Warning Pod/second FailedAttachVolume: Waiting for detach for volume "pvc-UID" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node (attachdetach-controller)`,
			`0s      pod second Pending`,
			`0s      pod second Pending Ready=False`,
		)
		time.Sleep(time.Minute)
		r.wantNotes(
			`6m0s    disk on node-1 detaching`,
			`6m0s    disk on node-1 no more`,
			`6m0s    disk on node-2 attached`,
			`6m0s    disk on node-2 attaching`,
			`6m0s    event Normal Pod/second SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "pvc-UID"  (attachdetach-controller)`,
			`6m1s    pod second Running Ready=True`,
		)
	})
}

// TestHAZ03OutOfService taints the node out-of-service: the disk is detached at once (TD-118).
func TestHAZ03OutOfService(t *testing.T) {
	play(t, diskCluster(), func(r *rig) {
		r.holdDisk()
		time.Sleep(10 * time.Second)
		r.wantNotes(
			`0s      event Warning Pod/second FailedAttachVolume: Waiting for detach for volume "pvc-UID" Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node (attachdetach-controller)`,
			`0s      pod second Pending`,
			`0s      pod second Pending Ready=False`,
		)
		r.patch("nodes node-1", map[string]any{"spec": map[string]any{"taints": []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}}})
		time.Sleep(10 * time.Second)
		r.wantNotes(
			`10s     disk on node-1 detaching`,
			`10s     disk on node-1 no more`,
			`10s     disk on node-2 attached`,
			`10s     disk on node-2 attaching`,
			`10s     event Normal Pod/second SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "pvc-UID"  (attachdetach-controller)`,
			`11s     pod second Running Ready=True`,
		)
	})
}
