package sim

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSuspendedForGood has the failed pods of a Job that is never resumed wait for their successors.
func TestSuspendedForGood(t *testing.T) {
	made := Deed{At: 10 * time.Second, Do: CreateJob, Name: "task-1", Count: 3, Grace: new(int64(1)), App: App{Code: codeFails}}
	made.Shape.Task = Task{Indexed: true, PerIndex: new(int32(1))}
	lived := liveIn(t, Script{Written: true, Nodes: 1, Lasts: 9 * time.Minute, Calm: 7 * time.Minute, Deeds: []Deed{
		made, {At: time.Minute, Do: SuspendJob, Name: made.Name},
	}})
	if _, err := Judge(lived); err != nil {
		t.Fatal(err)
	}
	if lived.Met["said to wait for job-controller-down"] == 0 {
		t.Errorf("no pod waited: %v", lived.Met)
	}
}

// TestKeptBy has Jobs that keep a failed pod for its successor, and Jobs that should not.
func TestKeptBy(t *testing.T) {
	perIndex := Deed{Do: CreateJob, Name: "task-1", Count: 5}
	perIndex.Shape.Task = Task{Indexed: true, PerIndex: new(int32(1))}
	failed := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	at := func(index string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index }
	}
	for _, c := range []struct {
		name string
		job  func(*batchv1.Job)
		pods []func(*corev1.Pod)
		want int
	}{
		{"suspended", nil, []func(*corev1.Pod){failed}, 1},
		{"that is to go on", func(its *batchv1.Job) { its.Spec.Suspend = new(false) }, []func(*corev1.Pod){failed}, 0},
		{"without a limit for each index", func(its *batchv1.Job) { its.Spec.BackoffLimitPerIndex = nil }, []func(*corev1.Pod){failed}, 0},
		{"that is being deleted", func(its *batchv1.Job) { its.DeletionTimestamp = new(metav1.Now()) }, []func(*corev1.Pod){failed}, 0},
		{"that is over", func(its *batchv1.Job) {
			its.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		}, []func(*corev1.Pod){failed}, 0},
		{"whose index is done", func(its *batchv1.Job) { its.Status.CompletedIndexes = "0,2-4" }, []func(*corev1.Pod){failed}, 0},
		{"whose index has failed", func(its *batchv1.Job) { its.Status.FailedIndexes = new("3") }, []func(*corev1.Pod){failed}, 0},
		{"whose other indexes are over", func(its *batchv1.Job) {
			its.Status.CompletedIndexes, its.Status.FailedIndexes = "0-2", new("4")
		}, []func(*corev1.Pod){failed}, 1},
		{"two of an index", nil, []func(*corev1.Pod){failed, failed}, 1},
		{"a pod that ends", nil, []func(*corev1.Pod){func(*corev1.Pod) {}}, 0},
		{"a pod of no index", nil, []func(*corev1.Pod){func(pod *corev1.Pod) { failed(pod); at("")(pod) }}, 0},
		{"a pod of an index that there is not", nil, []func(*corev1.Pod){func(pod *corev1.Pod) { failed(pod); at("5")(pod) }}, 0},
		{"a pod of another", nil, []func(*corev1.Pod){func(pod *corev1.Pod) { failed(pod); pod.OwnerReferences = nil }}, 0},
	} {
		its := jobFor(perIndex)
		its.UID, its.Spec.Suspend = "job", new(true)
		if c.job != nil {
			c.job(its)
		}
		var pods []*corev1.Pod
		for _, change := range c.pods {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(its, batchv1.SchemeGroupVersion.WithKind("Job"))}, Annotations: map[string]string{},
			}}
			at("3")(pod)
			change(pod)
			pods = append(pods, pod)
		}
		held := keptBy(its, pods)
		if len(held) != c.want || c.want > 0 && !slices.Contains(pods, held[3]) {
			t.Errorf("%s: %d pods are held, want %d", c.name, len(held), c.want)
		}
	}
}
