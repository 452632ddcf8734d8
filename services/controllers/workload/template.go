package workload

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// NewPod returns a pod from a template, owned by an object of kind gvk (GetPodFromTemplate). The
// apiserver generates its name.
func NewPod(template *corev1.PodTemplateSpec, owner metav1.Object, gvk schema.GroupVersionKind) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), GenerateName: NamePrefix(owner.GetName()),
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, gvk)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

// NamePrefix returns the prefix of the names of an owner's pods: its name and a dash, or without
// the dash if that would be an invalid name.
func NamePrefix(name string) string {
	if prefix := name + "-"; len(apivalidation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return name
}

// TemplateHash returns the pod-template-hash of a template (ComputeHash). collisions is how often
// earlier hashes were taken; nil means never.
func TemplateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%v", dump.ForHash(*template))
	if collisions != nil {
		_, _ = sum.Write(binary.LittleEndian.AppendUint32(make([]byte, 0, 8), uint32(*collisions))[:8])
	}
	return rand.SafeEncodeString(fmt.Sprint(sum.Sum32()))
}
