package sim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// resumeDevices takes up what an earlier incarnation has mounted, as volumes.New does.
func (k *kubeletProcess) resumeDevices() {
	k.devices = volumes.NewDevices()
	for uid, mounts := range k.of.kernel.mounts { // independent of each other
		for _, m := range mounts {
			if m.device != "" {
				k.devices.Add(m.device, uid, m.volume)
			}
		}
	}
}

// get reads an object.
func (v *kernelVolumes) get(ctx context.Context, target podapi.Target) Outcome {
	return apiClient{v.k}.request(ctx, Ask{Verb: proto.VerbGet, Target: target, Options: &metav1.GetOptions{}})
}

// attach waits for one volume to be attached, as volumes.Manager does: by its claim, its
// volume, and the attachment of that to the node.
func (v *kernelVolumes) attach(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, name string) (corev1.UniqueVolumeName, error) {
	got := v.get(ctx, podapi.Target{Kind: kindOfResource(claimsResource), Namespace: pod.Namespace, Name: name})
	if got.Err != nil {
		return "", got.Err
	}
	claim, _ := got.Object.(*corev1.PersistentVolumeClaim)
	if err := volumes.CheckClaim(pod, volume, claim); err != nil {
		return "", err
	}
	got = v.get(ctx, podapi.Target{Kind: kindOfResource(volumesResource), Name: claim.Spec.VolumeName})
	if got.Err != nil {
		return "", got.Err
	}
	bound, _ := got.Object.(*corev1.PersistentVolume)
	if err := volumes.CheckBound(bound, claim); err != nil {
		return "", err
	}
	device := storage.DeviceName(bound.Spec.CSI)
	if reported := v.k.devices.Add(device, pod.UID, volume.Name); !reported {
		return "", volumes.ErrUnreported
	}
	got = v.get(ctx, nodeTarget(v.k.of.node))
	if got.Err != nil {
		return "", got.Err
	}
	node, _ := got.Object.(*corev1.Node)
	if err := volumes.CheckNode(node, device); err != nil {
		return "", err
	}
	got = v.get(ctx, podapi.Target{Kind: kindOfResource(attachmentsResource), Name: storage.AttachmentName(bound.Spec.CSI, v.k.of.node)})
	attachment, _ := got.Object.(*storagev1.VolumeAttachment)
	return device, volumes.CheckAttachment(attachment, got.Err)
}
