package registry

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// The subresource ephemeralcontainers adds containers to a Pod that runs, for people who
// look into it. Nothing else of the Pod passes.

// keepAllButEphemeral takes everything but the identity and the ephemeral containers from old.
func keepAllButEphemeral(pod, old *corev1.Pod) {
	wanted := pod.Spec.EphemeralContainers
	keepIdentity(pod, old)
	pod.Spec.EphemeralContainers = wanted
	defaultPodSpec(&pod.Spec)
	if !kinds.Equal(pod.Spec.EphemeralContainers, old.Spec.EphemeralContainers) {
		raiseGeneration(pod, old)
	}
}

// keepIdentity makes pod a copy of old, except for the identity that the client has sent.
func keepIdentity(pod, old *corev1.Pod) {
	named := corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: *old.ObjectMeta.DeepCopy()}
	named.Name, named.Namespace, named.UID, named.ResourceVersion = pod.Name, pod.Namespace, pod.UID, pod.ResourceVersion
	named.Spec, named.Status = *old.Spec.DeepCopy(), *old.Status.DeepCopy()
	*pod = named
}

// raiseGeneration counts a change of the spec, in releases with pod generations.
func raiseGeneration(pod, old *corev1.Pod) {
	if old.Generation > 0 {
		pod.Generation = old.Generation + 1
	}
}

// validateEphemeralUpdate allows ephemeral containers to be added only.
func validateEphemeralUpdate(pod, old *corev1.Pod) field.ErrorList {
	f := &findings{}
	at := field.NewPath("spec", "ephemeralContainers")
	if _, static := old.Annotations[corev1.MirrorPodAnnotationKey]; static {
		f.forbidden(field.NewPath(""), "static pods do not support ephemeral containers")
	}
	for _, was := range old.Spec.EphemeralContainers {
		i := slices.IndexFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == was.Name })
		if i < 0 {
			f.forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name))
			continue
		}
		if now := pod.Spec.EphemeralContainers[i]; !kinds.Equal(was, now) {
			f.forbidden(at, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%v", was.Name, diff.Diff(was, now)))
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		for _, name := range forbiddenForEphemeral(&pod.Spec.EphemeralContainers[i]) {
			f.forbidden(at.Index(i).Child(name), "cannot be set for an Ephemeral Container")
		}
	}
	return f.errs
}

// forbiddenForEphemeral returns the fields that are set and that an ephemeral container may not
// have.
func forbiddenForEphemeral(c *corev1.EphemeralContainer) []string {
	var names []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", c.Lifecycle != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"ports", len(c.Ports) > 0},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"resizePolicy", len(c.ResizePolicy) > 0},
		{"resources", len(c.Resources.Limits) > 0 || len(c.Resources.Requests) > 0 || len(c.Resources.Claims) > 0},
		{"restartPolicy", c.RestartPolicy != nil},
		{"startupProbe", c.StartupProbe != nil},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}
