package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podfall/podfall/services/controllers/workload"
)

// Index returns a pod's completion index; -1 if it has none.
func Index(pod *corev1.Pod) int {
	number, err := strconv.ParseUint(pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 31)
	if err != nil {
		return -1
	}
	return int(number)
}

func (s *planning) completions() int { return int(valueOr(s.Job.Spec.Completions, 1)) }

// indexes is a set of completion indexes.
type indexes map[int]bool

// parseIndexes reads "1,3-5,7". It skips unreadable parts and indexes that are not below limit.
func parseIndexes(text string, limit int) indexes {
	found := indexes{}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			continue
		}
		to := from
		if isRange {
			if to, err = strconv.Atoi(last); err != nil {
				continue
			}
		}
		for i := from; i <= to && i < limit; i++ {
			found[i] = true
		}
	}
	return found
}

// String returns the indexes as in a status: "1,3-5,7".
func (ix indexes) String() string {
	var parts []string
	sorted := slices.Sorted(maps.Keys(ix))
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		switch j {
		case i:
			parts = append(parts, strconv.Itoa(sorted[i]))
		case i + 1:
			parts = append(parts, strconv.Itoa(sorted[i]), strconv.Itoa(sorted[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// pendingIndexes returns the first n indexes that are neither done nor failed nor running
// (firstPendingIndexes).
func (s *planning) pendingIndexes(n int) []int {
	busy := indexes{}
	for _, pod := range s.active {
		busy[Index(pod)] = true
	}
	if s.replacesFailedOnly() {
		for _, pod := range s.Pods {
			if workload.IsTerminating(pod) {
				busy[Index(pod)] = true
			}
		}
	}
	var first []int
	for i := 0; i < s.completions() && len(first) < n; i++ {
		if !s.doneIndexes[i] && !busy[i] && !s.failedIndexes[i] {
			first = append(first, i)
		}
	}
	return first
}

// splitDuplicates separates pods with a duplicate or invalid index from the others. Of the pods of
// one index it keeps the one that would be deleted last (appendDuplicatedIndexPodsForRemoval).
func (s *planning) splitDuplicates(pods []*corev1.Pod) (extra, rest []*corev1.Pod) {
	byIndex := map[int][]*corev1.Pod{}
	for _, pod := range pods {
		byIndex[Index(pod)] = append(byIndex[Index(pod)], pod)
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		same := byIndex[index]
		if index < 0 || index >= s.completions() {
			extra = append(extra, same...)
			continue
		}
		gone := workload.ToDelete(same, same, len(same)-1, s.now)
		extra = append(extra, gone...)
		for _, pod := range same {
			if !slices.Contains(gone, pod) {
				rest = append(rest, pod)
			}
		}
	}
	return extra, rest
}

// newPod returns a new pod, with an index unless that is negative.
func (s *planning) newPod(index int) *corev1.Pod {
	pod := workload.NewPod(&s.Job.Spec.Template, s.Job, batchv1.SchemeGroupVersion.WithKind("Job"))
	if !IsTracked(pod) {
		pod.Finalizers = append(pod.Finalizers, Finalizer)
	}
	if index < 0 {
		return pod
	}
	text := strconv.Itoa(index)
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Annotations[batchv1.JobCompletionIndexAnnotation] = text
	pod.Labels[batchv1.JobCompletionIndexAnnotation] = text
	if s.isPerIndex() {
		s.copyFailures(pod, index)
	}
	pod.Spec.Hostname = s.Job.Name + "-" + text
	pod.GenerateName = workload.NamePrefix(s.Job.Name + "-" + text)
	source := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']",
	}}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if !slices.ContainsFunc(containers[i].Env, func(env corev1.EnvVar) bool { return env.Name == "JOB_COMPLETION_INDEX" }) {
				containers[i].Env = append(containers[i].Env, corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", ValueFrom: source})
			}
		}
	}
	return pod
}
