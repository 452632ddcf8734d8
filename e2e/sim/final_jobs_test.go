package sim

import (
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/services/controllers/job"
)

// TestSuspendedForGood has the failed pods of a Job that is never resumed wait for their successors.
func TestSuspendedForGood(t *testing.T) {
	made := Action{At: 10 * time.Second, Kind: CreateJob, Name: "task-1", Count: 3, Grace: new(int64(1)), App: App{Code: codeFails}}
	made.Shape.Job = JobOptions{Indexed: true, PerIndex: new(int32(1))}
	result := runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 9 * time.Minute, FaultsEnd: 7 * time.Minute, Actions: []Action{
		made, {At: time.Minute, Kind: SuspendJob, Name: made.Name},
	}})
	if _, err := Judge(result); err != nil {
		t.Fatal(err)
	}
	if result.Coverage["said to wait for job-keeps-pod"] == 0 {
		t.Errorf("no pod waited: %v", result.Coverage)
	}
}

// TestKeptBy has Jobs that keep a failed pod for its successor, and Jobs that should not.
func TestKeptBy(t *testing.T) {
	perIndex := Action{Kind: CreateJob, Name: "task-1", Count: 5}
	perIndex.Shape.Job = JobOptions{Indexed: true, PerIndex: new(int32(1))}
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
		{"whose completed indexes cannot be read", func(its *batchv1.Job) { its.Status.CompletedIndexes = "1,,2" }, []func(*corev1.Pod){failed}, 0},
		{"whose failed indexes cannot be read", func(its *batchv1.Job) { its.Status.FailedIndexes = new(",") }, []func(*corev1.Pod){failed}, 0},
		{"of which no index has failed", func(its *batchv1.Job) { its.Status.FailedIndexes = new("") }, []func(*corev1.Pod){failed}, 1},
		{"whose other indexes are over", func(its *batchv1.Job) {
			its.Status.CompletedIndexes, its.Status.FailedIndexes = "0-2", new("4")
		}, []func(*corev1.Pod){failed}, 1},
		{"two of an index", nil, []func(*corev1.Pod){failed, failed}, 1},
		{"a pod that is counted", nil, []func(*corev1.Pod){func(pod *corev1.Pod) { failed(pod); pod.Finalizers = nil }}, 0},
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
			pod := podAt(its, "3")
			change(pod)
			pods = append(pods, pod)
		}
		held := podsKeptBy(its, pods)
		if len(held) != c.want || c.want > 0 && !slices.Contains(pods, held[3]) {
			t.Errorf("%s: %d pods are held, want %d", c.name, len(held), c.want)
		}
	}
}

// podAt is a pod of a Job at an index, which is to be counted.
func podAt(its *batchv1.Job, index string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(its, batchv1.SchemeGroupVersion.WithKind("Job"))},
		Finalizers:      []string{job.Finalizer}, Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: index},
	}}
}

// TestKeptOfTwo has a Job keep that of two failed pods of an index which has seen more failures.
func TestKeptOfTwo(t *testing.T) {
	perIndex := Action{Kind: CreateJob, Name: "task-1", Count: 1}
	perIndex.Shape.Job = JobOptions{Indexed: true, PerIndex: new(int32(3))}
	its := jobFor(perIndex)
	its.UID, its.Spec.Suspend = "job", new(true)
	pod := func(failures string) *corev1.Pod {
		one := podAt(its, "0")
		one.Status.Phase, one.Annotations[batchv1.JobIndexFailureCountAnnotation] = corev1.PodFailed, failures
		return one
	}
	for _, c := range []struct {
		failures []string
		want     int
	}{{[]string{"1", "0"}, 0}, {[]string{"0", "1"}, 1}, {[]string{"1", "1"}, 1}} {
		pods := []*corev1.Pod{pod(c.failures[0]), pod(c.failures[1])}
		if held := podsKeptBy(its, pods); len(held) != 1 || held[0] != pods[c.want] {
			t.Errorf("after %v failures: %d pods are held, and not that alone which has seen more", c.failures, len(held))
		}
	}
}

// TestEndsTwice has Jobs whose indexes end once, and Jobs of which one ends both ways.
func TestEndsTwice(t *testing.T) {
	for _, c := range []struct {
		done, lost string
		want       bool
	}{
		{"", "", false},
		{"0-2,5", "", false},
		{"", "1", false},
		{"0-2,5", "3-4,6", false},
		{"0-2,5", "2", true},
		{"1", "0-3", true},
		{"0,4-6", "1,6-7", true},
		{"1", ",", true},
		{"1,", "2", true},
	} {
		its := &batchv1.Job{Status: batchv1.JobStatus{CompletedIndexes: c.done, FailedIndexes: new(c.lost)}}
		if got := hasOverlappingIndexes(its); got != c.want {
			t.Errorf("%q succeeded and %q failed: %v, want %v", c.done, c.lost, got, c.want)
		}
	}
	if hasOverlappingIndexes(&batchv1.Job{Status: batchv1.JobStatus{CompletedIndexes: "0"}}) {
		t.Error("a Job without a limit for each index ends twice")
	}
}

// TestIndexesIn reads texts of indexes, and refuses what no controller should store.
func TestIndexesIn(t *testing.T) {
	for text, want := range map[string]int{"": 0, "0": 1, "1,3-5": 4, ",": -1, "1,,3": -1, "1,": -1, "1-": -1, "x": -1} {
		if got := countIndexes(text); got != want {
			t.Errorf("%q: %d indexes, want %d", text, got, want)
		}
	}
}

// TestDeadlineExceeded has a Job be over by its deadline of ten seconds: when that was decided counts, and
// not when it is said, by a clock that may be another.
func TestDeadlineExceeded(t *testing.T) {
	start := time.Unix(1000, 0)
	says := func(kind batchv1.JobConditionType, after time.Duration) batchv1.JobCondition {
		return batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded, LastTransitionTime: metav1.NewTime(start.Add(after)),
		}
	}
	for name, c := range map[string]struct {
		conditions []batchv1.JobCondition
		want       string
	}{
		"in time":                        {[]batchv1.JobCondition{says(batchv1.JobFailureTarget, 10*time.Second), says(batchv1.JobFailed, 12*time.Second)}, ""},
		"said by a clock that is behind": {[]batchv1.JobCondition{says(batchv1.JobFailureTarget, 10*time.Second), says(batchv1.JobFailed, -time.Hour)}, ""},
		"decided and said at once":       {[]batchv1.JobCondition{says(batchv1.JobFailed, 10*time.Second)}, ""},
		"decided too early":              {[]batchv1.JobCondition{says(batchv1.JobFailureTarget, 9*time.Second), says(batchv1.JobFailed, 12*time.Second)}, "has failed for no reason"},
	} {
		its := &batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: new(int64(10))}, Status: batchv1.JobStatus{StartTime: &metav1.Time{Time: start}, Conditions: c.conditions}}
		if got := failureProblem(its, c.conditions[len(c.conditions)-1]); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
