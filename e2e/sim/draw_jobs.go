package sim

import (
	"math"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Task is what a Job asks for beside its completions; the zero one goes on however often its
// pods fail or are taken from it.
type Task struct {
	Indexed   bool `json:"indexed,omitempty"`
	OnFailure bool `json:"onFailure,omitempty"`
	// Manual has it select its pods by the label app, as sets do: another Job of its name may
	// adopt them.
	Manual bool `json:"manual,omitempty"`
	// Limit, PerIndex and MaxFailed are its backoffLimit, backoffLimitPerIndex and
	// maxFailedIndexes.
	Limit     *int32 `json:"limit,omitempty"`
	PerIndex  *int32 `json:"perIndex,omitempty"`
	MaxFailed *int32 `json:"maxFailed,omitempty"`
	// Deadline and TTL are activeDeadlineSeconds and ttlSecondsAfterFinished.
	Deadline *int64 `json:"deadline,omitempty"`
	TTL      *int32 `json:"ttl,omitempty"`
	// Fatal is what its podFailurePolicy does about codeFatal; empty for no policy.
	Fatal batchv1.PodFailurePolicyAction `json:"fatal,omitempty"`
	// FailedOnly has a pod be replaced when it has ended, and not before.
	FailedOnly bool `json:"failedOnly,omitempty"`
	// Enough is how many indexes its successPolicy wants; zero for no policy.
	Enough int32 `json:"enough,omitempty"`
}

// The exit codes of applications that fail: one that a podFailurePolicy ignores, and one for
// which it gives up.
const (
	codeFails   = 1
	codeIgnored = 3
	codeFatal   = 42
)

// give gives a Job what its task asks for.
func (t Task) give(spec *batchv1.JobSpec, called string) {
	spec.BackoffLimit = t.Limit
	if t.Limit == nil {
		spec.BackoffLimit = new(int32(math.MaxInt32))
	}
	spec.BackoffLimitPerIndex, spec.MaxFailedIndexes = t.PerIndex, t.MaxFailed
	spec.ActiveDeadlineSeconds, spec.TTLSecondsAfterFinished = t.Deadline, t.TTL
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if t.OnFailure {
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	if t.Indexed {
		spec.CompletionMode = new(batchv1.IndexedCompletion)
	}
	if t.Manual {
		spec.ManualSelector, spec.Selector = new(true), selector(called)
	}
	if t.FailedOnly {
		spec.PodReplacementPolicy = new(batchv1.Failed)
	}
	if t.Enough > 0 {
		spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: new(t.Enough)}}}
	}
	if t.Fatal != "" {
		spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: t.Fatal, OnExitCodes: codes(codeFatal)},
			{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: codes(codeIgnored)},
			{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			},
		}}
	}
}

func codes(code int32) *batchv1.PodFailurePolicyOnExitCodesRequirement {
	return &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code}}
}

// jobPause is how long it takes from one Job to the next.
const jobPause = 10 * time.Minute

// jobDeeds make Jobs in a life of three, and take pods from them, or the Job from its pods.
func jobDeeds(seed uint64, until time.Duration) (all []Deed) {
	if !diceOf(seed, "jobs", 0).one(3) {
		return nil
	}
	for n := 1; time.Duration(n)*jobPause <= until-time.Minute; n++ {
		d := diceOf(seed, "job", n)
		made := Deed{
			At: time.Duration(n-1)*jobPause + d.between(15*time.Second, jobPause/2), Do: CreateJob, Name: "task-" + strconv.Itoa(n),
			Count: int32(1 + d.below(5)), Grace: grace(d), App: app(d), Shape: setShape(d),
		}
		made.App.Runs, made.App.Code = d.between(time.Second, time.Minute), 0
		demand(diceOf(seed, "task", n), &made)
		all = append(all, made)
		for range d.below(5) {
			all = append(all, taken(d, made.Name, made.At+time.Second, made.At+jobPause/3))
		}
		if d.one(4) {
			all = append(all, Deed{At: made.At + d.between(0, jobPause/3), Do: DeleteJob, Name: made.Name})
		}
		all = append(all, meddled(diceOf(seed, "task handed on", n), made)...)
	}
	return all
}

// demand gives every other Job a task, and pods that fail.
func demand(d *dice, made *Deed) {
	if d.one(2) {
		return
	}
	made.App.Fails = pick[int32](d, 0, 20, 40, 70)
	t := Task{Indexed: !d.one(3), OnFailure: d.one(4), Manual: d.one(3), FailedOnly: d.one(3)}
	if t.Limit = new(pick[int32](d, 0, 1, 2, 4)); made.App.Fails == 0 && d.one(2) {
		t.Limit = nil
	}
	if t.Indexed && !t.OnFailure && !d.one(3) {
		t.PerIndex, t.MaxFailed = new(pick[int32](d, 0, 1, 2)), pick(d, nil, nil, new(int32(0)), new(int32(1)))
		t.Limit = pick(d, nil, nil, t.Limit)
	}
	if !t.OnFailure && d.one(2) {
		if t.Fatal = batchv1.PodFailurePolicyActionFailJob; t.PerIndex != nil && d.one(2) {
			t.Fatal = batchv1.PodFailurePolicyActionFailIndex
		}
	}
	if t.Indexed && d.one(4) {
		t.Enough = int32(1 + d.below(int(made.Count)))
	}
	if d.one(4) {
		t.Deadline = new(int64(d.between(5*time.Second, 2*time.Minute) / time.Second))
	}
	if d.one(4) {
		t.TTL = new(pick[int32](d, 0, 5, 60))
	}
	made.Shape.Task = t
}

// meddled are deeds that hold a Job up, take its pods out of its hands, or give them to another
// of its name.
func meddled(d *dice, made Deed) (all []Deed) {
	within := func() time.Duration { return made.At + d.between(0, jobPause/3) }
	if d.one(3) {
		held := Deed{At: within(), Do: SuspendJob, Name: made.Name}
		all = append(all, held, Deed{At: held.At + whileAway(d), Do: ResumeJob, Name: made.Name})
	}
	if !made.Shape.Task.Manual {
		return all
	}
	for range d.below(3) {
		off := Deed{At: within(), Do: Unlabel, Name: made.Name, Count: int32(d.below(3))}
		all = append(all, off, Deed{At: off.At + whileAway(d), Do: Relabel, Name: made.Name})
	}
	if d.one(2) {
		gone, again := Deed{At: within(), Do: DeleteJob, Name: made.Name, Policy: pick(d, slices.Concat(policies(), policies()[2:])...)}, made
		again.At = gone.At + whileAway(d)
		all = append(all, gone, again)
	}
	return all
}
