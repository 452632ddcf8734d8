package statefulset

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Ordinal is the number in a pod's name; -1 when it has none, or its name is of another set.
func Ordinal(pod *corev1.Pod, set *appsv1.StatefulSet) int {
	text, ok := strings.CutPrefix(pod.Name, set.Name+"-")
	if !ok {
		return -1
	}
	number, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return -1
	}
	return int(number)
}

// start is the first ordinal.
func start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

// pod is a new pod of an ordinal: of the current revision as long as a rolling update has not
// come to it (newVersionedStatefulSetPod).
func (r *round) pod(ordinal int) *corev1.Pod {
	revision := r.Update
	if r.needsCurrent(ordinal) {
		revision = r.Current
	}
	pod := workload.NewPod(revision.Template, r.Set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	r.identify(pod, ordinal)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision.Name
	return pod
}

func (r *round) needsCurrent(ordinal int) bool {
	if r.Set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return false
	}
	rolling := r.Set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.Partition == nil {
		return ordinal < start(r.Set)+int(r.Set.Status.CurrentReplicas)
	}
	return ordinal < start(r.Set)+int(*rolling.Partition)
}

// identify gives a pod the names and the volumes of an ordinal.
func (r *round) identify(pod *corev1.Pod, ordinal int) {
	pod.Namespace, pod.Name = r.Set.Namespace, fmt.Sprintf("%s-%d", r.Set.Name, ordinal)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
	pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
	if pod.UID == "" { // of one that exists they cannot be changed
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, r.Set.Spec.ServiceName
	}
	r.mount(pod, ordinal)
}

// fits reports whether a pod has the names and the volumes of its ordinal (identityMatches,
// storageMatches).
func (r *round) fits(pod *corev1.Pod) bool {
	ordinal := Ordinal(pod, r.Set)
	return pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name &&
		pod.Labels[appsv1.PodIndexLabel] == strconv.Itoa(ordinal) && r.mounted(pod, ordinal)
}
