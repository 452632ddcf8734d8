package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podrefs"
	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/kubelet/volumes"
)

// resumeDevices takes up what an earlier incarnation has mounted, as volumes.New does.
func (k *kubeletProcess) resumeDevices() {
	k.speaker.devices = volumes.NewDevices()
	for uid, mounts := range k.of.kernel.mounts { // independent of each other
		for _, m := range mounts {
			if m.device != "" {
				k.speaker.devices.Add(m.device, uid, m.volume)
			}
		}
	}
}

// tellInUse has the node say which volumes it uses, when these have changed.
func (k *kubeletProcess) tellInUse(now time.Time, out Out) {
	if k.speaker.reporting > 0 {
		return // one thing is said after the other
	}
	select {
	case <-k.speaker.devices.InUseChanges():
		if k.speaker.object != nil {
			k.report(now, out)
		}
	default:
	}
}

// attaching waits for one volume to be attached, as volumes.Manager does: by its claim, its
// volume, and the attachment of that to the node.
type attaching struct {
	*mounting

	i      int
	volume *corev1.Volume
}

// attach begins to ask, unless a volume is of no claim.
func (m *mounting) attach(now time.Time, i int, out Out) (asks bool) {
	a := attaching{mounting: m, i: i, volume: &m.pod.Spec.Volumes[i]}
	claim := podrefs.ClaimName(m.pod, a.volume)
	if claim == "" {
		return false
	}
	m.asks[i] = true
	a.get(now, podapi.Target{Kind: kindOfResource(claimsResource), Namespace: m.pod.Namespace, Name: claim}, out, a.claimed)
	return true
}

// get asks for an object; the answer to what was broken off is of no interest.
func (a attaching) get(now time.Time, target podapi.Target, out Out, then Then) {
	a.k.do(now, Ask{Verb: proto.VerbGet, Target: target, Options: &metav1.GetOptions{}}, out, func(now time.Time, got Got, out Out) {
		if a.asks[a.i] {
			then(now, got, out)
		}
	})
}

func (a attaching) claimed(now time.Time, got Got, out Out) {
	claim, is := got.Object.(*corev1.PersistentVolumeClaim)
	if is && got.Err == nil {
		got.Err = volumes.Usable(a.pod, a.volume, claim)
	}
	if got.Err != nil {
		a.over(now, got.Err, out)
		return
	}
	target := podapi.Target{Kind: kindOfResource(volumesResource), Name: claim.Spec.VolumeName}
	a.get(now, target, out, func(now time.Time, got Got, out Out) {
		bound, is := got.Object.(*corev1.PersistentVolume)
		if is && got.Err == nil {
			got.Err = volumes.BoundTo(bound, claim)
		}
		if got.Err != nil {
			a.over(now, got.Err, out)
			return
		}
		a.bound(now, bound.Spec.CSI, out)
	})
}

// bound says that the node uses the volume, and asks whether it is attached to it.
func (a attaching) bound(now time.Time, source *corev1.CSIPersistentVolumeSource, out Out) {
	device := storage.DeviceName(source)
	a.devices[a.i] = device
	if reported := a.k.speaker.devices.Add(device, a.pod.UID, a.volume.Name); !reported {
		a.over(now, volumes.ErrUnreported, out)
		return
	}
	a.get(now, a.k.nodeTarget(""), out, func(now time.Time, got Got, out Out) {
		node, _ := got.Object.(*corev1.Node)
		if got.Err == nil {
			got.Err = volumes.Told(node, device)
		}
		if got.Err != nil {
			a.over(now, got.Err, out)
			return
		}
		a.told(now, source, out)
	})
}

// told asks for the attachment of what the node was told that it has.
func (a attaching) told(now time.Time, source *corev1.CSIPersistentVolumeSource, out Out) {
	target := podapi.Target{Kind: kindOfResource(attachmentsResource), Name: storage.AttachmentName(source, a.k.of.node)}
	a.get(now, target, out, func(now time.Time, got Got, out Out) {
		attachment, _ := got.Object.(*storagev1.VolumeAttachment)
		a.over(now, volumes.Attached(attachment, got.Err), out)
	})
}

// over mounts what is attached; what is not is tried again.
func (a attaching) over(now time.Time, err error, out Out) {
	delete(a.asks, a.i)
	if err != nil {
		a.failed(now, a.i, err)
	} else {
		a.begin(now, a.i, out)
	}
	a.k.timers.stop(a.timer, out)
	a.wait(now, out)
}
