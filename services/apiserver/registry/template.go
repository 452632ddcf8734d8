package registry

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// defaultTemplates sets the defaults that Pods and templates have in common. Each workload sets its
// own defaults.
func defaultTemplates(obj kinds.Object) {
	if template := PodTemplate(obj); template != nil {
		defaultPodSpec(&template.Spec)
	}
}

// PodTemplate returns the template from which a workload creates its Pods; nil for other kinds.
func PodTemplate(obj kinds.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *appsv1.DaemonSet:
		return &o.Spec.Template
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *appsv1.ReplicaSet:
		return &o.Spec.Template
	case *appsv1.StatefulSet:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	case *corev1.PodTemplate:
		return &o.Template
	case *corev1.ReplicationController:
		return o.Spec.Template
	}
	return nil
}

// checkTemplate returns what is wrong with the pod template of any workload.
func (f *findings) checkTemplate(at *field.Path, template *corev1.PodTemplateSpec) {
	f.checkTemplateMeta(at, template)
	c := &podValidator{pod: &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}}
	c.checkSharedSpec(at.Child("spec"))
	f.add(c.errs...)
	if len(template.Spec.EphemeralContainers) > 0 {
		f.forbidden(at.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
	}
}

// checkTemplateMeta checks a template's labels and annotations. Their paths are below the template
// itself, as upstream's are.
func (f *findings) checkTemplateMeta(at *field.Path, template *corev1.PodTemplateSpec) {
	f.add(sortPerField(unversioned.ValidateLabels(template.Labels, at.Child("labels")))...)
	f.add(sortPerField(validation.ValidateAnnotations(template.Annotations, at.Child("annotations")))...)
}

// checkTemplateSelected requires a selector to match the labels of a template.
func (f *findings) checkTemplateSelected(at *field.Path, template *corev1.PodTemplateSpec, selector labels.Selector) {
	if !selector.Matches(labels.Set(template.Labels)) {
		f.invalid(at.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`")
	}
}

// checkRestartAlways requires restartPolicy Always and no active deadline, for Pods that are
// replaced whenever they end.
func (f *findings) checkRestartAlways(at *field.Path, template *corev1.PodTemplateSpec, workload string) {
	if policy := template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		f.add(field.NotSupported(at.Child("spec", "restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		f.forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in "+workload+" is not Supported")
	}
}

// checkSelectorAndTemplate checks the selector and the template of a Deployment or a ReplicaSet.
func (f *findings) checkSelectorAndTemplate(at *field.Path, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec) {
	if selector == nil {
		f.required(at.Child("selector"), "")
	} else {
		f.checkSelector(at.Child("selector"), selector)
		if isEmptySelector(selector) {
			f.invalid(at.Child("selector"), selector, "empty selector is invalid for deployment")
		}
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		f.invalid(at.Child("selector"), selector, "invalid label selector")
		return
	}
	templateAt := at.Child("template")
	if !parsed.Empty() {
		f.checkTemplateSelected(templateAt, template, parsed)
	}
	f.checkTemplate(templateAt, template)
	f.checkRestartAlways(templateAt, template, "ReplicaSet")
}
