package sim

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What an admin does who gives users disks: volumes for one node at a time, which have to be
// attached. A disk and the claim that it is meant for have one name.
const (
	CreateVolume ActionKind = "create volume"
	CreateClaim  ActionKind = "create claim"
)

// diskDriver is the driver that attaches the volumes.
const diskDriver = "disk.example.com"

func volumeFor(called string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: called},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: diskSize(), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: called},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: diskDriver, VolumeHandle: called}},
		},
	}
}

// claimFor is a claim of one disk, or a template when that is not known.
func claimFor(called, disk string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: called},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: diskSize()}, VolumeName: disk,
		},
	}
}

func diskSize() corev1.ResourceList {
	size := make(corev1.ResourceList)
	size[corev1.ResourceStorage] = resource.MustParse("1Gi")
	return size
}

// withDisk is a pod's volume of a claim.
func withDisk(claim string) corev1.Volume {
	return corev1.Volume{Name: diskPrefix, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// templatesFor are the claims of a set's pods.
func templatesFor(shape Shape) []corev1.PersistentVolumeClaim {
	if shape.Disk == "" {
		return nil
	}
	return []corev1.PersistentVolumeClaim{*claimFor(shape.Disk, "")}
}
