package job

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// job is a Job of n completions, of which m may run at once; -1 leaves one out.
func job(completions, parallelism int, edits ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sum", UID: "job"}}
	if completions >= 0 {
		j.Spec.Completions = new(int32(completions))
	}
	if parallelism >= 0 {
		j.Spec.Parallelism = new(int32(parallelism))
	}
	j.Status.StartTime = new(metav1.NewTime(now.Add(-time.Minute)))
	for _, edit := range edits {
		edit(j)
	}
	return j
}

func indexed(j *batchv1.Job)   { j.Spec.CompletionMode = new(batchv1.IndexedCompletion) }
func suspended(j *batchv1.Job) { j.Spec.Suspend = new(true) }
func deleted(j *batchv1.Job)   { j.DeletionTimestamp = &metav1.Time{Time: now} }
func limit(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n }
}

func deadline(n int64) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &n }
}
func failedOnly(j *batchv1.Job) { j.Spec.PodReplacementPolicy = new(batchv1.Failed) }
func counted(succeeded, failed int32, completed string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Succeeded, j.Status.Failed, j.Status.CompletedIndexes = succeeded, failed, completed
	}
}

func rule(action batchv1.PodFailurePolicyAction, codes ...int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		if j.Spec.PodFailurePolicy == nil {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{}
		}
		r := batchv1.PodFailurePolicyRule{Action: action}
		if len(codes) > 0 {
			r.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes}
		} else {
			r.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}
		j.Spec.PodFailurePolicy.Rules = append(j.Spec.PodFailurePolicy.Rules, r)
	}
}

// perIndex is an Indexed Job whose indexes may fail n times more each.
func perIndex(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		indexed(j)
		j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit = &n, new(int32(math.MaxInt32))
		j.Spec.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
	}
}

func lostAtMost(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.MaxFailedIndexes = &n }
}

func lostFirst(j *batchv1.Job) { j.Status.FailedIndexes = new("0") }

// success is an Indexed Job with one more rule of a successPolicy: how many of which indexes;
// of all if those are none, and all of them if the number is 0.
func success(count int32, which string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		indexed(j)
		if j.Spec.SuccessPolicy == nil {
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{}
		}
		rule := batchv1.SuccessPolicyRule{}
		if count > 0 {
			rule.SucceededCount = &count
		}
		if which != "" {
			rule.SucceededIndexes = &which
		}
		j.Spec.SuccessPolicy.Rules = append(j.Spec.SuccessPolicy.Rules, rule)
	}
}

// pods reads "running pending succeeded:3 failed:x=42": phases, and after the colon an index
// and what else is special, by commas.
func pods(text string) []*corev1.Pod {
	var all []*corev1.Pod
	for i, word := range strings.Fields(text) {
		phase, special, _ := strings.Cut(word, ":")
		name := fmt.Sprintf("%c", 'a'+i)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Finalizers: []string{Finalizer}, Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(now.Add(time.Duration(i-100) * time.Hour)),
		}}
		p.Status.Phase = corev1.PodPhase(strings.ToUpper(phase[:1]) + phase[1:])
		for what := range strings.SplitSeq(special, ",") {
			switch {
			case what == "":
			case what == "going":
				p.DeletionTimestamp = &metav1.Time{Time: now}
			case what == "freed":
				p.Finalizers = nil
			case what == "long-ago":
				p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(now.Add(-time.Hour))
			case what == "disrupted":
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
			case strings.HasPrefix(what, "x="):
				var code int32
				_, _ = fmt.Sscan(what[2:], &code)
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(now.Add(-time.Second))},
				}}}
			case strings.HasPrefix(what, "n="): // failures before, at its index
				p.Annotations[batchv1.JobIndexFailureCountAnnotation] = what[2:]
			case strings.HasPrefix(what, "r="):
				var count int32
				_, _ = fmt.Sscan(what[2:], &count)
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: count}}
			default:
				p.Annotations[batchv1.JobCompletionIndexAnnotation] = what
			}
		}
		all = append(all, p)
	}
	return all
}

// done is what a plan does, and what its status says once all pods were let go of.
func done(plan Plan) string {
	var words []string
	for _, pod := range plan.Create {
		word := "+"
		if index := Index(pod); index >= 0 {
			word += fmt.Sprint(index)
		}
		if failures := IndexFailures(pod); failures > 0 {
			word += fmt.Sprintf("(%d)", failures)
		}
		words = append(words, word)
	}
	for _, pod := range plan.Delete {
		words = append(words, "-"+pod.Name)
	}
	if len(plan.Free) > 0 {
		word := "free "
		for _, pod := range plan.Free {
			word += pod.Name
		}
		words = append(words, word)
	}
	status, event := StatusAfterFreeing(plan, plan.Free, now)
	words = append(words, fmt.Sprintf("%d/%d/%d", status.Active, status.Succeeded, status.Failed))
	if status.CompletedIndexes != "" {
		words = append(words, "["+status.CompletedIndexes+"]")
	}
	if status.FailedIndexes != nil {
		words = append(words, "lost ["+*status.FailedIndexes+"]")
	}
	if plan.Target != nil {
		words = append(words, plan.Target.Reason)
	}
	if event.Reason != "" {
		words = append(words, "over")
	}
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		pods string
		want string // creations, deletions, who is let go of, active/succeeded/failed
	}{
		{"one when nothing is said", job(-1, -1), "", "+ 1/0/0"},
		{"as many as may run", job(5, 2), "", "+ + 2/0/0"},
		{"no more than are needed", job(5, 4, counted(3, 0, "")), "", "+ + 2/3/0"},
		{"running", job(5, 2), "running pending", "2/0/0"},
		{"too many", job(5, 1), "running pending", "-b 1/0/0"},
		{"one has succeeded", job(3, 2), "succeeded running", "+ free a 2/1/0"},
		{"the last has", job(2, 2, counted(1, 0, "")), "succeeded", "free a 0/2/0 CompletionsReached over"},
		{"while another runs, it goes", job(1, 2), "succeeded running", "-b free a 0/1/0"},
		{"not over while one terminates", job(1, 2), "succeeded running:going", "free ab 0/1/1 CompletionsReached"},
		{"one that was counted", job(3, 3, counted(1, 0, "")), "succeeded:freed running", "+ 2/1/0"},
		{"one that failed is replaced after a pause", job(1, 1), "failed", "free a 0/0/1"},
		{"one that is deleted is replaced, and has failed", job(1, 1), "running:going", "free a 0/0/1"},
		{"a replacement for failed ones only waits", job(1, 1, failedOnly), "running:going", "0/0/0"},
		{"but one that never ran has failed", job(1, 1, failedOnly), "pending:going", "free a 0/0/1"},
		{"too many failures", job(1, 1, limit(0)), "failed", "free a 0/0/1 BackoffLimitExceeded over"},
		{"the others go with it", job(3, 3, limit(1), counted(0, 1, "")), "failed running running", "-b -c free abc 0/0/4 BackoffLimitExceeded"},
		{"restarts in place", job(1, 1, limit(3), func(j *batchv1.Job) { j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }), "running:r=3", "-a free a 0/0/1 BackoffLimitExceeded"},
		{"too slow", job(1, 1, deadline(60)), "running", "-a free a 0/0/1 DeadlineExceeded"},
		{"suspended", job(2, 2, suspended), "running running", "-a -b 0/0/0"},
		{"suspended, with none", job(2, 2, suspended), "", "0/0/0"},
		{"a work queue", job(-1, 3), "running", "+ + 3/0/0"},
		{"one has emptied it", job(-1, 3), "succeeded running", "free a 1/1/0"},
		{"and the last one ends", job(-1, 3, counted(1, 0, "")), "failed", "free a 0/1/1 CompletionsReached over"},
		{"a Job that is deleted lets go", job(2, 2, deleted), "running", "free a 1/0/0"},
		{"none to do", job(0, 1), "", "0/0/0 CompletionsReached over"},
		// Indexed.
		{"each index once", job(3, 2, indexed), "", "+0 +1 2/0/0"},
		{"the first that is not done", job(4, 2, indexed, counted(1, 0, "0")), "running:1", "+2 2/1/0 [0]"},
		{"one is done", job(3, 1, indexed), "succeeded:1", "+0 free a 1/1/0 [1]"},
		{"done twice counts once", job(3, 1, indexed, counted(1, 0, "1")), "succeeded:1", "+0 free a 1/1/0 [1]"},
		{"two of one index", job(3, 3, indexed), "running:0 running:0 running:1", "-a 2/0/0"},
		{"an index that is not there", job(2, 2, indexed), "running:5 running:0", "-a 1/0/0"},
		{"all are done", job(5, 5, indexed, counted(4, 0, "0-3")), "succeeded:4", "free a 0/5/0 [0-4] CompletionsReached over"},
		// Policies.
		{"an exit code that fails the Job", job(2, 2, rule(batchv1.PodFailurePolicyActionFailJob, 42)), "failed:x=42 running", "-b free ab 0/0/2 PodFailurePolicy"},
		{"another", job(1, 1, rule(batchv1.PodFailurePolicyActionFailJob, 42)), "failed:x=1", "free a 0/0/1"},
		{"a disruption does not count", job(1, 1, limit(0), rule(batchv1.PodFailurePolicyActionIgnore)), "failed:disrupted", "free a 0/0/0"},
		{"the first rule decides", job(1, 1, limit(0), rule(batchv1.PodFailurePolicyActionIgnore, 7), rule(batchv1.PodFailurePolicyActionFailJob, 7)), "failed:x=7", "free a 0/0/0"},
		{"an exit code at an index that is not there", job(2, 2, indexed), "failed:7,x=1 running:0 running:1", "free a 2/0/0"},
		// Failures by the index.
		{"a failed one is held back for its pause", job(2, 2, perIndex(1)), "failed:0,x=1 running:1", "1/0/0 lost []"},
		{"then it has a successor, which knows", job(2, 2, perIndex(3)), "failed:0,n=1,x=1,long-ago running:1", "+0(2) 2/0/0 lost []"},
		{"and is let go of", job(2, 2, perIndex(3)), "failed:0,x=1,long-ago running:1 running:0,n=1", "free a 2/0/1 lost []"},
		{"it waits until the Job goes on", job(2, 2, perIndex(3), suspended), "failed:0,x=1,long-ago", "0/0/0 lost []"},
		{"one index waits, another does not", job(3, 3, perIndex(3)), "failed:0,n=2,x=1 running:1", "+2 2/0/0 lost []"},
		{"an index that fails too often", job(2, 2, perIndex(1)), "failed:0,n=1,x=1 running:1", "free a 1/0/1 lost [0]"},
		{"is not tried again", job(3, 3, perIndex(1), lostFirst), "running:1", "+2 2/0/0 lost [0]"},
		{"the others end", job(2, 2, perIndex(0), lostFirst, counted(0, 1, "")), "succeeded:1", "free a 0/1/1 [1] lost [0] FailedIndexes over"},
		{"all are lost", job(2, 2, perIndex(0)), "failed:0 failed:1", "free ab 0/0/2 lost [0,1] FailedIndexes over"},
		{"too many indexes are lost", job(4, 4, perIndex(0), lostAtMost(1), lostFirst), "failed:1 running:2 running:3", "-b -c free abc 0/0/3 lost [0,1] MaxFailedIndexesExceeded"},
		{"as many as may be", job(4, 4, perIndex(0), lostAtMost(2), lostFirst), "failed:1 running:2 running:3", "free a 2/0/1 lost [0,1]"},
		{"done, and another pod of it fails", job(2, 1, perIndex(0), counted(1, 0, "0")), "failed:0", "+1 free a 1/1/1 [0] lost []"},
		{"done, while another pod of it goes", job(2, 1, perIndex(0)), "succeeded:0 running:0,going", "+1 free ab 1/1/1 [0] lost []"},
		{"lost, and another pod of it succeeds", job(2, 1, perIndex(0), lostFirst), "succeeded:0", "+1 free a 1/0/0 lost [0]"},
		{"done and lost in a status from before", job(2, 1, perIndex(0), counted(1, 1, "0"), lostFirst), "", "+1 1/1/1 [0] lost []"},
		{"an exit code that fails the index", job(2, 2, perIndex(6), rule(batchv1.PodFailurePolicyActionFailIndex, 42)), "failed:0,x=42 running:1", "free a 1/0/1 lost [0]"},
		{"an ignored one does not count for the index", job(2, 2, perIndex(0), rule(batchv1.PodFailurePolicyActionIgnore, 7)), "failed:0,x=7,long-ago running:1", "+0(1) 2/0/0 lost []"},
		// Success by the rule.
		{"enough of all", job(4, 4, success(2, "")), "succeeded:0 succeeded:3 running:1 running:2", "-c -d free abcd 0/2/0 [0,3] SuccessPolicy"},
		{"not yet enough", job(4, 4, success(3, "")), "succeeded:0 succeeded:3 running:1 running:2", "free ab 2/2/0 [0,3]"},
		{"all of those", job(4, 2, success(0, "0,2-3"), counted(2, 0, "2,3")), "succeeded:0 running:1", "-b free ab 0/3/0 [0,2,3] SuccessPolicy"},
		{"not all of those", job(4, 2, success(0, "0,2-3"), counted(1, 0, "2")), "succeeded:0 running:1", "+3 free a 2/2/0 [0,2]"},
		{"enough of those", job(4, 2, success(1, "2-3"), counted(1, 0, "0")), "succeeded:2 running:1", "-b free ab 0/2/0 [0,2] SuccessPolicy"},
		{"the second rule", job(4, 2, success(4, ""), success(0, "1")), "succeeded:1 running:0", "-b free ab 0/1/0 [1] SuccessPolicy"},
		{"too many failures come first", job(2, 2, success(1, ""), limit(0)), "succeeded:1 failed:0", "free ab 0/1/1 [1] BackoffLimitExceeded over"},
	} {
		plan := Decide(View{Job: c.job, Pods: pods(c.pods)}, now)
		if got := done(plan); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestPause has a Job wait after failures, longer after each.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		failures Failures
		pods     string
		again    time.Duration
	}{
		{Failures{}, "failed:x=1", 9 * time.Second},
		{Failures{Count: 1, Last: now.Add(-time.Minute)}, "failed:x=1", 19 * time.Second},
		{Failures{Count: 3, Last: now.Add(-30 * time.Second)}, "", 10 * time.Second},
		{Failures{Count: 40, Last: now}, "", 10 * time.Minute},
		{Failures{Count: 3, Last: now.Add(-time.Hour)}, "", 0},
		{Failures{Count: 3, Last: now.Add(-time.Second)}, "succeeded:x=0", 0},
	} {
		plan := Decide(View{Job: job(5, 1, limit(100)), Pods: pods(c.pods), Failures: c.failures}, now)
		if plan.RequeueAfter != c.again || (c.again == 0) != (len(plan.Create) == 1) {
			t.Errorf("%+v and %q: again in %v with %d pods, want %v", c.failures, c.pods, plan.RequeueAfter, len(plan.Create), c.again)
		}
	}
}

// TestCrashes takes a pod that succeeded through its three writes, with a crash after each:
// it is counted once.
func TestCrashes(t *testing.T) {
	j := job(3, 3)
	view := View{Job: j, Pods: pods("succeeded running running")}
	first := Decide(view, now)
	j.Status = first.Status // stored, and then a crash
	if got := done(Decide(view, now)); got != "free a 2/1/0" {
		t.Errorf("after the first write: %q", got)
	}
	view.Pods[0].Finalizers = nil // let go of, and then a crash
	again := Decide(view, now)
	if again.Status.Succeeded != 1 || len(again.Status.UncountedTerminatedPods.Succeeded) != 0 || len(again.Free) != 0 {
		t.Errorf("after the second write: %+v", again.Status)
	}
	j.Status = again.Status
	if got := done(Decide(view, now)); got != "2/1/0" {
		t.Errorf("after the third: %q", got)
	}
	// The view still shows the finalizer that was taken off.
	fresh := job(3, 3, counted(1, 0, ""))
	old := View{Job: fresh, Pods: pods("succeeded running running"), Freed: map[types.UID]bool{"a": true}}
	if got := done(Decide(old, now)); got != "2/1/0" {
		t.Errorf("with an old view of the pod: %q", got)
	}
}

func TestConditions(t *testing.T) {
	paused := Decide(View{Job: job(1, 1, suspended)}, now)
	if s := findCondition(paused.Status.Conditions, batchv1.JobSuspended); s == nil || s.Reason != "JobSuspended" || paused.Events[0].Reason != "Suspended" {
		t.Errorf("suspended: %+v", paused.Status.Conditions)
	}
	resumed := job(1, 1)
	resumed.Status = paused.Status
	plan := Decide(View{Job: resumed}, now.Add(time.Hour))
	if findCondition(plan.Status.Conditions, batchv1.JobSuspended) != nil || plan.Events[0].Reason != "Resumed" || !plan.Status.StartTime.Time.Equal(now.Add(time.Hour)) {
		t.Errorf("resumed: %+v from %v", plan.Status.Conditions, plan.Status.StartTime)
	}
	failing := job(1, 1, limit(0))
	plan = Decide(View{Job: failing, Pods: pods("failed")}, now)
	status, event := StatusAfterFreeing(plan, plan.Free, now)
	if findCondition(plan.Status.Conditions, batchv1.JobFailureTarget) == nil || findCondition(plan.Status.Conditions, batchv1.JobFailed) != nil ||
		findCondition(status.Conditions, batchv1.JobFailed) == nil || event.Message != "Job has reached the specified backoff limit" {
		t.Errorf("failing: %+v, then %+v, %v", plan.Status.Conditions, status.Conditions, event)
	}
	if status, event := StatusAfterFreeing(plan, nil, now); event.Reason != "" || findCondition(status.Conditions, batchv1.JobFailed) != nil {
		t.Error("over while a pod is not counted")
	}
	if stale := Decide(View{Job: failing, Pods: pods("failed"), Stale: true}, now); stale.Target != nil {
		t.Error("over in a view that is known to be old")
	}
	failing.Status = status
	if got := done(Decide(View{Job: failing, Pods: pods("running")}, now)); got != "0/0/1" {
		t.Errorf("after the end: %q", got)
	}
}

func TestIndexes(t *testing.T) {
	for _, text := range []string{"", "0", "0,1", "0-2", "1,3-5,7", "0,2,4"} {
		if got := parseIndexes(text, 10).String(); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got := parseIndexes("1,x,3-y,8-12", 10).String(); got != "1,8,9" {
		t.Errorf("%q", got)
	}
	pod := Decide(View{Job: job(3, 1, indexed, func(j *batchv1.Job) { j.Spec.Template.Spec.Containers = make([]corev1.Container, 1) })}, now).Create[0]
	if pod.GenerateName != "sum-0-" || pod.Spec.Hostname != "sum-0" || pod.Labels[batchv1.JobCompletionIndexAnnotation] != "0" ||
		pod.Spec.Containers[0].Env[0].Name != "JOB_COMPLETION_INDEX" || !IsTracked(pod) {
		t.Errorf("a pod of index 0: %+v", pod)
	}
}

// TestEndingNamespace has a pod wait for its successor, but not where there will be none.
func TestEndingNamespace(t *testing.T) {
	for _, ending := range []bool{false, true} {
		plan := Decide(View{Job: job(2, 2, perIndex(3)), Pods: pods("failed:0,x=1 running:1"), NamespaceTerminating: ending}, now)
		if let := len(plan.Free) == 1; let != ending {
			t.Errorf("the namespace ends: %v; let go of: %v", ending, plan.Free)
		}
	}
	at := &metav1.Time{Time: now}
	open, ends := &corev1.Namespace{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: at}}
	if BecomesTerminating(nil, open) || !BecomesTerminating(nil, ends) || !BecomesTerminating(open, ends) || BecomesTerminating(ends, ends) || BecomesTerminating(ends, nil) {
		t.Error("a namespace ends when it begins to be deleted, and then only")
	}
}

// TestCompleteBeforeTheStart has a Job be complete by a clock that was a day ahead when it started:
// the API refuses an end before the beginning.
func TestCompleteBeforeTheStart(t *testing.T) {
	for ahead, want := range map[time.Duration]time.Time{0: now, -time.Hour: now, 24 * time.Hour: now.Add(24 * time.Hour)} {
		its := job(1, 1)
		its.Status.StartTime = new(metav1.NewTime(now.Add(ahead)))
		plan := Decide(View{Job: its, Pods: pods("succeeded")}, now)
		status, _ := StatusAfterFreeing(plan, plan.Free, now)
		if findCondition(status.Conditions, batchv1.JobComplete) == nil || !status.CompletionTime.Time.Equal(want) {
			t.Errorf("started %v ahead: complete at %v, want %v", ahead, status.CompletionTime, want)
		}
	}
}

// TestEndsUnstarted has a Job end that was suspended all the time, with a pod that it adopted: it
// began when it ended.
func TestEndsUnstarted(t *testing.T) {
	its := job(1, 1, suspended)
	its.Status.StartTime = nil
	plan := Decide(View{Job: its, Pods: pods("succeeded")}, now)
	status, _ := StatusAfterFreeing(plan, plan.Free, now)
	if findCondition(status.Conditions, batchv1.JobComplete) == nil || status.StartTime == nil || !status.StartTime.Time.Equal(now) {
		t.Errorf("%+v", status)
	}
}

// TestNothingToDo has a suspended Job end that wants nobody to succeed: it never began (kubernetes 132614).
func TestNothingToDo(t *testing.T) {
	its := job(0, 1, suspended)
	its.Status.StartTime = nil
	plan := Decide(View{Job: its}, now)
	status, _ := StatusAfterFreeing(plan, plan.Free, now)
	if findCondition(status.Conditions, batchv1.JobComplete) == nil || status.StartTime != nil || status.CompletionTime == nil {
		t.Errorf("%+v", status)
	}
}
