package workload

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ToDelete returns the n pods to delete if there are too many. related are all related pods, those
// of siblings too (getPodsToDelete).
func ToDelete(pods, related []*corev1.Pod, n int, now time.Time) []*corev1.Pod {
	if n >= len(pods) {
		return slices.Clone(pods)
	}
	if n <= 0 {
		return nil
	}
	onNode := map[string]int{}
	for _, pod := range related {
		if IsActive(pod) {
			onNode[pod.Spec.NodeName]++
		}
	}
	ranked := slices.Clone(pods)
	slices.SortStableFunc(ranked, func(a, b *corev1.Pod) int { return compareForDeletion(a, b, onNode, now) })
	return ranked[:n]
}

// compareForDeletion is negative if a is deleted before b (ActivePodsWithRanks): unassigned,
// pending, not ready, low deletion cost, many related pods on its node, recently ready, many
// restarts, young.
func compareForDeletion(a, b *corev1.Pod, onNode map[string]int, now time.Time) int {
	return cmp.Or(
		compareBool(a.Spec.NodeName == "", b.Spec.NodeName == ""),
		cmp.Compare(phaseRank(a), phaseRank(b)),
		compareBool(!IsReady(a), !IsReady(b)),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
		compareAge(ReadySince(a), ReadySince(b), a, b, now),
		compareRestarts(a, b),
		compareAge(a.CreationTimestamp.Time, b.CreationTimestamp.Time, a, b, now),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func phaseRank(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodPending:
		return 0
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	case corev1.PodSucceeded, corev1.PodFailed:
	}
	return 0
}

// deletionCost returns the pod's deletion cost; 0 if its annotation is missing or invalid.
func deletionCost(pod *corev1.Pod) int32 {
	text := pod.Annotations[corev1.PodDeletionCost]
	if text == "" || text[0] == '+' || (len(text) > 1 && text[0] == '0') {
		return 0
	}
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// compareAge is negative if a is so much younger that it is deleted first. Ages are compared by
// their order of magnitude, so that the UID decides among pods of about one age.
func compareAge(ta, tb time.Time, a, b *corev1.Pod, now time.Time) int {
	switch {
	case ta.Equal(tb):
		return 0
	case ta.IsZero():
		return -1
	case tb.IsZero():
		return 1
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(ta)), magnitude(now.Sub(tb))), cmp.Compare(a.UID, b.UID))
}

func magnitude(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

// compareRestarts is negative if a has a container with more restarts than any of b; sidecars
// decide between equals.
func compareRestarts(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(maxRestarts(b.Status.ContainerStatuses), maxRestarts(a.Status.ContainerStatuses)),
		cmp.Compare(maxRestarts(b.Status.InitContainerStatuses), maxRestarts(a.Status.InitContainerStatuses)),
	)
}

func maxRestarts(statuses []corev1.ContainerStatus) int32 {
	var most int32
	for _, status := range statuses {
		most = max(most, status.RestartCount)
	}
	return most
}
