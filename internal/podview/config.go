package podview

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// configPrinter prints the kinds that pods mount.
func configPrinter(gvk schema.GroupVersionKind) (printer, bool) {
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("ConfigMap"):
		return newPrinter(func(v View, m *corev1.ConfigMap) []any {
			return []any{m.Name, int64(len(m.Data) + len(m.BinaryData)), v.objectAge(m)}
		}, nameColumn(), textColumn("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), ageColumn()), true
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		return newPrinter(func(v View, secret *corev1.Secret) []any {
			return []any{secret.Name, string(secret.Type), int64(len(secret.Data)), v.objectAge(secret)}
		}, nameColumn(), textColumn("Type", corev1.Secret{}.SwaggerDoc()["type"]), textColumn("Data", corev1.Secret{}.SwaggerDoc()["data"]), ageColumn()), true
	case corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):
		return newPrinter(
			View.claimCells,
			nameColumn(), textColumn("Status", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["phase"]), textColumn("Volume", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeName"]), textColumn("Capacity", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["capacity"]), textColumn("Access Modes", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["accessModes"]), textColumn("StorageClass", "StorageClass of the pvc"),
			textColumn("VolumeAttributesClass", "VolumeAttributesClass of the pvc"), ageColumn(), wideOnly(textColumn("VolumeMode", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"])),
		), true
	case corev1.SchemeGroupVersion.WithKind("PersistentVolume"):
		return newPrinter(
			View.volumeCells,
			nameColumn(), textColumn("Capacity", corev1.PersistentVolumeSpec{}.SwaggerDoc()["capacity"]), textColumn("Access Modes", corev1.PersistentVolumeSpec{}.SwaggerDoc()["accessModes"]), textColumn("Reclaim Policy", corev1.PersistentVolumeSpec{}.SwaggerDoc()["persistentVolumeReclaimPolicy"]), textColumn("Status", corev1.PersistentVolumeStatus{}.SwaggerDoc()["phase"]), textColumn("Claim", corev1.PersistentVolumeSpec{}.SwaggerDoc()["claimRef"]),
			textColumn("StorageClass", "StorageClass of the pv"), textColumn("VolumeAttributesClass", "VolumeAttributesClass of the pv"), textColumn("Reason", corev1.PersistentVolumeStatus{}.SwaggerDoc()["reason"]), ageColumn(), wideOnly(textColumn("VolumeMode", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeMode"])),
		), true
	default:
		return printer{}, false
	}
}

// unset is printed for a field without a value.
const unset = "<unset>"

func (v View) claimCells(claim *corev1.PersistentVolumeClaim) []any {
	status := string(claim.Status.Phase)
	if claim.DeletionTimestamp != nil {
		status = terminating
	}
	capacity, modes := "", ""
	if claim.Spec.VolumeName != "" {
		size := claim.Status.Capacity[corev1.ResourceStorage]
		capacity, modes = size.String(), accessModes(claim.Status.AccessModes)
	}
	class, annotated := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if !annotated {
		class = valueOr(claim.Spec.StorageClassName, "")
	}
	return []any{
		claim.Name,
		status,
		claim.Spec.VolumeName,
		capacity,
		modes,
		class,
		valueOr(claim.Spec.VolumeAttributesClassName, unset),
		v.objectAge(claim),
		string(valueOr(claim.Spec.VolumeMode, unset)),
	}
}

func (v View) volumeCells(volume *corev1.PersistentVolume) []any {
	status := string(volume.Status.Phase)
	if volume.DeletionTimestamp != nil {
		status = terminating
	}
	claim := ""
	if ref := volume.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	class, annotated := volume.Annotations[corev1.BetaStorageClassAnnotation]
	if !annotated {
		class = volume.Spec.StorageClassName
	}
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	return []any{
		volume.Name,
		size.String(),
		accessModes(volume.Spec.AccessModes),
		string(volume.Spec.PersistentVolumeReclaimPolicy),
		status,
		claim,
		class,
		valueOr(volume.Spec.VolumeAttributesClassName, unset),
		volume.Status.Reason,
		v.objectAge(volume),
		string(valueOr(volume.Spec.VolumeMode, unset)),
	}
}

// accessModes returns the short forms, each once and in this order.
func accessModes(modes []corev1.PersistentVolumeAccessMode) string {
	var short []string
	for _, known := range []struct {
		mode  corev1.PersistentVolumeAccessMode
		short string
	}{
		{corev1.ReadWriteOnce, "RWO"},
		{corev1.ReadOnlyMany, "ROX"},
		{corev1.ReadWriteMany, "RWX"},
		{corev1.ReadWriteOncePod, "RWOP"},
	} {
		if slices.Contains(modes, known.mode) {
			short = append(short, known.short)
		}
	}
	return strings.Join(short, ",")
}
