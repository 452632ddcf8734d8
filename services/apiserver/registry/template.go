package registry

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/proto/kinds"
)

// defaultTemplates fills in the pod templates of workloads as far as Pods and templates
// have their defaults in common. The workloads' own defaults are not filled in.
func defaultTemplates(obj kinds.Object) {
	if template := PodTemplate(obj); template != nil {
		defaultPodSpec(&template.Spec)
	}
}

// PodTemplate is the template that a workload makes its Pods from; nil for other kinds.
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
