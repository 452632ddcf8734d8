package sim

import (
	"math"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// JobOptions holds what a Job asks for besides its completions. The zero value retries for ever.
type JobOptions struct {
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
	// Fatal is the action of its podFailurePolicy for codeFatal; empty for no policy.
	Fatal batchv1.PodFailurePolicyAction `json:"fatal,omitempty"`
	// FailedOnly has a pod be replaced when it has ended, and not before.
	FailedOnly bool `json:"failedOnly,omitempty"`
	// Enough is how many indexes its successPolicy wants; 0 for no policy.
	Enough int32 `json:"enough,omitempty"`
}

// The exit codes of applications that fail: one that a podFailurePolicy ignores, and one for
// which it gives up.
const (
	codeFails   = 1
	codeIgnored = 3
	codeFatal   = 42
)

// apply applies the options to a Job.
func (t JobOptions) apply(spec *batchv1.JobSpec, called string) {
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

// jobPause is the time from one Job to the next.
const jobPause = 10 * time.Minute

// drawJobActions creates Jobs in one of three runs, and deletes pods of theirs, or the Jobs.
func drawJobActions(seed uint64, until time.Duration) (all []Action) {
	if !newDice(seed, "jobs", 0).oneIn(3) {
		return nil
	}
	for n := 1; time.Duration(n)*jobPause <= until-time.Minute; n++ {
		d := newDice(seed, "job", n)
		made := Action{
			At: time.Duration(n-1)*jobPause + d.between(15*time.Second, jobPause/2), Kind: CreateJob, Name: "task-" + strconv.Itoa(n),
			Count: int32(1 + d.below(5)), Grace: drawGrace(d), App: drawApp(d), Shape: drawSetShape(d),
		}
		made.App.Runs, made.App.Code = d.between(time.Second, time.Minute), 0
		drawJobOptions(newDice(seed, "task", n), &made)
		all = append(all, made)
		for range d.below(5) {
			all = append(all, drawPodDeletion(d, made.Name, made.At+time.Second, made.At+jobPause/3))
		}
		if d.oneIn(4) {
			all = append(all, Action{At: made.At + d.between(0, jobPause/3), Kind: DeleteJob, Name: made.Name})
		}
		all = append(all, drawJobDisturbances(newDice(seed, "task handed on", n), made)...)
	}
	return all
}

// drawJobOptions gives every other Job options, and pods that fail.
func drawJobOptions(d *dice, made *Action) {
	if d.oneIn(2) {
		return
	}
	made.App.Fails = pick[int32](d, 0, 20, 40, 70)
	t := JobOptions{Indexed: !d.oneIn(3), OnFailure: d.oneIn(4), Manual: d.oneIn(3), FailedOnly: d.oneIn(3)}
	if t.Limit = new(pick[int32](d, 0, 1, 2, 4)); made.App.Fails == 0 && d.oneIn(2) {
		t.Limit = nil
	}
	if t.Indexed && !t.OnFailure && !d.oneIn(3) {
		t.PerIndex, t.MaxFailed = new(pick[int32](d, 0, 1, 2)), pick(d, nil, nil, new(int32(0)), new(int32(1)))
		t.Limit = pick(d, nil, nil, t.Limit)
	}
	if !t.OnFailure && d.oneIn(2) {
		if t.Fatal = batchv1.PodFailurePolicyActionFailJob; t.PerIndex != nil && d.oneIn(2) {
			t.Fatal = batchv1.PodFailurePolicyActionFailIndex
		}
	}
	if t.Indexed && d.oneIn(4) {
		t.Enough = int32(1 + d.below(int(made.Count)))
	}
	if d.oneIn(4) {
		t.Deadline = new(int64(d.between(5*time.Second, 2*time.Minute) / time.Second))
	}
	if d.oneIn(4) {
		t.TTL = new(pick[int32](d, 0, 5, 60))
	}
	made.Shape.Job = t
}

// drawJobDisturbances suspends a Job, relabels its pods, or hands them to another Job of the same
// name.
func drawJobDisturbances(d *dice, made Action) (all []Action) {
	within := func() time.Duration { return made.At + d.between(0, jobPause/3) }
	if d.oneIn(3) {
		held := Action{At: within(), Kind: SuspendJob, Name: made.Name}
		all = append(all, held, Action{At: held.At + drawAbsence(d), Kind: ResumeJob, Name: made.Name})
	}
	if !made.Shape.Job.Manual {
		return all
	}
	for range d.below(3) {
		off := Action{At: within(), Kind: Unlabel, Name: made.Name, Count: int32(d.below(3))}
		all = append(all, off, Action{At: off.At + drawAbsence(d), Kind: Relabel, Name: made.Name})
	}
	if d.oneIn(2) {
		gone, again := Action{At: within(), Kind: DeleteJob, Name: made.Name, Policy: pick(d, slices.Concat(propagationPolicies(), propagationPolicies()[2:])...)}, made
		again.At = gone.At + drawAbsence(d)
		all = append(all, gone, again)
	}
	return all
}
