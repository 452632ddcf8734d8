package podworker

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var (
	errRunAsUser = errors.New("container's runAsUser breaks non-root policy")
	errImageUser = errors.New("container has runAsNonRoot and image will run as root")
)

// verifyRunAsNonRoot refuses a container that must not run as root and would (upstream's function of
// the same name). Nobody reads images here: one that is not known to have a user of its own runs as
// root.
func verifyRunAsNonRoot(pod *corev1.Pod, spec *corev1.Container) error {
	own, common := spec.SecurityContext, pod.Spec.SecurityContext
	var must *bool
	var user *int64
	if common != nil {
		must, user = common.RunAsNonRoot, common.RunAsUser
	}
	if own != nil && own.RunAsNonRoot != nil {
		must = own.RunAsNonRoot
	}
	if own != nil && own.RunAsUser != nil {
		user = own.RunAsUser
	}
	about := fmt.Sprintf("(pod: \"%s_%s(%s)\", container: %s)", pod.Name, pod.Namespace, pod.UID, spec.Name)
	switch {
	case must == nil || !*must, user != nil && *user != 0:
		return nil
	case user != nil:
		return fmt.Errorf("%w %s", errRunAsUser, about)
	case hasUser(spec.Image):
		return nil
	}
	return fmt.Errorf("%w %s", errImageUser, about)
}

// hasUser reports whether an image is known to have a user that is not root: by the tags of distroless
// images, and by the Dockerfiles of cert-manager, whose own manifests rely on it.
func hasUser(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	tag := name[strings.LastIndexByte(name, '/')+1:]
	_, tag, _ = strings.Cut(tag, ":")
	return strings.Contains(tag, "nonroot") || strings.HasPrefix(image, "quay.io/jetstack/cert-manager-")
}
