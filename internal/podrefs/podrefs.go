// Package podrefs lists the objects that a pod's spec refers to. The kubelet has to read them
// before the pod can run, so the apiserver lets that kubelet read them. It is pure.
package podrefs

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The resources that a pod refers to, by API name.
const (
	Secrets         = "secrets"
	ConfigMaps      = "configmaps"
	Claims          = "persistentvolumeclaims"
	ServiceAccounts = "serviceaccounts"
)

// Reference is one object in the pod's namespace.
type Reference struct {
	// Resource is one of the constants of this package.
	Resource string
	Name     string
}

// List returns the objects that the pod refers to, each once, ordered by resource and name.
func List(pod *corev1.Pod) []Reference {
	l := collector{}
	l.add(ServiceAccounts, ServiceAccount(pod))
	for _, secret := range pod.Spec.ImagePullSecrets {
		l.add(Secrets, secret.Name)
	}
	for i := range pod.Spec.Volumes {
		l.addVolume(pod, &pod.Spec.Volumes[i])
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			l.addEnvironment(containers[i].Env, containers[i].EnvFrom)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		l.addEnvironment(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom)
	}
	slices.SortFunc(l.found, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(l.found)
}

// ServiceAccount returns the pod's service account: the namespace's default one if the pod names
// none.
func ServiceAccount(pod *corev1.Pod) string { return cmp.Or(pod.Spec.ServiceAccountName, "default") }

// ClaimName returns the claim of a pod's volume; empty if it has none. The claim of an ephemeral
// volume is named after the pod and the volume.
func ClaimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}

type collector struct{ found []Reference }

func (l *collector) add(resource, name string) {
	if name != "" {
		l.found = append(l.found, Reference{resource, name})
	}
}

func (l *collector) addVolume(pod *corev1.Pod, volume *corev1.Volume) {
	l.add(Claims, ClaimName(pod, volume))
	if volume.Secret != nil {
		l.add(Secrets, volume.Secret.SecretName)
	}
	if volume.ConfigMap != nil {
		l.add(ConfigMaps, volume.ConfigMap.Name)
	}
	if volume.CSI != nil && volume.CSI.NodePublishSecretRef != nil {
		l.add(Secrets, volume.CSI.NodePublishSecretRef.Name)
	}
	if volume.Projected == nil {
		return
	}
	for _, source := range volume.Projected.Sources {
		if source.Secret != nil {
			l.add(Secrets, source.Secret.Name)
		}
		if source.ConfigMap != nil {
			l.add(ConfigMaps, source.ConfigMap.Name)
		}
	}
}

func (l *collector) addEnvironment(env []corev1.EnvVar, from []corev1.EnvFromSource) {
	for _, source := range from {
		if source.SecretRef != nil {
			l.add(Secrets, source.SecretRef.Name)
		}
		if source.ConfigMapRef != nil {
			l.add(ConfigMaps, source.ConfigMapRef.Name)
		}
	}
	for _, variable := range env {
		switch {
		case variable.ValueFrom == nil:
		case variable.ValueFrom.SecretKeyRef != nil:
			l.add(Secrets, variable.ValueFrom.SecretKeyRef.Name)
		case variable.ValueFrom.ConfigMapKeyRef != nil:
			l.add(ConfigMaps, variable.ValueFrom.ConfigMapKeyRef.Name)
		}
	}
}
