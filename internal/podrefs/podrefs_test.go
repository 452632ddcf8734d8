package podrefs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podrefs"
)

func secretKey(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: "E", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k",
	}}}
}

func TestOf(t *testing.T) {
	t.Parallel()
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{
		ServiceAccountName: "robot",
		ImagePullSecrets:   []corev1.LocalObjectReference{local("pull")},
		Volumes: []corev1.Volume{
			{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s-volume"}}},
			{Name: "b", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("c-volume")}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
			{Name: "d", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			{Name: "e", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: local("s-projected")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("c-projected")}},
			}}}},
			{Name: "f", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: "s-csi"}}}},
		},
		InitContainers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("s-from")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("c-from")}},
		}}},
		Containers: []corev1.Container{{Env: []corev1.EnvVar{
			secretKey("s-env"), secretKey("s-volume"),
			{Name: "PLAIN", Value: "v"},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local("c-env")}}},
		}}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Env: []corev1.EnvVar{secretKey("s-ephemeral")},
		}}},
	}}
	want := map[string][]string{
		podrefs.Secrets:         {"pull", "s-csi", "s-env", "s-ephemeral", "s-from", "s-projected", "s-volume"},
		podrefs.ConfigMaps:      {"c-env", "c-from", "c-projected", "c-volume"},
		podrefs.Claims:          {"claim", "web-d"},
		podrefs.ServiceAccounts: {"robot"},
	}
	got := map[string][]string{}
	for _, ref := range podrefs.List(pod) {
		got[ref.Resource] = append(got[ref.Resource], ref.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}
