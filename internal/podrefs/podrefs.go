// Package podrefs lists the objects that a pod's spec names: what its kubelet has to read
// before the pod can run, and therefore what the apiserver lets that kubelet read. It is
// pure.
package podrefs

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// The resources that a pod refers to, as the API spells them.
const (
	Secrets         = "secrets"
	ConfigMaps      = "configmaps"
	Claims          = "persistentvolumeclaims"
	ServiceAccounts = "serviceaccounts"
)

// Reference is one object in the pod's own namespace.
type Reference struct {
	// Resource is one of the constants of this package.
	Resource string
	Name     string
}

// Of are the objects that the pod refers to, each once, by resource and name.
func Of(pod *corev1.Pod) []Reference {
	l := list{}
	l.add(ServiceAccounts, ServiceAccount(pod))
	for _, secret := range pod.Spec.ImagePullSecrets {
		l.add(Secrets, secret.Name)
	}
	for i := range pod.Spec.Volumes {
		l.volume(pod, &pod.Spec.Volumes[i])
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			l.environment(containers[i].Env, containers[i].EnvFrom)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		l.environment(pod.Spec.EphemeralContainers[i].Env, pod.Spec.EphemeralContainers[i].EnvFrom)
	}
	slices.SortFunc(l.found, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(l.found)
}

// ServiceAccount is the pod's: the namespace's default one if it names none.
func ServiceAccount(pod *corev1.Pod) string { return cmp.Or(pod.Spec.ServiceAccountName, "default") }

// ClaimName is the claim that a volume of the pod stands for, empty when it is none: that
// of an ephemeral volume is called after the pod and the volume.
func ClaimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}

// list is what has been found so far.
type list struct{ found []Reference }

func (l *list) add(resource, name string) {
	if name != "" {
		l.found = append(l.found, Reference{resource, name})
	}
}

func (l *list) volume(pod *corev1.Pod, volume *corev1.Volume) {
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

func (l *list) environment(env []corev1.EnvVar, from []corev1.EnvFromSource) {
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
