package registry

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// warnings are sentences for the client that creates an object: upstream's about unusual values,
// and podfall's about what it does not do.
type warnings []string

func (w *warnings) add(at *field.Path, format string, args ...any) {
	*w = append(*w, at.String()+": "+fmt.Sprintf(format, args...))
}

// processRuntimeClass is the runtime class of pods whose containers are real processes. Only these
// can see the owner of their files.
const processRuntimeClass = "process"

func podWarnings(pod *corev1.Pod) []string {
	var w warnings
	if wrong := validation.IsDNS1123Label(pod.Name); len(wrong) > 0 && pod.Name != "" {
		w.add(field.NewPath("metadata", "name"), "this is used in the Pod's hostname, which can result in surprising "+
			"behavior; a DNS label is recommended: %v", wrong)
	}
	w.addSpec(field.NewPath("spec"), &pod.Spec)
	return w
}

// templateWarnings returns the warnings about the Pods that a workload will create.
func templateWarnings(obj kinds.Object) []string {
	template := PodTemplate(obj)
	if template == nil {
		return nil
	}
	at := field.NewPath("spec", "template")
	switch obj.(type) {
	case *batchv1.CronJob:
		at = field.NewPath("spec", "jobTemplate", "spec", "template")
	case *corev1.PodTemplate:
		at = field.NewPath("template")
	}
	var w warnings
	w.addSpec(at.Child("spec"), &template.Spec)
	return w
}

func (w *warnings) addSpec(at *field.Path, spec *corev1.PodSpec) {
	for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		if now := renamedLabel(key); now != "" {
			w.add(at.Child("nodeSelector").Key(key), "%s", now)
		}
	}
	for i := range spec.InitContainers {
		w.addContainer(at.Child("initContainers").Index(i), &spec.InitContainers[i])
	}
	for i := range spec.Containers {
		w.addContainer(at.Child("containers").Index(i), &spec.Containers[i])
	}
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && *grace < 0 {
		w.add(at.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	if context, class := spec.SecurityContext, spec.RuntimeClassName; context != nil && context.FSGroup != nil && class != nil && *class == processRuntimeClass {
		w.add(at.Child("securityContext", "fsGroup"), "podfall gives volumes to no group: their files keep the owner that they have")
	}
	seen := map[string]bool{}
	for i, secret := range spec.ImagePullSecrets {
		item := at.Child("imagePullSecrets").Index(i).Child("name")
		switch {
		case secret.Name == "":
			w.add(item, "invalid empty name %q", secret.Name)
		case seen[secret.Name]:
			w.add(item, "duplicate name %q", secret.Name)
		}
		seen[secret.Name] = true
	}
}

func (w *warnings) addContainer(at *field.Path, c *corev1.Container) {
	seen := map[string]bool{}
	for i, v := range c.Env {
		if seen[v.Name] {
			w.add(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		seen[v.Name] = true
	}
	for _, list := range []struct {
		name    string
		amounts corev1.ResourceList
	}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if amount := list.amounts[name]; amount.MilliValue()%1000 != 0 {
				w.add(at.Child("resources", list.name).Key(string(name)),
					"fractional byte value %q is invalid, must be an integer", amount.String())
			}
		}
	}
}

// renamedLabel names the successor of a deprecated node label; "" for other labels.
func renamedLabel(key string) string {
	const renamed = "deprecated since v%s; use %q instead"
	switch key {
	case "beta.kubernetes.io/arch":
		return fmt.Sprintf(renamed, "1.14", corev1.LabelArchStable)
	case "beta.kubernetes.io/os":
		return fmt.Sprintf(renamed, "1.14", corev1.LabelOSStable)
	case corev1.LabelFailureDomainBetaRegion:
		return fmt.Sprintf(renamed, "1.17", corev1.LabelTopologyRegion)
	case corev1.LabelFailureDomainBetaZone:
		return fmt.Sprintf(renamed, "1.17", corev1.LabelTopologyZone)
	case corev1.LabelInstanceType:
		return fmt.Sprintf(renamed, "1.17", corev1.LabelInstanceTypeStable)
	}
	return ""
}
