package store

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/internal/history"
	"github.com/podfall/podfall/proto/kinds"
)

// TestDisks has the history tell of volumes that have to be attached.
func TestDisks(t *testing.T) {
	pv := func(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{}
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
		return v
	}
	attachment := &storagev1.VolumeAttachment{}
	attachment.Spec.NodeName, attachment.Spec.Source.PersistentVolumeName, attachment.Status.Attached = "n1", new("v"), true
	node := &corev1.Node{}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoSchedule}}
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/d^h"}
	for what, c := range map[string]struct {
		object kinds.Object
		want   history.Attachments
	}{
		"of one node":   {pv(corev1.ReadWriteOncePod), history.Attachments{Device: "kubernetes.io/csi/d^h"}},
		"of many":       {pv(corev1.ReadOnlyMany), history.Attachments{Device: "kubernetes.io/csi/d^h", Shared: true}},
		"not attached":  {&corev1.PersistentVolume{}, history.Attachments{}},
		"an attachment": {attachment, history.Attachments{Volume: "v", Host: "n1", Attached: true}},
		"a node":        {node, history.Attachments{InUse: []string{"kubernetes.io/csi/d^h"}, OutOfService: true}},
	} {
		if got := contentOf(c.object).Attachments; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
}
