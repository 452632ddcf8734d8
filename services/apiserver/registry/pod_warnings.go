package registry

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podWarnings are sentences for whoever creates a Pod, of upstream's, about what is rarely
// meant.
func podWarnings(pod *corev1.Pod) []string {
	var warnings []string
	say := func(at *field.Path, format string, args ...any) {
		warnings = append(warnings, at.String()+": "+fmt.Sprintf(format, args...))
	}
	if wrong := validation.IsDNS1123Label(pod.Name); len(wrong) > 0 && pod.Name != "" {
		say(field.NewPath("metadata", "name"), "this is used in the Pod's hostname, which can result in surprising "+
			"behavior; a DNS label is recommended: %v", wrong)
	}
	spec := field.NewPath("spec")
	for i := range pod.Spec.InitContainers {
		warnContainer(&pod.Spec.InitContainers[i], spec.Child("initContainers").Index(i), say)
	}
	for i := range pod.Spec.Containers {
		warnContainer(&pod.Spec.Containers[i], spec.Child("containers").Index(i), say)
	}
	seen := map[string]bool{}
	for i, secret := range pod.Spec.ImagePullSecrets {
		at := spec.Child("imagePullSecrets").Index(i).Child("name")
		switch {
		case secret.Name == "":
			say(at, "invalid empty name %q", secret.Name)
		case seen[secret.Name]:
			say(at, "duplicate name %q", secret.Name)
		}
		seen[secret.Name] = true
	}
	return warnings
}

func warnContainer(c *corev1.Container, at *field.Path, say func(*field.Path, string, ...any)) {
	seen := map[string]bool{}
	for i, v := range c.Env {
		if seen[v.Name] {
			say(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		seen[v.Name] = true
	}
}
