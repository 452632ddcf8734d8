package admission

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// enforcesSecrets is the annotation of an account whose pods may use its own secrets only.
const enforcesSecrets = "kubernetes.io/enforce-mountable-secrets"

var (
	errMirrorAccount = errors.New("a mirror pod may not reference service accounts")
	errMirrorSecret  = errors.New("a mirror pod may not reference secrets")
	errMirrorToken   = errors.New("a mirror pod may not use ServiceAccountToken volume projections")
)

// applyServiceAccount gives a new pod the pull secrets of its account (upstream's admission plugin
// ServiceAccount, without the volume of a token).
func applyServiceAccount(namespace string, pod *corev1.Pod, classes Classes) error {
	if isMirror(pod) {
		return nil
	}
	account, err := accountOf(namespace, pod, classes)
	if err != nil {
		return err
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	return nil
}

// checkServiceAccount refuses a pod whose account is not there, or does not allow its secrets.
func checkServiceAccount(namespace string, pod *corev1.Pod, classes Classes) error {
	if isMirror(pod) {
		return checkMirror(pod)
	}
	account, err := accountOf(namespace, pod, classes)
	if err != nil {
		return err
	}
	if enforces, _ := strconv.ParseBool(account.Annotations[enforcesSecrets]); !enforces {
		return nil
	}
	return checkSecrets(account, pod)
}

func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

// accountOf returns the account that the pod runs as.
func accountOf(namespace string, pod *corev1.Pod, classes Classes) (*corev1.ServiceAccount, error) {
	name := pod.Spec.ServiceAccountName
	account := classes.ServiceAccount(namespace, name)
	if account == nil {
		missing := apierrors.NewNotFound(corev1.Resource("serviceaccount"), name)
		return nil, fmt.Errorf("error looking up service account %s/%s: %w", namespace, name, missing)
	}
	return account, nil
}

// checkMirror refuses a mirror pod that would get secrets by its node's word.
func checkMirror(pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return errMirrorAccount
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return errMirrorSecret
	}
	for _, use := range secretUses(pod) {
		if use.secret != "" {
			return errMirrorSecret
		}
	}
	for _, volume := range pod.Spec.Volumes {
		switch projected := volume.Projected; {
		case volume.Secret != nil:
			return errMirrorSecret
		case projected == nil:
		case slices.ContainsFunc(projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil }):
			return errMirrorSecret
		case slices.ContainsFunc(projected.Sources, func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }):
			return errMirrorToken
		}
	}
	return nil
}

// secretUse is a secret in a container's environment, and how a refusal names the place.
type secretUse struct{ place, secret string }

func secretUses(pod *corev1.Pod) []secretUse {
	var uses []secretUse
	add := func(word string, containers []corev1.Container) {
		for _, c := range containers {
			for _, env := range c.Env {
				if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
					uses = append(uses, secretUse{fmt.Sprintf("%s %s with envVar %s", word, c.Name, env.Name), env.ValueFrom.SecretKeyRef.Name})
				}
			}
			for _, from := range c.EnvFrom {
				if from.SecretRef != nil {
					uses = append(uses, secretUse{fmt.Sprintf("%s %s with envFrom", word, c.Name), from.SecretRef.Name})
				}
			}
		}
	}
	add("init container", pod.Spec.InitContainers)
	add("container", pod.Spec.Containers)
	return uses
}

// checkSecrets refuses secrets that the account does not name (limitSecretReferences).
func checkSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	mountable := func(name string) bool {
		return slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == name })
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil && !mountable(volume.Secret.SecretName) {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", volume.Secret.SecretName, account.Name)
		}
	}
	for _, use := range secretUses(pod) {
		if !mountable(use.secret) {
			return fmt.Errorf("%s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret", use.place, use.secret, account.Name)
		}
	}
	for i, pull := range pod.Spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, pull) {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not reference that imagePullSecret", i, pull.Name, account.Name)
		}
	}
	return nil
}
