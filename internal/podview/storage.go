package podview

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/storage"
)

// storagePrinter prints storage classes, CSI nodes and volume attachments.
func storageSheet(gvk schema.GroupVersionKind) (sheet, bool) {
	if gvk.GroupVersion() != storagev1.SchemeGroupVersion {
		return sheet{}, false
	}
	switch gvk.Kind {
	case "StorageClass":
		docs := storagev1.StorageClass{}.SwaggerDoc()
		return sheetOf(
			View.storageClass,
			name(), text("Provisioner", docs["provisioner"]), text("ReclaimPolicy", docs["reclaimPolicy"]),
			text("VolumeBindingMode", docs["volumeBindingMode"]), text("AllowVolumeExpansion", docs["allowVolumeExpansion"]), age(),
		), true
	case "CSINode":
		return sheetOf(func(v View, node *storagev1.CSINode) []any {
			return []any{node.Name, int64(len(node.Spec.Drivers)), v.age(node)}
		}, name(), number("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), age()), true
	case "VolumeAttachment":
		docs := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
		return sheetOf(
			func(v View, a *storagev1.VolumeAttachment) []any {
				return []any{
					a.Name, a.Spec.Attacher, value(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, v.age(a),
				}
			},
			name(), text("Attacher", docs["attacher"]),
			text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]), text("Node", docs["nodeName"]),
			yesNo("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]), age(),
		), true
	}
	return sheet{}, false
}

func (v View) storageClass(class *storagev1.StorageClass) []any {
	title := class.Name
	if class.Annotations[storage.DefaultAnnotation] == "true" || class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
		title += " (default)"
	}
	reclaim, binding := "Delete", "Immediate"
	if class.ReclaimPolicy != nil {
		reclaim = string(*class.ReclaimPolicy)
	}
	if class.VolumeBindingMode != nil {
		binding = string(*class.VolumeBindingMode)
	}
	return []any{title, class.Provisioner, reclaim, binding, value(class.AllowVolumeExpansion, false), v.age(class)}
}

// formatDate formats a time for a column of type "date".
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
