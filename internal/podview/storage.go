package podview

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podfall/podfall/internal/storage"
)

// storagePrinter prints storage classes, CSI nodes and volume attachments.
func storagePrinter(gvk schema.GroupVersionKind) (printer, bool) {
	if gvk.GroupVersion() != storagev1.SchemeGroupVersion {
		return printer{}, false
	}
	switch gvk.Kind {
	case "StorageClass":
		docs := storagev1.StorageClass{}.SwaggerDoc()
		return newPrinter(
			View.storageClassCells,
			nameColumn(), textColumn("Provisioner", docs["provisioner"]), textColumn("ReclaimPolicy", docs["reclaimPolicy"]),
			textColumn("VolumeBindingMode", docs["volumeBindingMode"]), textColumn("AllowVolumeExpansion", docs["allowVolumeExpansion"]), ageColumn(),
		), true
	case "CSINode":
		return newPrinter(func(v View, node *storagev1.CSINode) []any {
			return []any{node.Name, int64(len(node.Spec.Drivers)), v.objectAge(node)}
		}, nameColumn(), numberColumn("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), ageColumn()), true
	case "VolumeAttachment":
		docs := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
		return newPrinter(
			func(v View, a *storagev1.VolumeAttachment) []any {
				return []any{
					a.Name, a.Spec.Attacher, valueOr(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, v.objectAge(a),
				}
			},
			nameColumn(), textColumn("Attacher", docs["attacher"]),
			textColumn("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]), textColumn("Node", docs["nodeName"]),
			boolColumn("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]), ageColumn(),
		), true
	}
	return printer{}, false
}

func (v View) storageClassCells(class *storagev1.StorageClass) []any {
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
	return []any{title, class.Provisioner, reclaim, binding, valueOr(class.AllowVolumeExpansion, false), v.objectAge(class)}
}

// formatDate formats a time for a column of type "date".
func formatDate(t time.Time) string { return t.UTC().Format(time.RFC3339) }
