package podview

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// configPrinter prints the kinds that pods mount.
func configSheet(gvk schema.GroupVersionKind) (sheet, bool) {
	switch gvk {
	case corev1.SchemeGroupVersion.WithKind("ConfigMap"):
		return sheetOf(func(v View, m *corev1.ConfigMap) []any {
			return []any{m.Name, int64(len(m.Data) + len(m.BinaryData)), v.age(m)}
		}, name(), text("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), age()), true
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		return sheetOf(func(v View, secret *corev1.Secret) []any {
			return []any{secret.Name, string(secret.Type), int64(len(secret.Data)), v.age(secret)}
		}, name(), text("Type", corev1.Secret{}.SwaggerDoc()["type"]), text("Data", corev1.Secret{}.SwaggerDoc()["data"]), age()), true
	case corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):
		return sheetOf(
			View.claim,
			name(), text("Status", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["phase"]), text("Volume", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeName"]), text("Capacity", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["capacity"]), text("Access Modes", corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()["accessModes"]), text("StorageClass", "StorageClass of the pvc"),
			text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"), age(), wide(text("VolumeMode", corev1.PersistentVolumeClaimSpec{}.SwaggerDoc()["volumeMode"])),
		), true
	case corev1.SchemeGroupVersion.WithKind("PersistentVolume"):
		return sheetOf(
			View.volume,
			name(), text("Capacity", corev1.PersistentVolumeSpec{}.SwaggerDoc()["capacity"]), text("Access Modes", corev1.PersistentVolumeSpec{}.SwaggerDoc()["accessModes"]), text("Reclaim Policy", corev1.PersistentVolumeSpec{}.SwaggerDoc()["persistentVolumeReclaimPolicy"]), text("Status", corev1.PersistentVolumeStatus{}.SwaggerDoc()["phase"]), text("Claim", corev1.PersistentVolumeSpec{}.SwaggerDoc()["claimRef"]),
			text("StorageClass", "StorageClass of the pv"), text("VolumeAttributesClass", "VolumeAttributesClass of the pv"), text("Reason", corev1.PersistentVolumeStatus{}.SwaggerDoc()["reason"]), age(), wide(text("VolumeMode", corev1.PersistentVolumeSpec{}.SwaggerDoc()["volumeMode"])),
		), true
	default:
		return sheet{}, false
	}
}

// unset is printed for a field without a value.
const unset = "<unset>"

func (v View) claim(claim *corev1.PersistentVolumeClaim) []any {
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
		class = value(claim.Spec.StorageClassName, "")
	}
	return []any{
		claim.Name,
		status,
		claim.Spec.VolumeName,
		capacity,
		modes,
		class,
		value(claim.Spec.VolumeAttributesClassName, unset),
		v.age(claim),
		string(value(claim.Spec.VolumeMode, unset)),
	}
}

func (v View) volume(volume *corev1.PersistentVolume) []any {
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
		value(volume.Spec.VolumeAttributesClassName, unset),
		volume.Status.Reason,
		v.age(volume),
		string(value(volume.Spec.VolumeMode, unset)),
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
